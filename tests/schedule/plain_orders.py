"""TIC and TAC in slow, plain Python, word by word, and a plain simulator to judge orders by."""

import itertools
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from dplace.problem import Problem
from dplace.schedule import (
    Transfers,
    placed_rank,
    priority_order,
    transfer_priorities,
    transfers_of,
)
from dplace.simulator.tables import tabulate
from tests.random_problems import TICK, make_cluster, make_graph, make_problem

__all__ = ["Worker", "all_orders", "dependencies", "makespan_s", "sequence", "tac", "tic"]

Int = NDArray[np.int32]


class Worker:
    """One device and the weights that the host sends it."""

    def __init__(
        self, reads: Sequence[str], op_ticks: Sequence[int], ticks: dict[str, int] | None = None
    ) -> None:
        """Op ``i`` makes value ``i`` and reads ``reads[i]``: ``"a b 0"`` are two weights and op 0.

        Args:
            reads: Names of weights, which are no numbers, and of ops before.
            op_ticks: Time of each op.
            ticks: Time of each weight's transfer; 1 where nothing is said.
        """
        inputs = [row.split() for row in reads]
        names = {name for row in inputs for name in row if not name.isdigit()}
        graph = make_graph(
            inputs,
            [[str(op)] for op in range(len(reads))],
            value_bytes={name: (ticks or {}).get(name, 1) for name in names},
        )
        cluster = make_cluster(1, host_bytes_per_s=1 / TICK)
        self.problem = make_problem(graph, cluster, np.array(op_ticks) * TICK)
        self.placement = np.zeros(len(reads), dtype=np.int32)
        self.transfers = transfers_of(self.problem, self.placement)
        self.tables = tabulate(self.problem)
        self.base_order = priority_order(placed_rank(self.tables, self.placement))

    def priorities(self, name: str) -> Int:
        """Return the priorities of the transfers in one of ``ORDERS``."""
        rng = np.random.default_rng(0)
        return transfer_priorities(
            name, self.problem, self.tables, self.placement, self.transfers, rng=rng
        )

    def order(self, name: str) -> str:
        """Return the names of the weights in an order, with blanks between them."""
        names = self.problem.graph.value_names
        values = self.transfers.value[np.argsort(self.priorities(name), kind="stable")]
        return " ".join(names[value] for value in values)

    def ticks(self, priorities: Int) -> float:
        """Return how long the worker takes with its transfers in this order, in ticks."""
        total_s = makespan_s(
            self.problem, self.placement, self.transfers, priorities, self.base_order
        )
        return total_s / TICK

    def all_ticks(self) -> list[float]:
        """Return how long it takes in every order, in ticks."""
        return [self.ticks(order) for order in all_orders(self.transfers.num_transfers)]


def all_orders(num: int) -> Iterator[Int]:
    """Yield the priorities of all orders of so many transfers."""
    for order in itertools.permutations(range(num)):
        yield np.array(order, dtype=np.int32)


def makespan_s(
    problem: Problem, placement: Int, transfers: Transfers, priorities: Int, base_order: Int
) -> float:
    """Return when the last op ends, in seconds, where one link brings all and is never idle.

    A device starts, whenever it is free, that op of those whose inputs are there that is the first
    in ``base_order``. No op may read what another device makes.
    """
    there: dict[tuple[int, int], float] = {}
    clock = 0.0
    for transfer in np.argsort(priorities, kind="stable"):
        clock += float(transfers.seconds[transfer])
        there[int(transfers.value[transfer]), int(transfers.target[transfer])] = clock
    inputs = [problem.graph.inputs_of(op).tolist() for op in range(problem.num_ops)]
    last = 0.0
    for device in range(problem.num_devices):
        clock = 0.0
        waiting = [op for op in base_order.tolist() if placement[op] == device]
        while waiting:
            ready = {
                op: max((there.get((value, device), np.inf) for value in inputs[op]), default=0.0)
                for op in waiting
            }
            clock = max(clock, min(ready.values()))
            op = next(op for op in waiting if ready[op] <= clock)
            waiting.remove(op)
            clock += float(problem.seconds[op, device])
            there |= {(int(value), device): clock for value in problem.graph.outputs_of(op)}
        last = max(last, clock)
    return last


def dependencies(problem: Problem, placement: Int, transfers: Transfers) -> list[set[int]]:
    """Return of each op the transfers, to any device, that come before it in the graph."""
    graph = problem.graph
    crossing = {
        (int(value), int(target)): transfer
        for transfer, (value, target) in enumerate(
            zip(transfers.value, transfers.target, strict=True)
        )
    }
    found: list[set[int]] = []
    for op in range(problem.num_ops):
        mine: set[int] = set()
        for value in graph.inputs_of(op).tolist():
            if (value, int(placement[op])) in crossing:
                mine.add(crossing[value, int(placement[op])])
            if graph.value_producer[value] >= 0:
                mine |= found[graph.value_producer[value]]
        found.append(mine)
    return found


def sequence(transfers: Transfers, priorities: Int, target: int) -> list[int]:
    """Return the transfers to a target in the order of their priorities."""
    return [int(t) for t in np.argsort(priorities) if transfers.target[t] == target]


def tic(problem: Problem, placement: Int, transfers: Transfers, target: int) -> list[int]:
    """Return the transfers to a target by M+ in transfers; of equals one that is needed alone."""
    mine = {int(t) for t in np.flatnonzero(transfers.target == target)}
    needs = [before & mine for before in dependencies(problem, placement, transfers)]

    def key(transfer: int) -> tuple[float, bool, int]:
        least = min((len(n) for n in needs if transfer in n and len(n) > 1), default=np.inf)
        return least, {transfer} not in needs, transfer

    return sorted(mine, key=key)


def tac(problem: Problem, placement: Int, transfers: Transfers, target: int) -> list[int]:
    """Return the transfers to a target in TAC's order."""
    outstanding = {int(t) for t in np.flatnonzero(transfers.target == target)}
    depends = dependencies(problem, placement, transfers)
    m = transfers.seconds
    order: list[int] = []
    while outstanding:
        p = dict.fromkeys(outstanding, 0.0)
        m_plus = dict.fromkeys(outstanding, np.inf)
        for op, before in enumerate(depends):
            left = before & outstanding
            for transfer in left:
                if len(left) == 1:
                    p[transfer] += float(problem.seconds[op, placement[op]])
                else:
                    m_plus[transfer] = min(m_plus[transfer], sum(m[other] for other in left))
        first = [
            b
            for b in outstanding
            if not any(min(p[b], m[a]) < min(p[a], m[b]) for a in outstanding)
        ]
        order.append(min(first, key=lambda t: (m_plus[t], t)))
        outstanding.remove(order[-1])
    return order
