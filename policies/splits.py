"""Splits of an order of ops into runs, a device each: starts for a search.

Few values cross between runs, and runs never wait for each other in a circle. By equal shares of
the work on a few devices, or, where a stream of requests counts, by the smallest largest load.
"""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dplace.lowering import Evaluator
from dplace.placement import allowed_devices, counted_bytes, movable_units, repair
from dplace.policies.transfer_times import mean_transfer_s
from dplace.problem import Problem

if TYPE_CHECKING:
    from dplace.simulator.loads import LoadSearch

__all__ = ["join", "splits"]

Placement = NDArray[np.int32]

JOINED = (1.0, 0.5, 0.25, 0.12, 0.06, 0.03)
"""Shares of the best load: values whose transfer takes longer are not cut."""

LARGEST_EXACT = 3000
"""Units beyond which the exact split, whose time grows with their square, is not made."""


def splits(evaluator: Evaluator) -> list[Placement]:
    """Return placements that differ, most of which fit in memory."""
    problem = evaluator.problem
    if problem.num_ops == 0 or problem.num_devices == 1:
        return []
    unit = movable_units(problem)
    devices = _by_speed(evaluator)
    found: dict[bytes, Placement] = {}
    for order in (np.arange(problem.num_ops), evaluator.mean_order):
        groups = _groups(order, unit)
        for count in _counts(len(devices)):
            placement = _equal_shares(evaluator, groups, devices[:count])
            found.setdefault(placement.tobytes(), placement)
        if problem.objective == "throughput" and len(groups) <= LARGEST_EXACT:
            for placement in _least_loads(evaluator, order, unit, devices):
                found.setdefault(placement.tobytes(), placement)
    return list(found.values())


def _groups(order: NDArray[np.integer], unit: Placement) -> list[NDArray[np.int64]]:
    """Return the ops of each unit; the units in the order of their first ops."""
    ordered = unit[order]
    _, first, index = np.unique(ordered, return_index=True, return_inverse=True)
    rank = np.argsort(np.argsort(first))[index]
    by_unit = np.argsort(rank, kind="stable")
    ends = np.cumsum(np.bincount(rank))[:-1]
    return [np.asarray(ops, dtype=np.int64) for ops in np.split(order[by_unit], ends)]


def join(problem: Problem, unit: Placement, values: NDArray[np.integer]) -> Placement:
    """Return units such that none of some values crosses between two of them."""
    graph = problem.graph
    parent = list(range(int(unit.max(initial=-1)) + 1))

    def root(index: int) -> int:
        while parent[index] != index:
            parent[index] = parent[parent[index]]
            index = parent[index]
        return index

    for value in values.tolist():
        for reader in graph.consumers_of(value).tolist():
            parent[root(int(unit[reader]))] = root(int(unit[graph.value_producer[value]]))
    roots = np.array([root(index) for index in range(len(parent))], dtype=np.int64)
    _, joined = np.unique(roots[unit], return_inverse=True)
    return joined.astype(np.int32)


def _by_speed(evaluator: Evaluator) -> list[int]:
    """Return the devices that can run at least half of the ops, the fastest first."""
    problem = evaluator.problem
    allowed = allowed_devices(problem)
    times = np.where(allowed, problem.seconds, 0.0).sum(axis=0) / np.maximum(allowed.sum(axis=0), 1)
    able = [device for device in range(problem.num_devices) if allowed[:, device].mean() >= 0.5]
    return sorted(able, key=lambda device: (float(times[device]), device))


def _counts(num: int) -> list[int]:
    """Return numbers of devices to split over: all up to 8, then a few."""
    return [count for count in range(2, num + 1) if count <= 8 or count in (12, 16, 32, num)]


def _bytes_of_ops(problem: Problem) -> NDArray[np.float64]:
    """Return the bytes of weights that each op reads, shape ``(num_ops,)``."""
    graph = problem.graph
    reads = np.repeat(np.arange(graph.num_ops), np.diff(graph.weight_offsets))
    weights = counted_bytes(problem).weights[graph.op_weights]
    return np.bincount(reads, weights=weights, minlength=graph.num_ops).astype(np.float64)


def _equal_shares(
    evaluator: Evaluator, groups: list[NDArray[np.int64]], devices: list[int]
) -> Placement:
    """Return runs of about the same work on each of some devices, cut earlier where memory ends."""
    problem = evaluator.problem
    seconds = np.where(np.isfinite(problem.seconds), problem.seconds, 0.0)[:, devices].mean(axis=1)
    of_op = _bytes_of_ops(problem)
    capacity = evaluator.engine.capacity
    placement = np.full(problem.num_ops, devices[-1], dtype=np.int32)
    total = float(seconds.sum())
    done, at, held = 0.0, 0, 0.0
    for ops in groups:
        work, size = float(seconds[ops].sum()), float(of_op[ops].sum())
        is_full = held + size > capacity[devices[at]]
        is_done = done + work / 2 > total * (at + 1) / len(devices)
        if at + 1 < len(devices) and (is_full or is_done):
            at += 1
            held = 0.0
        placement[ops] = devices[at]
        held += size
        done += work
    return repair(problem, placement)


def _least_loads(
    evaluator: Evaluator, order: NDArray[np.integer], unit: Placement, devices: list[int]
) -> list[Placement]:
    """Return the splits with the smallest largest load over the devices that are alike.

    A value whose transfer takes longer than the best load so far crosses in no better split, so
    what makes and reads it is joined first; joining more than that often does better still, for
    the order of what is left then follows the heavy values.
    """
    from dplace.simulator.loads import make_load_search

    problem = evaluator.problem
    fastest = [
        d for d in devices if (problem.seconds[:, d] == problem.seconds[:, devices[0]]).all()
    ]
    search = make_load_search(problem, evaluator.tables)
    if len(search.host_s):
        transfer_s = search.host_s.reshape(-1, problem.num_devices)[:, fastest[0]].copy()
    else:
        transfer_s = mean_transfer_s(evaluator)
    found: list[Placement] = []
    best_s = np.inf
    for share in (np.inf, *JOINED):
        heavy = np.flatnonzero(
            (transfer_s >= share * min(best_s, 1e30)) & (problem.graph.value_producer >= 0)
        )
        groups = _groups(order, join(problem, unit, heavy) if heavy.size else unit)
        for count in _counts(len(fastest)):
            placement = _best_runs(evaluator, search, groups, transfer_s, fastest[:count])
            if placement is not None:
                found.append(placement)
                best_s = min(best_s, evaluator.score(placement).makespan_s)
    return found


def _best_runs(
    evaluator: Evaluator,
    search: "LoadSearch",
    groups: list[NDArray[np.int64]],
    transfer_s: NDArray[np.float64],
    devices: list[int],
) -> Placement | None:
    """Return the split of the groups, as they stand, with the smallest largest load."""
    from dplace.simulator.intervals import best_runs

    problem = evaluator.problem
    seconds = np.where(np.isfinite(problem.seconds), problem.seconds, 0.0)
    starts = best_runs(
        search.op_tables,
        search.input_offsets,
        search.input_values,
        groups,
        seconds[:, devices[0]].copy(),
        _bytes_of_ops(problem),
        transfer_s,
        len(devices),
        float(evaluator.engine.capacity[devices[0]]),
    )
    if starts is None:
        return None
    placement = np.zeros(problem.num_ops, dtype=np.int32)
    for index, (start, end) in enumerate(zip(starts, [*starts[1:], len(groups)], strict=True)):
        for ops in groups[start:end]:
            placement[ops] = devices[index]
    return repair(problem, placement)
