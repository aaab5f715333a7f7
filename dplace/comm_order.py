"""The choice of the order of communication, last of all: once it is decided what runs where.

Every order of ``dplace/schedule`` gives transfers priorities. Ops follow what arrives first, or go
by their rank among what has arrived; both are run, under several rules of forming parts, and the
best is kept. What policies had judged is among them where it is what will run; there transfers go
first come, first served.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dplace.errors import UsageError
from dplace.problem import Problem
from dplace.rules import Rule, Score
from dplace.schedule.orders import ORDERS, op_order, transfer_priorities
from dplace.schedule.transfers import Waits, waits_of
from dplace.simulator.timeline import Lowered, Timeline

if TYPE_CHECKING:
    from dplace.lowering import Evaluator
    from dplace.simulator.ordered_engine import Way

__all__ = [
    "BEST",
    "COMM_ORDERS",
    "SEARCHED",
    "Scheduled",
    "check_can_order",
    "check_comm_order",
    "schedule",
]

Int = NDArray[np.int32]

BEST = "best"
SEARCHED = "searched"
COMM_ORDERS = (BEST, *ORDERS, SEARCHED)
"""What ``--comm-order`` takes: the best of the named orders, one of them, or the best improved."""

OPS_OF_ORDERS = 2_000_000
"""Ops that all orders and rules together may simulate: about a second."""
LEAST_RULES = 3
OPS_OF_SEARCH = 2_000_000
"""Ops that a search for an order simulates, unless it is told how often."""
MOST_PASSES = 2_000
MOST_TRANSFERS = 5_000
"""TAC takes two seconds for so many and grows with the square; for more it has to be asked for."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Scheduled:
    """A placement with all that is to be chosen about it."""

    lowered: Lowered
    timeline: Timeline
    comm_order: str
    """The name of the order that was taken; ``searched`` only where that was better."""
    scores: dict[str, float]
    """What the objective makes small, in seconds, under each order that was tried."""


class _Candidate(NamedTuple):
    """A way to run a placement, and how good it is."""

    score: Score
    name: str
    rule: Rule
    way: "Way | None"
    """None for the way in which policies have it judged."""
    follows: bool = False
    """Whether ops follow what arrives first."""


def check_comm_order(problem: Problem, comm_order: str) -> None:
    """Make sure that an order can be asked for.

    Raises:
        UsageError: There is no such order, or the machine has rules of its own.
    """
    if comm_order not in COMM_ORDERS:
        raise UsageError(
            f"no order of transfers {comm_order!r}; there are {', '.join(COMM_ORDERS)}"
        )
    if comm_order != BEST:
        check_can_order(problem, comm_order)
    if problem.machine != "native" and len(problem.streamed):
        raise UsageError(
            f"the machine {problem.machine} knows no streamed weights; take --machine native"
        )


def check_can_order(problem: Problem, asked: str) -> None:
    """Make sure that there is an order to be chosen, as ``--comm-order`` with ``asked`` wants it.

    Raises:
        UsageError: The machine has rules of its own.
    """
    if problem.machine != "native":
        raise UsageError(
            f"--comm-order {asked}: the machine {problem.machine} has an order of its own; "
            "leave the option out, or take --machine native"
        )


def schedule(
    evaluator: "Evaluator",
    placement: Int,
    comm_order: str = BEST,
    *,
    seed: int = 0,
    evaluations: int | None = None,
) -> Scheduled:
    """Return a placement as it will run, with the order of its communication.

    Args:
        evaluator: The problem and its simulator.
        placement: Shape ``(num_ops,)``: the device of each op.
        comm_order: One of ``COMM_ORDERS``.
        seed: Of ``random`` and ``searched``.
        evaluations: Passes of the simulator that ``searched`` takes; by default what takes a
            second or two.

    Raises:
        UsageError: The order cannot be asked for.
        MemoryLimitError: There is not enough room for streamed weights on some device.
    """
    problem = evaluator.problem
    check_comm_order(problem, comm_order)
    placement = np.require(placement, np.int32, ["C", "W"])
    choice = _Choice(evaluator, placement, seed)
    names = (comm_order,) if comm_order in ORDERS else choice.worth_trying()
    found = [candidate for name in names for candidate in choice.candidates(name, len(names))]
    if not found:
        choice.refuse()
    if comm_order == SEARCHED:
        found.append(choice.searched(min(found, key=lambda it: it.score), evaluations))
    scores: dict[str, float] = {}
    for candidate in found:
        least = scores.get(candidate.name, np.inf)
        scores[candidate.name] = min(least, candidate.score.makespan_s)
    best = min(found, key=lambda candidate: candidate.score)
    lowered, timeline = choice.records(best)
    return Scheduled(lowered=lowered, timeline=timeline, comm_order=best.name, scores=scores)


class _Judged(NamedTuple):
    """The best of what policies have judged: first come, first served."""

    score: Score
    rule: Rule
    lowered: Lowered
    timeline: Timeline

    def waits(self, problem: Problem) -> bool:
        """Return whether some transfer waits for a link."""
        makers = problem.graph.value_producer[self.lowered.transfer_value]
        ready_s = self.timeline.part_end_s[self.lowered.part_of_op[makers]]
        return bool(np.any(self.timeline.transfer_start_s > ready_s))


