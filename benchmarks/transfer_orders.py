"""How long it takes to order transfers, and what each order is worth on random graphs.

*Seconds* is what ``transfer_priorities`` takes, compiled, of its thread, on graphs of 10,000 ops.
In a *chain* every other op reads a weight of its own, and each reads the op before it and one of
the 50 before; in *layers* of 100 ops each reads two of the layer before; in a *wide* graph each op
reads two weights and nothing else; *four devices* hold a quarter of the chain each, so that values
cross as well. *all* adds ``transfers_of`` and the orders of ops.

The second table has the makespan over the best that was met on the same graph, mean of ``--seeds``
graphs of 40 ops that read from the 8 before them, on two or three devices in stages (*pipeline*)
or wherever (*random*); a server sends the weights. Devices take their ops by rank; *op order* is
``tac`` with ops by their latest transfer instead. *fifo* goes by value id: ids follow the graph.

The third has one device, one link and 7 transfers, beside the best of all 5,040 orders: *swaps*
exchanges neighbours in ``tac``'s order while that helps, *moves* carries transfers to any place.
Run it as:

    python -m benchmarks.transfer_orders --json transfer_orders.json
"""

import heapq
import itertools
import statistics
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.figures import arguments, report
from dplace.cluster import Contention
from dplace.problem import Problem
from dplace.schedule import (
    ORDERS,
    Transfers,
    op_order,
    placed_rank,
    priority_order,
    transfer_priorities,
    transfers_of,
)
from dplace.simulator.tables import tabulate
from tests.random_problems import TICK, make_cluster, make_graph, make_problem
from tests.schedule.plain_orders import dependencies

LIMIT_S = 2.0
NUM_TRANSFERS = 5_000
Int = NDArray[np.int32]
Float = NDArray[np.float64]


