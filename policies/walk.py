"""The compiled search from Python: what it may move, what it minds, and one annealing."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dplace.lowering import Evaluator
from dplace.placement import allowed_devices, movable_units
from dplace.policies.regions import Clusters, branches, cluster, edges, heavy_clusters, neighbours
from dplace.problem import Problem
from dplace.rules import Rule, Score

if TYPE_CHECKING:
    from dplace.simulator.anneal import Memory
    from dplace.simulator.search_moves import Moves

__all__ = ["Walker"]

Placement = NDArray[np.int32]

KINDS = {
    "single": 0.20,
    "cluster": 0.25,
    "border": 0.22,
    "component": 0.08,
    "window": 0.10,
    "run": 0.07,
    "branch": 0.08,
}
"""How often a move is about what, in the order of ``dplace/simulator/search_moves.py``."""
SWAPS = {"latency": 0.05, "throughput": 0.25}
"""How often two ops change places: what balances loads."""
OPS_AT_A_TIME = 1_000_000
"""Ops to simulate between two looks at the clock: some tenths of a second."""


def make_moves(problem: Problem, rng: np.random.Generator) -> "Moves":
    """Return what moves there are of a problem's ops."""
    from dplace.simulator.search_moves import Moves

    graph = problem.graph
    unit = movable_units(problem)
    clusters, _ = cluster(problem)
    if problem.objective == "throughput":
        # There a transfer is never hidden behind compute, so what is slow to move goes together.
        clusters = _both(clusters, heavy_clusters(problem, unit, _transfer_times(problem)))
    found = branches(graph)
    near = neighbours(graph)
    pairs = edges(graph)
    both = np.concatenate([pairs, pairs[:, ::-1]])
    both = both[np.argsort(both[:, 0], kind="stable")]
    return Moves(
        leaves=clusters.leaves,
        node_start=np.ascontiguousarray(clusters.start, dtype=np.int32),
        node_end=np.ascontiguousarray(clusters.end, dtype=np.int32),
        branch_offsets=_offsets(np.array([len(ops) for ops in found], dtype=np.int64)),
        branch_ops=np.concatenate([np.zeros(0, np.int32), *found]).astype(np.int32),
        near_offsets=_offsets(np.bincount(both[:, 0], minlength=graph.num_ops)),
        near=both[:, 1].astype(np.int32),
        before_offsets=near.before_offsets,
        before=near.before,
        after_offsets=near.after_offsets,
        after=near.after,
        edges=pairs.astype(np.int32).ravel(),
        unit=unit,
        unit_offsets=_offsets(np.bincount(unit)),
        unit_ops=np.argsort(unit, kind="stable").astype(np.int32),
        allowed=_worth_trying(problem).ravel().copy(),
        num_devices=problem.num_devices,
        thresholds=np.cumsum(list(KINDS.values())),
        swap_chance=SWAPS[problem.objective],
        rng=rng.integers(1, 2**63, 1).astype(np.uint64),
        ops=np.zeros(graph.num_ops, dtype=np.int32),
        devices=np.zeros(graph.num_ops, dtype=np.int32),
        hint=np.zeros(1, dtype=np.int32),
        mark=np.zeros(graph.num_ops, dtype=np.int32),
    )


def _worth_trying(problem: Problem) -> NDArray[np.bool_]:
    """Return where ops may go; of CPUs that run any number of ops at a time, one is enough."""
    allowed = allowed_devices(problem)
    if problem.objective == "latency":
        hosts = np.flatnonzero(problem.is_host)
        alike = [
            at for at in hosts[1:] if (problem.seconds[:, at] == problem.seconds[:, hosts[0]]).all()
        ]
        for at in alike:
            allowed[problem.pins < 0, at] = False
    return allowed


def _transfer_times(problem: Problem) -> NDArray[np.float64]:
    """Return about what each value costs that crosses, in seconds; shape ``(num_values,)``."""
    given, hardware = problem.transfer_s, problem.cluster
    if given is not None:
        return np.asarray(given.mean(axis=(1, 2)))
    apart = ~np.eye(problem.num_devices, dtype=np.bool_)
    if not apart.any():
        return np.zeros(problem.graph.num_values)
    latency_s = float(hardware.latency_s[apart].mean())
    s_per_byte = float((1 / hardware.bytes_per_s[apart]).mean())
    return np.asarray(latency_s + problem.graph.value_bytes * s_per_byte, dtype=np.float64)


def _both(one: Clusters, other: Clusters) -> Clusters:
    """Return the clusters of two trees, by ascending size."""
    start = np.concatenate([one.start, other.start + len(one.leaves)])
    end = np.concatenate([one.end, other.end + len(one.leaves)])
    order = np.argsort(end - start, kind="stable")
    return Clusters(
        leaves=np.concatenate([one.leaves, other.leaves]), start=start[order], end=end[order]
    )


def _offsets(counts: NDArray[np.integer]) -> Placement:
    return np.concatenate([[0], np.cumsum(counts, dtype=np.int64)]).astype(np.int32)


