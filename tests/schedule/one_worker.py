"""Orders of transfers in slow, plain Python, and a worker with one incoming link to judge them.

Of a worker that the host sends all weights to, everything is ready at time 0 and the link is never
idle, so that an order of its transfers and an order of its ops say all.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dplace.problem import Problem
from dplace.schedule import (
    Transfers,
    op_order,
    placed_rank,
    priority_order,
    transfer_priorities,
    transfers_of,
)
from dplace.simulator.tables import tabulate
from tests.random_problems import TICK, make_cluster, make_graph, make_problem

__all__ = ["Properties", "Worker", "all_orders", "dependencies", "needs", "properties", "slow_tac"]


class Worker:
    """One device and what the host sends it."""

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
        size = {name: (ticks or {}).get(name, 1) for name in names}
        graph = make_graph(inputs, [[str(op)] for op in range(len(reads))], value_bytes=size)
        cluster = make_cluster(1, host_bytes_per_s=1 / TICK)
        self.problem = make_problem(graph, cluster, np.array(op_ticks) * TICK)
        self.tables = tabulate(self.problem)
        self.placement = np.zeros(len(reads), dtype=np.int32)
        self.transfers = transfers_of(self.problem, self.placement)
        self.base_order = priority_order(placed_rank(self.tables, self.placement))

    def priorities(self, name: str) -> NDArray[np.int32]:
        """Return the priorities under an order."""
        return transfer_priorities(
            name,
            self.problem,
            self.tables,
            self.placement,
            self.transfers,
            rng=np.random.default_rng(0),
        )

    def sequence(self, name: str) -> str:
        """Return the names of the weights in an order, with blanks between them."""
        values = self.transfers.value[np.argsort(self.priorities(name), kind="stable")]
        return " ".join(self.problem.graph.value_names[value] for value in values)

    def makespan(self, priorities: NDArray[np.int32]) -> float:
        """Return the time, in ticks, at which the last op ends.

        Whenever the worker is free it starts the most urgent op whose inputs are there.
        """
        graph = self.problem.graph
        there = {}
        clock = 0.0
        for transfer in np.argsort(priorities, kind="stable"):
            clock += float(self.transfers.seconds[transfer])
            there[int(self.transfers.value[transfer])] = clock
        order = op_order(
            self.problem, self.placement, self.transfers, priorities, self.base_order
        ).tolist()
        clock = 0.0
        while order:
            ready = {
                op: max(there.get(value, np.inf) for value in (*graph.inputs_of(op).tolist(), -1))
                for op in order
                if there.setdefault(-1, 0.0) == 0.0
            }
            clock = max(clock, min(ready.values()))
            op = next(op for op in order if ready[op] <= clock)
            clock += float(self.problem.seconds[op, 0])
            there[int(graph.outputs_of(op)[0])] = clock
            order.remove(op)
        return clock / TICK


def all_orders(worker: Worker) -> Iterator[NDArray[np.int32]]:
    """Yield the priorities of every order of the transfers."""
    num = worker.transfers.num_transfers
    for order in itertools.permutations(range(num)):
        yield np.argsort(order).astype(np.int32)
