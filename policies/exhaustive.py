"""Exhaustive: the best of all placements, for small graphs; what others are measured against.

Ops are decided in the order of the graph, depth first. What cannot become better than the best so
far is left out, by what holds under every machine model: a device runs its ops one by one, an op
waits for those that it reads from and for transfers, and weights take memory. Devices that can be
swapped without changing anything are taken into use in their order.
"""

from contextlib import suppress

import numpy as np
from numpy.typing import NDArray

from dplace.bounds.units import op_bytes, room_of
from dplace.errors import MemoryLimitError, UsageError
from dplace.lowering import Evaluator, Score
from dplace.placement import allowed_devices, movable_units
from dplace.policies.alike import alike_devices
from dplace.policies.heft import heft
from dplace.policies.m_etf import m_etf
from dplace.policies.memory import no_room
from dplace.policies.single import single
from dplace.policies.transfer_times import given_transfer_s

__all__ = ["MOST_PLACEMENTS", "exhaustive", "num_placements"]

Placement = NDArray[np.int32]

MOST_PLACEMENTS = 2_000_000
"""More than these are refused; how many are simulated depends on what can be left out."""

ROUNDING = 1.0 + 1e-12
"""Sums are made in another order here than on the clock: no less than this is an improvement."""


def exhaustive(evaluator: Evaluator, *, rng: np.random.Generator, evaluations: int) -> Placement:
    """Return a placement that none beats, under the best rule for each; however few evaluations.

    Raises:
        UsageError: There are too many placements.
        MemoryLimitError: No placement fits.
    """
    problem = evaluator.problem
    if num_placements(evaluator) > MOST_PLACEMENTS:
        raise UsageError(
            f"--policy exhaustive: {problem.graph.name} has more than {MOST_PLACEMENTS:,} "
            f"placements on {problem.cluster.spec}; pin ops, take fewer devices, or use "
            "--policy auto"
        )
    search = _Search(evaluator)
    for quick in (single, heft, m_etf):
        with suppress(MemoryLimitError):
            search.enter(quick(evaluator, rng=rng, evaluations=evaluations))
    search.run()
    if search.best is None or search.score.overflow_bytes:
        overflow = None if search.best is None else evaluator.overflow_bytes(search.best)
        raise no_room(problem, search.score, overflow)
    return search.best


def num_placements(evaluator: Evaluator) -> int:
    """Return the number of placements that are allowed, those that are alike counted once.

    Counting ends once there are too many.
    """
    problem = evaluator.problem
    _, heads = np.unique(movable_units(problem), return_index=True)
    allowed = allowed_devices(problem)[heads]
    classes = alike_devices(evaluator)
    # Ways by how many devices of each class are in use; of a class of one that does not matter.
    ways: dict[tuple[int, ...], int] = {(0,) * len(classes): 1}
    for row in allowed:
        following: dict[tuple[int, ...], int] = {}
        for used, times in ways.items():
            for index, devices in enumerate(classes):
                if not row[devices[0]]:
                    continue
                again = used[index] if len(devices) > 1 else 1
                if again:
                    following[used] = following.get(used, 0) + times * again
                if 1 < len(devices) != used[index]:
                    more = (*used[:index], used[index] + 1, *used[index + 1 :])
                    following[more] = following.get(more, 0) + times
        ways = following
        if sum(ways.values()) > MOST_PLACEMENTS:
            break
    return sum(ways.values())


def _away_s(evaluator: Evaluator) -> NDArray[np.float64]:
    """Return what lies at least between the maker of a value and a reader, in seconds.

    Returns:
        Shape ``(num_values, num_devices, num_devices)``, from row to column.
    """
    problem, tables = evaluator.problem, evaluator.tables
    num_values, num = problem.graph.num_values, problem.num_devices
    if problem.machine == "dnn-partitioning":
        return np.zeros((num_values, num, num))
    size = problem.graph.value_bytes[:, None, None]
    away_s = tables.links["latency"] + size / tables.links["bytes_per_s"]
    away_s = away_s + tables.devices["overhead"]
    if (given := given_transfer_s(problem)) is not None:
        away_s = away_s + given
    away_s[:, np.arange(num), np.arange(num)] = 0.0
    return np.asarray(away_s)