def large_reads(shape: str, rng: np.random.Generator) -> list[list[str]]:
    """Return what each of 10,000 ops reads: weights ``w0`` and so on, values ``v0`` and so on."""
    num_ops = 2 * NUM_TRANSFERS
    if shape == "wide":
        drawn = rng.permutation(np.repeat(np.arange(NUM_TRANSFERS), 4)).reshape(-1, 2)
        return [[f"w{weight}" for weight in sorted({*row})] for row in drawn.tolist()]
    rows = []
    for op in range(num_ops):
        if shape == "layers":
            before = (op // 100 - 1) * 100 + rng.integers(0, 100, 2)
        else:
            before = op - np.array([1, rng.integers(1, 51)])
        row = [f"v{other}" for other in sorted({*before.tolist()}) if other >= 0]
        rows.append([*row, f"w{op // 2}"] if op % 2 == 0 else row)
    return rows


def problem_of(
    reads: Sequence[Sequence[str]],
    rng: np.random.Generator,
    *,
    num_devices: int,
    share: float,
    contention: Contention = "egress",
    has_server: bool = False,
) -> Problem:
    """Return a problem with drawn times.

    Args:
        reads: What each op reads.
        rng: Draws.
        num_devices: Without the server, which is the last device and runs nothing.
        share: Time of all ops over that of the transfers of all weights.
        contention: Of the cluster.
        has_server: Whether weights lie on a server; on the host otherwise.
    """
    names = sorted({name for row in reads for name in row})
    size = {name: int(rng.integers(1, 65 if name[0] == "w" else 17)) for name in names}
    graph = make_graph(reads, [[f"v{op}"] for op in range(len(reads))], value_bytes=size)
    total = sum(size[name] for name in names if name[0] == "w")
    seconds = rng.integers(1, 65, len(reads)).astype(float)
    cluster = make_cluster(
        num_devices + has_server,
        bytes_per_s=1 / TICK,
        host_bytes_per_s=1 / TICK,
        contention=contention,
    )
    problem = make_problem(graph, cluster, seconds * (share * total * TICK / seconds.sum()))
    home = np.full(graph.num_values, num_devices if has_server else -1, dtype=np.int32)
    return replace(problem, value_home=home)


def speed_row(shape: str, rounds: int) -> dict[str, Any]:
    """Return how long each order takes, in seconds."""
    rng = np.random.default_rng(0)
    num_devices = 4 if shape == "four devices" else 1
    problem = problem_of(large_reads(shape, rng), rng, num_devices=num_devices, share=1.0)
    tables = tabulate(problem)
    placement = (np.arange(problem.num_ops) * num_devices // problem.num_ops).astype(np.int32)
    base = priority_order(placed_rank(tables, placement))
    start = time.thread_time()
    transfers = transfers_of(problem, placement)
    total_s = time.thread_time() - start
    row: dict[str, Any] = {"graph": shape, "transfers": transfers.num_transfers}
    for name in ORDERS:
        taken, after = [], []
        for _ in range(rounds + 1):  # the first may compile
            start = time.thread_time()
            priorities = transfer_priorities(name, problem, tables, placement, transfers, rng=rng)
            middle = time.thread_time()
            op_order(problem, placement, transfers, priorities, base)
            after.append(time.thread_time() - middle)
            taken.append(middle - start)
        row[name] = statistics.median(taken[1:])
        total_s += row[name] + statistics.median(after[1:])
    return {**row, "all": total_s}


def makespan_s(
    problem: Problem, placement: Int, transfers: Transfers, priorities: Int, order: Int
) -> float:
    """Return when the last op ends, in seconds, by a plain event loop.

    What is ready and whose channels are free goes, the smallest priority first; a free device
    takes of the ops whose inputs are there the first in ``order``. Calls cost nothing.
    """
    graph, links = problem.graph, tabulate(problem).links
    crossing = {
        (int(v), int(t)): at
        for at, (v, t) in enumerate(zip(transfers.value, transfers.target, strict=True))
    }
    missing = np.diff(graph.input_offsets).tolist()
    held = [
        [int(c) for c in links[s, t][["channel_a", "channel_b"]].tolist() if c >= 0]
        for s, t in zip(transfers.source, transfers.target, strict=True)
    ]
    position = np.argsort(order).tolist()
    can_run: list[list[int]] = [[] for _ in range(problem.num_devices)]
    weights = np.flatnonzero(graph.value_producer[transfers.value] < 0).tolist()
    ready = [(int(priorities[at]), at) for at in weights]
    busy: set[int] = set()
    events: list[tuple[float, int, int]] = []
    now = 0.0

    def give(value: int, device: int) -> None:
        for op in graph.consumers_of(value).tolist():
            if placement[op] == device:
                missing[op] -= 1
                if missing[op] == 0:
                    heapq.heappush(can_run[device], position[op])

    for op in range(problem.num_ops):
        if missing[op] == 0:
            heapq.heappush(can_run[placement[op]], position[op])
    runs = [False] * problem.num_devices
    while True:
        for item in sorted(ready):
            if not busy.intersection(held[item[1]]):
                ready.remove(item)
                busy.update(held[item[1]])
                heapq.heappush(events, (now + float(transfers.seconds[item[1]]), 0, item[1]))
        for device, waiting in enumerate(can_run):
            if waiting and not runs[device]:
                runs[device] = True
                op = int(order[heapq.heappop(waiting)])
                heapq.heappush(events, (now + float(problem.seconds[op, device]), 1, op))
        if not events:
            return now
        now = events[0][0]
        while events and events[0][0] <= now:
            _, kind, at = heapq.heappop(events)
            if kind == 0:
                busy.difference_update(held[at])
                give(int(transfers.value[at]), int(transfers.target[at]))
                continue
            runs[placement[at]] = False
            for value in graph.outputs_of(at).tolist():
                give(value, int(placement[at]))
                for device in range(problem.num_devices):
                    if (value, device) in crossing:
                        crosses = crossing[value, device]
                        ready.append((int(priorities[crosses]), crosses))


def small_reads(num_ops: int, rng: np.random.Generator) -> list[list[str]]:
    """Return what ops read: one or two of the 8 before them, most a weight of their own as well."""
    rows = []
    for op in range(num_ops):
        back = {int(back) for back in rng.integers(1, 9, rng.integers(1, 3)) if back <= op}
        weight = [f"w{op}"] if rng.random() < 0.8 or op == 0 else []
        rows.append([*(f"v{op - back}" for back in sorted(back)), *weight])
    return rows


def competing_row(contention: Contention, place: str, num_seeds: int) -> dict[str, Any]:
    """Return each order's makespan over the best that was met, on graphs with a server."""
    ratios: dict[str, list[float]] = {}
    for seed in range(num_seeds):
        rng = np.random.default_rng(seed)
        num_devices, share = int(rng.integers(2, 4)), float(2.0 ** rng.integers(-1, 3))
        problem = problem_of(
            small_reads(40, rng),
            rng,
            num_devices=num_devices,
            share=share,
            contention=contention,
            has_server=True,
        )
        stages = np.arange(40) * num_devices // 40
        where = stages if place == "pipeline" else rng.integers(0, num_devices, 40)
        placement = where.astype(np.int32)
        tables, transfers = tabulate(problem), transfers_of(problem, placement)
        base = priority_order(placed_rank(tables, placement))
        taken: dict[str, float] = {}
        for name in ORDERS:
            each = []
            for _ in range(5 if name == "random" else 1):
                drawn = transfer_priorities(name, problem, tables, placement, transfers, rng=rng)
                each.append(makespan_s(problem, placement, transfers, drawn, base))
            taken[name] = statistics.mean(each)
            if name == "tac":
                order = op_order(problem, placement, transfers, drawn, base)
                taken["op order"] = makespan_s(problem, placement, transfers, drawn, order)
        for name, seconds in taken.items():
            ratios.setdefault(name, []).append(seconds / min(taken.values()))
    means = {name: statistics.mean(each) for name, each in ratios.items()}
    return {"contention": contention, "placement": place, **means}


class OneWorker:
    """A device and one link: the makespan of any order by what waits for each transfer."""

    def __init__(self, problem: Problem) -> None:
        placement = np.zeros(problem.num_ops, dtype=np.int32)
        self.transfers = transfers_of(problem, placement)
        self.depends = dependencies(problem, placement, self.transfers)
        self.op_s = problem.seconds[:, 0].tolist()

    def makespan_s(self, order: Sequence[int]) -> float:
        """Return the largest sum of a transfer's end and of the ops that may not run before.

        A device that starts whatever is ready is idle only where it waits for a transfer.
        """
        position = {transfer: at for at, transfer in enumerate(order)}
        unlocked_s = [0.0] * (len(order) + 1)
        for needs, seconds in zip(self.depends, self.op_s, strict=True):
            unlocked_s[max((position[need] for need in needs), default=-1) + 1] += seconds
        rest_s = sum(unlocked_s)
        longest_s, clock = rest_s, 0.0
        for at, transfer in enumerate(order):
            rest_s -= unlocked_s[at]
            clock += float(self.transfers.seconds[transfer])
            longest_s = max(longest_s, clock + rest_s)
        return longest_s

    def improved_s(self, order: Sequence[int], reach: int) -> float:
        """Return the makespan after moving transfers by up to ``reach`` places while it falls."""
        best, best_s = list(order), self.makespan_s(order)
        is_better = True
        while is_better:
            is_better = False
            for at, to in itertools.product(range(len(best)), repeat=2):
                if not 0 < abs(at - to) <= reach:
                    continue
                moved = best.copy()
                moved.insert(to, moved.pop(at))
                moved_s = self.makespan_s(moved)
                if moved_s < best_s:
                    best, best_s, is_better = moved, moved_s, True
        return best_s


def one_worker_row(num_ops: int, num_seeds: int) -> dict[str, Any]:
    """Return each order's makespan over that of the best of all orders of seven transfers."""
    ratios: dict[str, list[float]] = {}
    for seed in range(num_seeds):
        rng = np.random.default_rng(seed)
        reads = []
        for op in range(num_ops):
            weights = rng.choice(7, rng.integers(0, 3), replace=False).tolist()
            ops = rng.permutation(op)[: rng.integers(0, 3)].tolist()
            reads.append([*(f"w{weight}" for weight in weights), *(f"v{other}" for other in ops)])
        read = {name for row in reads for name in row}
        for weight in range(7):
            if f"w{weight}" not in read:
                reads[rng.integers(num_ops)].append(f"w{weight}")
        share = float(2.0 ** rng.integers(-1, 2))
        problem = problem_of(reads, rng, num_devices=1, share=share)
        worker, tables = OneWorker(problem), tabulate(problem)
        placement = np.zeros(num_ops, dtype=np.int32)
        every = [worker.makespan_s(order) for order in itertools.permutations(range(7))]
        taken = {"random": statistics.mean(every)}
        for name in ("fifo", "tic", "tac", "critical-path"):
            drawn = transfer_priorities(name, problem, tables, placement, worker.transfers, rng=rng)
            order = np.argsort(drawn, kind="stable").tolist()
            taken[name] = worker.makespan_s(order)
            if name == "tac":
                taken["swaps"] = worker.improved_s(order, reach=1)
                taken["moves"] = worker.improved_s(order, reach=7)
        taken["better of two"] = min(taken["tac"], taken["critical-path"])
        for name, seconds in taken.items():
            ratios.setdefault(name, []).append(seconds / min(every))
    return {"ops": num_ops, **{name: statistics.mean(each) for name, each in ratios.items()}}


def main() -> None:
    """Print the tables; leave with 1 if an order takes longer than the limit."""
    options = arguments(__doc__ or "", rounds=3, seeds=40)
    shapes = ("chain", "layers", "wide", "four devices")
    speed = [speed_row(shape, options.rounds) for shape in shapes]
    slowest = max(row[name] for row in speed for name in ORDERS)
    summary = {"slowest order, s": slowest, "limit, s": LIMIT_S}
    report("Seconds to order 5,000 transfers", speed, summary, None)
    print()
    contentions: tuple[Contention, ...] = ("egress", "link")
    competing = [
        competing_row(contention, place, options.seeds)
        for contention in contentions
        for place in ("pipeline", "random")
    ]
    report("Makespan over the best met, several devices and a server", competing, {}, None)
    print()
    alone = [one_worker_row(num_ops, options.seeds) for num_ops in (10, 30)]
    title = "Makespan over the best of all orders, one device"
    report(title, alone, summary, options.json, details=[*speed, *competing, *alone])
    raise SystemExit(0 if slowest <= LIMIT_S else 1)


if __name__ == "__main__":
    main()