def make_memory(evaluator: Evaluator) -> "Memory":
    """Return what ops hold all the time, for machines where nothing else counts."""
    from dplace.simulator.anneal import Memory

    problem = evaluator.problem
    graph = problem.graph
    is_tight = evaluator.is_memory_tight
    num_cells = len(graph.weight_bytes) * problem.num_devices if is_tight else 0
    return Memory(
        op_offsets=np.array(graph.weight_offsets, dtype=np.int32),
        op_weights=np.array(graph.op_weights, dtype=np.int32),
        weight_bytes=graph.weight_bytes.astype(np.float64),
        readers=np.zeros(num_cells, dtype=np.int32),
        held=np.zeros(problem.num_devices),
        capacity=evaluator.engine.capacity.astype(np.float64),
        is_tight=is_tight,
    )


class Walker:
    """Anneals placements of one problem, and keeps the best of the walk that it is on."""

    def __init__(self, evaluator: Evaluator, rng: np.random.Generator, start: Placement) -> None:
        from dplace.simulator.anneal import make_walk

        self._evaluator = evaluator
        self._rng = rng
        self._problem = evaluator.problem
        self._moves = make_moves(self._problem, rng)
        self._memory = make_memory(evaluator)
        self._walk = make_walk(evaluator.problem.num_ops)
        self._score = Score(0, np.inf, 0)
        # Whoever asks before the first walk has begun gets a placement that is one.
        self._walk.best[:] = start

    def tie(self, problem: Problem) -> None:
        """Keep together, from now on, the ops that are tied in this view of the same problem."""
        if problem is not self._problem:
            self._problem = problem
            unit = movable_units(problem)
            self._moves = self._moves._replace(
                unit=unit,
                unit_offsets=_offsets(np.bincount(unit)),
                unit_ops=np.argsort(unit, kind="stable").astype(np.int32),
                allowed=_worth_trying(problem).ravel().copy(),
            )

    def reseed(self, seed: int) -> None:
        """Let the walks that follow depend on ``seed`` and on nothing before."""
        self._rng = np.random.default_rng(seed)
        self._moves.rng[:] = self._rng.integers(1, 2**63, 1).astype(np.uint64)
        self._moves.hint[:] = 0

    @property
    def best(self) -> Placement:
        """Return the best placement of the walk so far."""
        return self._walk.best.copy()

    def anneal(
        self, start: Placement, rule: Rule, *, steps: int, hot: float, cold: float, slope: float
    ) -> Placement:
        """Return the best placement that a walk from ``start`` meets.

        Args:
            start: Shape ``(num_ops,)``.
            rule: How placements are judged all the way.
            steps: Placements to judge.
            hot: First temperature, as a share of the makespan.
            cold: Last temperature.
            slope: See ``dplace/simulator/anneal.py``.
        """
        from dplace.simulator.anneal import BEST_TIME, anneal

        evaluator, walk = self._evaluator, self._walk
        walk.current[:] = start
        walk.best[:] = start
        walk.figures[:] = np.inf
        state = evaluator.engine.search_state(rule, evaluator.order(rule, start))
        at_a_time = max(1, OPS_AT_A_TIME // len(start))
        done = 0
        while done < steps:
            count = min(at_a_time, steps - done)
            first = hot * (cold / hot) ** (done / steps)
            last = hot * (cold / hot) ** ((done + count) / steps)
            if state is None:
                judged = self._judge_one_by_one(rule, count, first, last, is_new=done == 0)
            else:
                judged = int(
                    anneal(
                        state,
                        self._moves,
                        self._memory,
                        walk,
                        count,
                        first,
                        last,
                        slope,
                        done == 0,
                    )
                )
                evaluator.evaluations += judged
            evaluator.tell(float(walk.figures[BEST_TIME]))
            if judged < count:  # there is nothing to move
                break
            done += count
        return self.best

    def _judge_one_by_one(
        self, rule: Rule, steps: int, hot: float, cold: float, *, is_new: bool
    ) -> int:
        """Walk on, judged by ``Evaluator.score``: where memory depends on when things happen."""
        from dplace.simulator.anneal import BEST_OVERFLOW, BEST_TIME
        from dplace.simulator.search_moves import draw_move

        evaluator, walk, moves = self._evaluator, self._walk, self._moves
        if is_new:
            self._score = evaluator.score(walk.current, rule)
            walk.figures[BEST_TIME] = self._score.makespan_s
            walk.figures[BEST_OVERFLOW] = self._score.overflow_bytes
        judged = int(is_new)
        idle = 0
        while judged < steps and idle < 1000:
            count = draw_move(moves, walk.current)
            idle = 0 if count else idle + 1
            if not count:
                continue
            ops, devices = moves.ops[:count].copy(), moves.devices[:count].copy()
            before = walk.current[ops].copy()
            walk.current[ops] = devices
            new = evaluator.score(walk.current, rule)
            judged += 1
            temperature = hot * (cold / hot) ** (judged / steps)
            if not _accepts(new, self._score, temperature, self._rng.random()):
                walk.current[ops] = before
                continue
            self._score = new
            if new[:2] < (walk.figures[BEST_OVERFLOW], walk.figures[BEST_TIME]):
                walk.figures[BEST_TIME] = new.makespan_s
                walk.figures[BEST_OVERFLOW] = new.overflow_bytes
                walk.best[:] = walk.current
        return judged


def _accepts(new: Score, old: Score, temperature: float, draw: float) -> bool:
    """Return whether to go on from ``new``; ``draw`` is uniform between 0 and 1."""
    if new <= old:
        return True
    if new.overflow_bytes > old.overflow_bytes:
        return False
    loss = new.makespan_s / max(old.makespan_s, 1e-30) - 1.0
    return bool(draw < np.exp(-loss / temperature))