class _Search:
    """A depth-first search, op by op."""

    def __init__(self, evaluator: Evaluator) -> None:
        problem = evaluator.problem
        graph = problem.graph
        self.best: Placement | None = None
        self.score = Score(2**62, np.inf, 0)
        self._evaluator = evaluator
        self._unit: list[int] = movable_units(problem).tolist()
        self._allowed: list[list[int]] = [
            np.flatnonzero(row).tolist() for row in allowed_devices(problem)
        ]
        self._seconds: list[list[float]] = problem.seconds.tolist()
        self._classes = alike_devices(evaluator)
        self._class_of = {d: index for index, row in enumerate(self._classes) for d in row}
        self._reads = [
            [(int(graph.value_producer[v]), int(v)) for v in graph.inputs_of(op)]
            for op in range(graph.num_ops)
        ]
        self._away_s = _away_s(evaluator)
        self._bytes: list[float] = op_bytes(problem).tolist()
        self._room: list[float] = (room_of(problem) * (1 + 1e-9)).tolist()
        self._call_s = float(evaluator.tables.devices["overhead"].min())
        for device in problem.cluster.devices:
            if device.single_call_overhead_s is not None:
                self._call_s = min(self._call_s, device.single_call_overhead_s)
        fastest = np.where(allowed_devices(problem), problem.seconds, np.inf).min(axis=1)
        self._after = [0.0] * graph.num_ops
        """Longest path behind an op, each op at its fastest."""
        for op in range(graph.num_ops - 1, -1, -1):
            for maker, _ in self._reads[op]:
                if maker >= 0:
                    rest = float(fastest[op]) + self._after[op]
                    self._after[maker] = max(self._after[maker], rest)
        self._work: list[float] = [*np.cumsum(fastest[::-1])[::-1].tolist(), 0.0]
        """Work of an op and all later ones, each at its fastest."""
        # In a stream requests overlap; host memory's cores are many in dnn-partitioning.
        self._has_path = problem.objective == "latency"
        self._one_by_one: list[bool] = (~problem.is_host).tolist()

    def enter(self, placement: Placement) -> None:
        """Score a placement and keep the best."""
        score, _ = self._evaluator.best_rule(placement)
        if self.best is None or score[:2] < self.score[:2]:
            self.best, self.score = placement.copy(), score

    def run(self) -> None:
        """Try all placements."""
        num_ops, num_devices = len(self._allowed), len(self._one_by_one)
        self._end_s = [0.0] * num_ops
        self._load_s: list[list[float]] = [[0.0] * num_devices]
        self._held: list[list[float]] = [[0.0] * num_devices]
        self._users = [0] * num_devices
        placement = np.full(num_ops, -1, dtype=np.int32)
        device_of_unit: dict[int, tuple[int, int]] = {}
        left = [self._choices(0, None)] if num_ops else []
        while left:
            op = len(left) - 1
            unit = self._unit[op]
            if placement[op] >= 0:  # has been tried
                self._users[placement[op]] -= 1
                self._load_s.pop()
                self._held.pop()
                placement[op] = -1
                if device_of_unit[unit][0] == op:
                    del device_of_unit[unit]
            if not left[-1]:
                left.pop()
                continue
            device = left[-1].pop(0)
            placement[op] = device
            device_of_unit.setdefault(unit, (op, device))
            self._users[device] += 1
            if self._is_hopeless(op, device, placement):
                continue
            if op + 1 == num_ops:
                self.enter(placement)
            else:
                home = device_of_unit.get(self._unit[op + 1])
                left.append(self._choices(op + 1, home and home[1]))

    def _is_hopeless(self, op: int, device: int, placement: Placement) -> bool:
        """Put an op on a device; return whether no way to go on beats the best so far."""
        start = 0.0
        for maker, value in self._reads[op]:
            if maker >= 0:
                away_s = self._away_s.item(value, placement[maker], device)
                start = max(start, self._end_s[maker] + away_s)
        self._end_s[op] = start + self._seconds[op][device]
        # Copied, not added and taken off again: what a sum is must not depend on the way to it.
        load, held = self._load_s[-1].copy(), self._held[-1].copy()
        load[device] += self._seconds[op][device]
        held[device] += self._bytes[op]
        self._load_s.append(load)
        self._held.append(held)
        if held[device] > self._room[device]:
            return True
        if self.score.overflow_bytes:
            return False
        counted = [time for time, one in zip(load, self._one_by_one, strict=True) if one]
        bound = max(counted, default=0.0)
        if len(counted) == len(load):
            bound = max(bound, (sum(counted) + self._work[op + 1]) / len(counted))
        if self._has_path:
            bound = max(bound, self._end_s[op] + self._after[op])
        return (self._call_s + bound) * ROUNDING >= self.score.makespan_s

    def _choices(self, op: int, home: int | None) -> list[int]:
        """Return the devices for an op; of those that are alike and not in use, the first."""
        if home is not None:
            return [home]
        found: list[int] = []
        seen: set[int] = set()
        for device in self._allowed[op]:
            if not self._users[device]:
                if self._class_of[device] in seen:
                    continue
                seen.add(self._class_of[device])
            found.append(device)
        return found
