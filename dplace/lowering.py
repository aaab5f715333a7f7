"""From a placement to what will really run: parts, transfers, and their times.

Every evaluation lowers and simulates in one pass, transfers first come, first served. Who does it
depends on the machine model (``dplace/simulator/engine.py``). Which order of ops and which way of
cutting is best depends on the placement; ``lower`` tries a few rules and keeps the best, and so it
does with orders of transfers (``dplace/comm_order.py``). What it returns is what runs.
"""

import logging
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dplace.comm_order import schedule
from dplace.problem import Problem
from dplace.rules import Rule, Score
from dplace.schedule.rank import mean_rank, placed_rank, priority_order
from dplace.simulator.timeline import Lowered, Timeline

if TYPE_CHECKING:
    from dplace.simulator.engine import Engine
    from dplace.simulator.ordered_engine import OrderedEngine

__all__ = ["Evaluator", "Progress", "Rule", "Score", "lower"]

_log = logging.getLogger(__name__)

Placement = NDArray[np.int32]


class Progress(NamedTuple):
    """How a search gets on."""

    evaluations: int
    expected: int
    """Evaluations at its end, about."""
    best_s: float
    """The best of the walk that it is on."""


class Evaluator:
    """Judges placements of one problem under its machine model, and counts how often.

    All passes share one set of arrays, so an evaluator is for one thread at a time; ``scores``
    takes threads of its own.
    """

    evaluations: int
    """Passes of the simulator so far."""
    progress: "Callable[[Progress], None] | None"
    """Is told how a search gets on, several times a second; or None."""
    is_interrupted: bool
    """Whether a search was broken off: what it returned is the best so far."""

    def __init__(self, problem: Problem) -> None:
        from dplace.simulator.compiled import is_compiled_cache_present
        from dplace.simulator.engine import engine_for
        from dplace.simulator.tables import tabulate

        self.problem = problem
        self.tables = tabulate(problem)
        self.evaluations = 0
        self.progress = None
        self.is_interrupted = False
        self._expected = 0
        self._ordered: OrderedEngine | None = None
        self.mean_order = priority_order(mean_rank(problem, self.tables))
        self._index_order = np.arange(problem.num_ops, dtype=np.int32)
        self.engine = engine_for(problem, self.tables)
        self._engines = [self.engine]  # one a thread
        if not is_compiled_cache_present(*self.engine.compiled):
            _log.warning(
                "first use of the %s simulator on this machine: compiling it takes %s, once",
                problem.machine,
                "half a minute" if problem.machine == "native" else "some ten seconds",
            )
        self.rules = self.engine.rules
        """What there is to try on each placement, the most promising first."""

    @property
    def is_memory_tight(self) -> bool:
        """Return whether some placement may overflow; if not, memory is never looked at."""
        return self.engine.is_memory_tight

    def expect(self, evaluations: int) -> None:
        """Note that a search will take so many more passes."""
        self._expected = self.evaluations + evaluations

    def tell(self, best_s: float) -> None:
        """Tell whoever watches what the best of the walk so far is."""
        if self.progress is not None:
            self.progress(Progress(self.evaluations, self._expected, best_s))

    def score(self, placement: Placement, rule: Rule | None = None) -> Score:
        """Return the score of ``placement`` under one rule, by default the first: one pass."""
        self.evaluations += 1
        return self._judge(self.engine, placement, rule or self.rules[0])

    def scores(
        self, placements: Sequence[Placement], rule: Rule | None = None, *, threads: int = 0
    ) -> list[Score]:
        """Return the score of each placement under one rule, several at a time.

        Args:
            placements: Each of shape ``(num_ops,)``.
            rule: By default the first.
            threads: How many at a time; 0 for as many as this process has cores.
        """
        from dplace.simulator.engine import engine_for

        rule = rule or self.rules[0]
        count = min(threads or len(os.sched_getaffinity(0)), len(placements))
        if count <= 1:
            return [self.score(placement, rule) for placement in placements]
        while len(self._engines) < count:
            self._engines.append(engine_for(self.problem, self.tables))

        def some(first: int) -> list[Score]:
            return [
                self._judge(self._engines[first], placement, rule)
                for placement in placements[first::count]
            ]

        self.evaluations += len(placements)
        with ThreadPoolExecutor(count) as pool:
            rows = list(pool.map(some, range(count)))
        return [rows[at % count][at // count] for at in range(len(placements))]

    def _judge(self, engine: "Engine", placement: Placement, rule: Rule) -> Score:
        placement = np.require(placement, np.int32, ["C", "W"])
        return engine.score(placement, rule, self.order(rule, placement))

    def best_rule(
        self, placement: Placement, rules: Sequence[Rule] | None = None
    ) -> tuple[Score, Rule]:
        """Return the score of ``placement`` under the best of some rules, and that rule."""
        rules = rules or self.rules
        scores = [self.score(placement, rule) for rule in rules]
        best = min(range(len(rules)), key=lambda index: scores[index])
        return scores[best], rules[best]

    def lower(self, placement: Placement) -> tuple[Lowered, Timeline]:
        """Return the best way to run ``placement`` that rules and orders find, and its timeline.

        See ``dplace/comm_order.py``, which can be asked for one order, and tells more.
        """
        scheduled = schedule(self, placement)
        return scheduled.lowered, scheduled.timeline

    @property
    def ordered(self) -> "OrderedEngine":
        """Return the simulator of transfers that go by priority; for ``native`` alone."""
        from dplace.simulator.ordered_engine import OrderedEngine

        if self._ordered is None:
            self._ordered = OrderedEngine(self.problem, self.tables)
        return self._ordered

    def run(self, placement: Placement, rule: Rule) -> tuple[Lowered, Timeline]:
        """Return what ``placement`` runs as under one rule, and its timeline."""
        placement = np.require(placement, np.int32, ["C", "W"])
        lowered, timeline = self.engine.records(placement, rule, self.order(rule, placement))
        # Under dnn-partitioning the requests of a stream interleave: what is shown is one period.
        problem = self.problem
        if (problem.machine, problem.objective) != ("dnn-partitioning", "throughput"):
            check_acyclic(problem, lowered)
        return lowered, timeline

    def overflow_bytes(self, placement: Placement) -> NDArray[np.int64]:
        """Return the bytes above each device's memory in the best way to run ``placement``."""
        if not self.is_memory_tight:
            return np.zeros(self.problem.num_devices, dtype=np.int64)
        peaks = self.lower(placement)[1].peak_bytes
        return np.asarray(np.maximum(peaks - self.engine.capacity, 0))

    def order(self, rule: Rule, placement: Placement) -> NDArray[np.int32]:
        """Return the ops by the priority that ``rule`` gives them under ``placement``."""
        if rule.priority == "index":
            return self._index_order
        if rule.priority in ("mean-rank", "ready"):
            return self.mean_order
        return priority_order(placed_rank(self.tables, placement))

    def peak_bound(self, placement: Placement) -> NDArray[np.int64]:
        """Return bytes that no schedule of ``placement`` exceeds, shape ``(num_devices,)``."""
        return self.engine.peak_bound(np.require(placement, np.int32, ["C", "W"]))


def lower(problem: Problem, placement: Placement) -> tuple[Lowered, Timeline]:
    """Return the parts and transfers that ``placement`` runs as, and the predicted timeline.

    Of several ways to cut and orders of transfers, those with the smallest makespan; among equals
    that with the fewest parts. To lower many placements of one problem, keep an Evaluator.
    """
    return Evaluator(problem).lower(placement)


def check_acyclic(problem: Problem, lowered: Lowered) -> None:
    """Make sure that parts never wait for each other in a circle.

    Raises:
        RuntimeError: They do, or an op comes before one that it reads from: a bug in dplace.
    """
    graph = problem.graph
    if graph.num_ops == 0:
        return
    ran = np.zeros(graph.num_ops, dtype=np.int64)
    ran[lowered.part_ops] = np.arange(1, len(lowered.part_ops) + 1)
    if lowered.part_offsets[-1] != graph.num_ops or not ran.all():
        raise RuntimeError("lowering lost ops: the op graph has a cycle, or this is a bug")
    read = np.repeat(np.arange(graph.num_values), np.diff(graph.consumer_offsets))
    made = graph.value_producer[read] >= 0
    producers = graph.value_producer[read[made]]
    consumers = graph.consumer_ops[made]
    # Parts are numbered as they start, so a number that falls along an edge closes a circle.
    source, target = lowered.part_of_op[producers], lowered.part_of_op[consumers]
    wrong = (source > target) | ((source == target) & (ran[producers] > ran[consumers]))
    for edge in np.flatnonzero(wrong)[:1]:
        raise RuntimeError(
            f"cycle of parts: part {source[edge]} with op {graph.op_names[producers[edge]]!r} "
            f"feeds part {target[edge]} with op {graph.op_names[consumers[edge]]!r}, "
            "which runs before it; this is a bug in dplace"
        )