class _Choice:
    """The ways to run one placement."""

    def __init__(self, evaluator: "Evaluator", placement: Int, seed: int) -> None:
        problem = evaluator.problem
        self._evaluator, self._problem, self._placement = evaluator, problem, placement
        self._rng = np.random.default_rng(seed)
        self._is_native = problem.machine == "native"
        if self._is_native:
            self._engine = evaluator.ordered
            self._transfers, self._moves = self._engine.prepare(placement)
        self._orders: dict[str, Int] = {}
        self._is_idle = not self._is_native or bool(self._moves.is_input.all())
        """Whether there is nothing to be put in order."""

    def worth_trying(self) -> tuple[str, ...]:
        """Return the orders of which one is the best."""
        # The loads of devices and links are the same under all orders.
        if self._is_idle or self._problem.objective == "throughput":
            return ("fifo",)
        # Where nothing has to wait for its link, there is nothing to be put before another.
        if self._judged is not None and not self._judged.waits(self._problem):
            return ("fifo",)
        if self._transfers.num_transfers > MOST_TRANSFERS:
            return tuple(name for name in ORDERS if name != "tac")
        return ORDERS

    @cached_property
    def _judged(self) -> "_Judged | None":
        """Return what policies have judged where that is what first come, first served comes to.

        It is not where transfers overtake each other, where weights are streamed, and where a part
        starts late.
        """
        from dplace.simulator.part_graph import starts_late

        evaluator, problem, placement = self._evaluator, self._problem, self._placement
        overtakes = problem.cluster.contention in ("egress-ingress", "port")
        if self._is_native and (len(problem.streamed) or overtakes):
            return None
        score, rule = evaluator.best_rule(placement)
        judged = _Judged(score, rule, *evaluator.run(placement, rule))
        if self._is_native and starts_late(problem, judged.lowered, judged.timeline):
            return None
        return judged

    @cached_property
    def _waits(self) -> Waits:
        return waits_of(self._problem, self._placement, self._transfers)

    def candidates(self, name: str, num_orders: int) -> Iterator[_Candidate]:
        """Yield the ways to run under one of so many orders; none if weights find no room."""
        evaluator = self._evaluator
        if (name == "fifo" or self._is_idle) and self._judged is not None:
            yield _Candidate(self._judged.score, name, self._judged.rule, None)
            return
        given = transfer_priorities(
            name,
            self._problem,
            evaluator.tables,
            self._placement,
            self._transfers,
            rng=self._rng,
            waits=self._waits,
        )
        passes = OPS_OF_ORDERS // max(1, 2 * self._problem.num_ops * num_orders)
        rules = [rule for rule in evaluator.rules if rule.priority != "ready"]
        known: dict[tuple[str, bool], Way | None] = {}
        for rule in rules[: max(LEAST_RULES, passes)]:
            for follows in (False, True):
                key = (rule.priority, follows)
                if key not in known:
                    known[key] = self.way(rule, given, follows=follows)
                way = known[key]
                if way is not None:
                    way = way._replace(rule=rule)
                    yield _Candidate(self._engine.score(self._moves, way), name, rule, way, follows)

    def refuse(self) -> None:
        """Raise the error on streamed weights that find no room under any order."""
        from dplace.simulator.room import check_room

        check_room(self._problem, self._placement, self._base(self._evaluator.rules[0]))
        raise RuntimeError("no order of communication was found; this is a bug in dplace")

    def searched(self, best: _Candidate, passes: int | None) -> _Candidate:
        """Return the best of all so far, improved."""
        from dplace.order_search import improve_order

        as_it_is = best._replace(name=SEARCHED)
        if self._is_idle or self._problem.objective == "throughput":
            return as_it_is
        if passes is None:
            passes = OPS_OF_SEARCH // max(1, self._problem.num_ops)
            passes = max(20, min(MOST_PASSES, passes))
        rules = (best.rule, *self._evaluator.rules)
        rule = next(it for it in rules if it.priority != "ready")
        found = improve_order(
            self._engine,
            self._moves,
            lambda priorities: self.way(rule, priorities, follows=best.follows),
            self._as_started(best),
            rng=self._rng,
            passes=passes,
        )
        if found is None or not found.score < best.score:
            return as_it_is
        return _Candidate(found.score, SEARCHED, rule, found.way)

    def _as_started(self, best: _Candidate) -> Int:
        """Return the order in which moves start in a candidate, as priorities."""
        lowered, _ = self.records(best)
        place = {
            (value, target): at
            for at, (value, target) in enumerate(
                zip(
                    np.append(lowered.transfer_value, lowered.copy_value).tolist(),
                    np.append(lowered.transfer_target, lowered.copy_target).tolist(),
                    strict=True,
                )
            )
        }
        moves = self._moves.queues.moves
        pairs = zip(moves["value"].tolist(), moves["target"].tolist(), strict=True)
        return np.array([place[pair] for pair in pairs], dtype=np.int32)

    def way(self, rule: Rule, priorities: Int, *, follows: bool) -> "Way | None":
        """Return how to run with some priorities; None where streamed weights find no room."""
        from dplace.simulator.ordered_engine import Way
        from dplace.simulator.room import has_room, in_order_of_use

        problem, placement, moves = self._problem, self._placement, self._moves
        # What the caller feeds is copied before all else.
        given = np.where(moves.is_input, priorities.min(initial=0), priorities)
        order = self._base(rule)
        if follows:
            order = op_order(problem, placement, self._transfers, given, order, waits=self._waits)
        if not has_room(problem, placement, order, moves):
            return None
        return Way(rule, order, in_order_of_use(problem, placement, order, moves, given))

    def _base(self, rule: Rule) -> Int:
        """Return the order of ops of a rule, found once."""
        if rule.priority not in self._orders:
            self._orders[rule.priority] = self._evaluator.order(rule, self._placement)
        return self._orders[rule.priority]

    def records(self, best: _Candidate) -> tuple[Lowered, Timeline]:
        """Return what a placement runs as in one way, and its timeline."""
        if best.way is None:
            assert self._judged is not None
            return self._judged.lowered, self._judged.timeline
        return self._engine.records(self._moves, best.way)
