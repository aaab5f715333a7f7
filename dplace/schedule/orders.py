"""In which order transfers go: ``fifo``, ``random``, ``tic``, ``tac``, ``critical-path``.

TIC and TAC are those of Hashemi, Jyothi, Campbell, *TicTac: Accelerating Distributed Deep Learning
with Communication Scheduling*, MLSys 2019, written from its definitions; how they are computed
stands in ``dplace/simulator/outstanding.py``, what the definitions leave open and when each order
is good in docs/transfer-orders.md.
"""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dplace.errors import UsageError
from dplace.problem import Problem
from dplace.schedule.rank import placed_rank
from dplace.schedule.transfers import Transfers, Waits, waits_of

if TYPE_CHECKING:
    from dplace.simulator.tables import Tables

__all__ = ["ORDERS", "op_order", "transfer_priorities"]

ORDERS = ("fifo", "random", "tic", "tac", "critical-path")
"""Orders that are found from the graph alone, or from the graph and its times."""

Int = NDArray[np.int32]
Float = NDArray[np.float64]


def transfer_priorities(
    name: str,
    problem: Problem,
    tables: "Tables",
    placement: Int,
    transfers: Transfers,
    *,
    rng: np.random.Generator,
    waits: Waits | None = None,
) -> Int:
    """Return the priority of each transfer, smaller first, shape ``(num_transfers,)``.

    ``fifo`` gives all of them 0: they go as they become ready, and those that are ready at once,
    as weights are at time 0, by value. The other orders give a permutation.

    Args:
        name: One of ``ORDERS``.
        problem: The graph and its times.
        tables: Of the same problem.
        placement: Shape ``(num_ops,)``: the device of each op.
        transfers: What crosses under it.
        rng: Draws the permutation of ``random``; the others draw nothing.
        waits: What ``waits_of`` returns, where that is known already.

    Raises:
        UsageError: There is no order of this name.
    """
    num = transfers.num_transfers
    if name == "fifo" or (num == 0 and name in ORDERS):
        return np.zeros(num, dtype=np.int32)
    if name == "random":
        return rng.permutation(num).astype(np.int32)
    if name not in ORDERS:
        raise UsageError(f"no order of transfers {name!r}; it must be one of {', '.join(ORDERS)}")
    waits = waits or waits_of(problem, placement, transfers)
    op_s = problem.seconds[np.arange(problem.num_ops), placement]
    if name == "critical-path":
        return _places(
            np.argsort(-_largest_read(waits, placed_rank(tables, placement)), kind="stable")
        )
    if name == "tac":
        members, bounds = _tac(transfers, waits, op_s)
        rank, transfer_s = placed_rank(tables, placement), transfers.seconds
    else:
        from dplace.simulator.ranks import upward

        members, bounds = _tic(transfers, waits, problem.num_ops)
        op_s, transfer_s = np.ones(problem.num_ops), np.ones(num)
        rank = np.asarray(upward(tables, op_s, np.zeros(problem.graph.num_values)))
    return _merged(members, bounds, waits, placement, transfer_s=transfer_s, op_s=op_s, rank=rank)


def op_order(
    problem: Problem,
    placement: Int,
    transfers: Transfers,
    priorities: Int,
    base_order: Int,
    *,
    waits: Waits | None = None,
) -> Int:
    """Return the ops by the latest transfer that they wait for, shape ``(num_ops,)``.

    That is the one of the largest priority before the op in the whole graph, on other devices as
    well, so that no op is more urgent than what it waits for. Among equals ``base_order`` decides;
    with ``fifo``, whose priorities are all equal, the result is ``base_order``.

    Args:
        problem: The graph.
        placement: Shape ``(num_ops,)``.
        transfers: What crosses.
        priorities: Of the transfers, smaller first.
        base_order: Ops by another priority, in a topological order; so is the result.
        waits: What ``waits_of`` returns, where that is known already.
    """
    from dplace.simulator.outstanding import take_latest

    if transfers.num_transfers == 0:
        return base_order.copy()
    waits = waits or waits_of(problem, placement, transfers)
    latest = _latest_read(waits, priorities, int(priorities.min()))
    take_latest(_writers(waits), waits.next_ops, latest)
    position = np.argsort(base_order)
    return np.lexsort((position, latest)).astype(np.int32)


