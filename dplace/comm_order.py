"""The choice of the order of communication, last of all: once it is decided what runs where.

Every order of ``dplace/schedule`` gives transfers priorities, and ops an order that follows what
arrives first. Each is run under several rules of forming parts, and the best is kept. What policies
had judged is among them: there transfers go first come, first served.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dplace.errors import UsageError
from dplace.problem import Problem
from dplace.rules import Rule, Score
from dplace.schedule.orders import ORDERS, op_order, transfer_priorities
from dplace.simulator.timeline import Lowered, Timeline

if TYPE_CHECKING:
    from dplace.lowering import Evaluator
    from dplace.simulator.ordered_engine import Way

__all__ = ["BEST", "COMM_ORDERS", "Scheduled", "check_comm_order", "schedule"]

Int = NDArray[np.int32]

BEST = "best"
COMM_ORDERS = (BEST, *ORDERS)
"""What ``--comm-order`` takes: the best of the named orders, or one of them."""

OPS_OF_ORDERS = 2_000_000
"""Ops that all orders and rules together may simulate: about a second."""
LEAST_RULES = 3
MOST_TRANSFERS = 5_000
"""TAC takes two seconds for so many and grows with the square; for more it has to be asked for."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Scheduled:
    """A placement with all that is to be chosen about it."""

    lowered: Lowered
    timeline: Timeline
    comm_order: str
    """The name of the order that was taken."""
    scores: dict[str, float]
    """What the objective makes small, in seconds, under each order that was tried."""


class _Candidate(NamedTuple):
    """A way to run a placement, and how good it is."""

    score: Score
    name: str
    rule: Rule
    way: "Way | None"
    """None for the way in which policies have it judged."""


def check_comm_order(problem: Problem, comm_order: str) -> None:
    """Make sure that an order can be asked for.

    Raises:
        UsageError: There is no such order, or the machine has rules of its own.
    """
    if comm_order not in COMM_ORDERS:
        raise UsageError(
            f"no order of transfers {comm_order!r}; there are {', '.join(COMM_ORDERS)}"
        )
    if problem.machine == "native":
        return
    if comm_order != BEST:
        raise UsageError(
            f"--comm-order {comm_order}: the machine {problem.machine} has an order of its own; "
            "leave the option out, or take --machine native"
        )
    if len(problem.streamed):
        raise UsageError(
            f"the machine {problem.machine} knows no streamed weights; take --machine native"
        )


def schedule(
    evaluator: "Evaluator", placement: Int, comm_order: str = BEST, *, seed: int = 0
) -> Scheduled:
    """Return a placement as it will run, with the order of its communication.

    Args:
        evaluator: The problem and its simulator.
        placement: Shape ``(num_ops,)``: the device of each op.
        comm_order: One of ``COMM_ORDERS``.
        seed: Of ``random``.

    Raises:
        UsageError: The order cannot be asked for.
        MemoryLimitError: There is not enough room for streamed weights on some device.
    """
    problem = evaluator.problem
    check_comm_order(problem, comm_order)
    placement = np.require(placement, np.int32, ["C", "W"])
    choice = _Choice(evaluator, placement, seed)
    names = (comm_order,) if comm_order != BEST else choice.worth_trying()
    found = [candidate for name in names for candidate in choice.candidates(name, len(names))]
    scores: dict[str, float] = {}
    for candidate in found:
        least = scores.get(candidate.name, np.inf)
        scores[candidate.name] = min(least, candidate.score.makespan_s)
    best = min(found, key=lambda candidate: candidate.score)
    lowered, timeline = choice.records(best)
    return Scheduled(lowered=lowered, timeline=timeline, comm_order=best.name, scores=scores)


class _Choice:
    """The ways to run one placement."""

    def __init__(self, evaluator: "Evaluator", placement: Int, seed: int) -> None:
        problem = evaluator.problem
        self._evaluator, self._problem, self._placement = evaluator, problem, placement
        self._rng = np.random.default_rng(seed)
        self._is_native = problem.machine == "native"
        # Where nothing overtakes, what policies had judged is first come, first served.
        overtakes = problem.cluster.contention in ("egress-ingress", "port")
        self._is_judged = not self._is_native or not (len(problem.streamed) or overtakes)
        if self._is_native:
            self._engine = evaluator.ordered
            self._transfers, self._moves = self._engine.prepare(placement)
        self._is_idle = not self._is_native or bool(self._moves.is_input.all())
        """Whether there is nothing to be put in order."""

    def worth_trying(self) -> tuple[str, ...]:
        """Return the orders of which one is the best."""
        # The loads of devices and links are the same under all orders.
        if self._is_idle or self._problem.objective == "throughput":
            return ("fifo",)
        if self._transfers.num_transfers > MOST_TRANSFERS:
            return tuple(name for name in ORDERS if name != "tac")
        return ORDERS

    def candidates(self, name: str, num_orders: int) -> Iterator[_Candidate]:
        """Yield the ways to run under one of so many orders; at least one."""
        evaluator = self._evaluator
        if self._is_judged and (name == "fifo" or self._is_idle):
            score, rule = evaluator.best_rule(self._placement)
            yield _Candidate(score, name, rule, None)
            return
        for way in self._ways(name, num_orders):
            yield _Candidate(self._engine.score(self._moves, way), name, way.rule, way)

    def _ways(self, name: str, num_orders: int) -> Iterator["Way"]:
        """Yield a way for each rule under which streamed weights find room; at least one."""
        from dplace.simulator.ordered_engine import Way
        from dplace.simulator.room import check_room, in_order_of_use, least_room_bytes
        from dplace.simulator.streamed import room_bytes

        problem, placement, moves = self._problem, self._placement, self._moves
        given = transfer_priorities(
            name, problem, self._evaluator.tables, placement, self._transfers, rng=self._rng
        )
        # What the caller feeds is copied before all else.
        given[moves.is_input] = given.min(initial=0)
        room = room_bytes(problem, placement)
        known: dict[bytes, tuple[Int, Int] | None] = {}
        rules = [rule for rule in self._evaluator.rules if rule.priority != "ready"]
        passes = OPS_OF_ORDERS // max(1, problem.num_ops * num_orders)
        is_found = False
        for rule in rules[: max(LEAST_RULES, passes)]:
            base = self._evaluator.order(rule, placement)
            if base.tobytes() not in known:
                followed = op_order(problem, placement, self._transfers, given, base)
                known[base.tobytes()] = None
                for order in (followed, base):
                    if (least_room_bytes(problem, placement, order) <= room).all():
                        sent = in_order_of_use(problem, placement, order, moves, given)
                        known[base.tobytes()] = order, sent
                        break
            found = known[base.tobytes()]
            if found is not None:
                is_found = True
                yield Way(rule, *found)
        if not is_found:
            check_room(problem, placement, base)

    def records(self, best: _Candidate) -> tuple[Lowered, Timeline]:
        """Return what a placement runs as in one way, and its timeline."""
        if best.way is None:
            return self._evaluator.run(self._placement, best.rule)
        return self._engine.records(self._moves, best.way)