def _tac(transfers: Transfers, waits: Waits, op_s: Float) -> tuple[Int, Int]:
    """Return the transfers by target, those of each in TAC's order, and where each target begins.

    Times are rounded to a grid of 2^-50 of their sum: then sums and differences are exact, and
    what is equal by its parts is equal.
    """
    from dplace.simulator.outstanding import make_outstanding, tac

    total_s = float(transfers.seconds.sum() + op_s.sum())
    grid_s = 2.0 ** (np.ceil(np.log2(total_s)) - 50) if total_s > 0 else 1.0
    seconds, op_s = (np.rint(times / grid_s) * grid_s for times in (transfers.seconds, op_s))
    members, bounds = _by_target(transfers, np.arange(transfers.num_transfers))
    tac(bounds, members, seconds, op_s, waits, make_outstanding(waits, len(op_s)))
    return members, bounds


def _tic(transfers: Transfers, waits: Waits, num_ops: int) -> tuple[Int, Int]:
    """Return the same for TIC: by M+ in transfers, all outstanding.

    The definition leaves open what of equals goes first; here one that an op waits for alone, then
    the lower id.
    """
    from dplace.simulator.outstanding import make_outstanding, tic

    num = transfers.num_transfers
    state, needs = make_outstanding(waits, num_ops), np.zeros(num)
    members, bounds = _by_target(transfers, np.arange(num))
    tic(bounds, members, np.ones(num), np.ones(num_ops), waits, state, needs)
    return _by_target(transfers, np.lexsort((~state.is_alone, needs)))


def _by_target(transfers: Transfers, order: NDArray[np.int64]) -> tuple[Int, Int]:
    """Return the transfers by target, those of each in ``order``, and where each target begins."""
    members = order[np.argsort(transfers.target[order], kind="stable")].astype(np.int32)
    counts = np.bincount(transfers.target)
    return members, np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)


def _merged(
    members: Int,
    bounds: Int,
    waits: Waits,
    placement: Int,
    *,
    transfer_s: Float,
    op_s: Float,
    rank: Float,
) -> Int:
    """Return one order of all transfers that keeps the order of each target.

    Targets compete where a source sends one thing at a time. Of each transfer the *tail* is how
    long the target and all behind it are busy after it: it runs the ops that wait for this
    transfer, then those that wait for the next, and so on, and from any of them a path leads to the
    end of the graph. The end of the last transfer and its tail is the makespan to be made small,
    so the one with the longest tail goes first: Jackson's rule, optimal on one link when all is
    ready (1955; Lawler, Management Science 19(5), 1973, where targets keep an order of their own),
    and Schrage's when values become ready over time. Of equal tails goes first what its target
    would have sooner, so that equal devices take turns.
    """
    from dplace.simulator.outstanding import take_latest, time_targets

    num = len(members)
    tail, done = np.zeros((2, num))
    latest = _latest_read(waits, _places(members), -1)
    writers = _writers(waits)
    stays = placement[writers] == placement[waits.next_ops]
    take_latest(writers[stays], waits.next_ops[stays], latest)
    waiting = np.flatnonzero(latest >= 0)
    unlocked_s = np.bincount(latest[waiting], weights=op_s[waiting], minlength=num)
    largest = np.zeros(num)
    np.maximum.at(largest, latest[waiting], rank[waiting])
    time_targets(bounds, transfer_s[members], unlocked_s, largest, done, tail)
    return _places(members[np.lexsort((done, -tail))])


def _latest_read(waits: Waits, priorities: Int, least: int) -> Int:
    """Return the largest priority of what each op reads; ``least`` where it reads no transfer."""
    latest = np.full(len(waits.next_offsets) - 1, least, dtype=np.int32)
    np.maximum.at(latest, waits.reader_ops, np.repeat(priorities, np.diff(waits.reader_offsets)))
    return latest


def _writers(waits: Waits) -> Int:
    """Return the op before each entry of ``waits.next_ops``."""
    ops = np.arange(len(waits.next_offsets) - 1, dtype=np.int32)
    return np.repeat(ops, np.diff(waits.next_offsets))


def _largest_read(waits: Waits, rank: Float) -> Float:
    """Return the largest upward rank of the ops that read each transfer."""
    return np.maximum.reduceat(rank[waits.reader_ops], waits.reader_offsets[:-1])


def _places(order: NDArray[np.integer]) -> Int:
    """Return the place of each transfer in an order."""
    place = np.empty(len(order), dtype=np.int32)
    place[order] = np.arange(len(order), dtype=np.int32)
    return place
