"""Each sentence of docs/machine-models.md in a world of a few ops, with its answer in one's head.

Ops are named by what they write; unless a test says otherwise an op takes 1 s, a value 1 byte, a
link 1 byte a second.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dplace.problem import Machine, Problem
from tests.random_problems import make_cluster, make_graph, make_problem
from tests.simulator.agreement import assert_agreement, outcome
from tests.simulator.machines import (
    PLACETO_BUS_S,
    PLACETO_BYTES_PER_S,
    PLACETO_OP_S,
    Outcome,
    blocks,
    loads,
    station_loads,
)

GB = int(PLACETO_BYTES_PER_S)
"""What placeto's bus moves in a second."""
OP_BY_OP: tuple[Machine, ...] = ("native", "placeto", "baechi", "moirai", "independent")
FIRST_READY: tuple[Machine, ...] = ("placeto", "baechi", "independent")
BY_PRIORITY: tuple[Machine, ...] = ("native", "moirai")
EXACT: tuple[Machine, ...] = (*BY_PRIORITY, "baechi", "independent")


def world(
    machine: Machine,
    ops: str,
    seconds: Sequence[float] | None = None,
    *,
    devices: int = 2,
    sizes: dict[str, int] | int = 1,
    given: object = None,
    graph: dict[str, Any] | None = None,
    kinds: Sequence[str] | None = None,
    **cluster: Any,
) -> Problem:
    """Return a problem; ``ops`` reads "a, b=a, cd=ab": what each op writes and what it reads."""
    rows = [(*op.strip().split("="), "")[:2] for op in ops.split(",")]
    values = dict.fromkeys("".join(writes + reads for writes, reads in rows))
    made = make_graph(
        [list(reads) for _, reads in rows],
        [list(writes) for writes, _ in rows],
        value_bytes=sizes if isinstance(sizes, dict) else dict.fromkeys(values, sizes),
        **graph or {},
    )
    links = make_cluster(devices, **{"bytes_per_s": 1.0, **cluster})
    if kinds is not None:
        pairs = zip(links.devices, kinds, strict=True)
        links = replace(links, devices=tuple(replace(it, kind=kind) for it, kind in pairs))
    problem = make_problem(made, links, seconds if seconds is not None else [1.0] * len(rows))
    times = None if given is None else np.array(given, dtype=np.float64)
    return replace(problem, machine=machine, transfer_s=times)


def run(problem: Problem, placement: Sequence[int]) -> Outcome:
    """Return the reference's run by the graph's order, having compared the compiled one's."""
    found = outcome(problem, placement)
    assert found is not None
    assert_agreement(problem, placement)
    return found


def moves(found: Outcome) -> list[tuple[int, int, float, float]]:
    """Return value, target, start and end of each transfer."""
    return [(value, target, start, end) for value, _, target, start, end in found.transfers]


def near(seconds: float) -> Any:
    return pytest.approx(seconds, rel=1e-12)


# What all have in common.


@pytest.mark.parametrize("machine", EXACT)
def test_a_device_runs_one_op_at_a_time_and_devices_run_side_by_side(machine: Machine) -> None:
    found = run(world(machine, "a, b, c", [1, 2, 4]), [0, 0, 1])
    assert (found.op_start, found.op_end) == ([0, 1, 0], [1, 3, 4])
    assert found.makespan == 4


@pytest.mark.parametrize("machine", EXACT)
def test_a_value_is_there_at_the_end_of_its_op_or_of_its_transfer(machine: Machine) -> None:
    found = run(world(machine, "a, b=a, c=a", sizes=3, latency_s=0.5), [0, 0, 1])
    assert found.op_start == [0, 1, 1 + 3.5]
    assert found.transfers == [(0, 0, 1, 1, 4.5)]
    assert found.makespan == 5.5


@pytest.mark.parametrize("machine", OP_BY_OP)
def test_an_op_starts_once_all_that_it_reads_is_there(machine: Machine) -> None:
    problem = world(machine, "a, b, c=ab", given=[[[4]], [[2]], [[0]]], devices=3)
    arrival = {"native": 5, "placeto": 5, "baechi": 1 + 4 + 2, "moirai": 1 + 4 + 2}
    assert run(problem, [0, 1, 2]).op_start[2] == arrival.get(machine, 5)
    assert run(problem, [0, 2, 2]).op_start[2] == 5


@pytest.mark.parametrize("machine", OP_BY_OP)
def test_given_times_hold_in_place_of_latency_and_bandwidth(machine: Machine) -> None:
    chain = "a, b=a, c=b"
    for given in ([[[2]], [[5]], [[0]]], [[[0, 2], [9, 0]], [[0, 9], [5, 0]], [[9, 9]] * 2]):
        found = run(world(machine, chain, [0] * 3, given=given, latency_s=7), [0, 1, 0])
        assert found.transfers == [(0, 0, 1, 0, 2), (1, 1, 0, 2, 7)]
        assert found.op_end == [0, 2, 7]


@pytest.mark.parametrize("machine", [it for it in OP_BY_OP if it != "native"])
def test_feeding_returning_and_calling_cost_nothing(machine: Machine) -> None:
    problem = world(
        machine, "a=x, b=ax", [0, 0], overhead_s=9, host_latency_s=9, host_bytes_per_s=1
    )
    found = run(problem, [1, 1])
    assert (found.op_end, found.transfers, found.makespan) == ([0, 0], [], 0)
    assert run(replace(problem, machine="dnn-partitioning"), [1, 1]).makespan == 0


# Which op a device takes.


@pytest.mark.parametrize("machine", FIRST_READY)
def test_first_ready_takes_the_smallest_ready_time_of_what_is_known(machine: Machine) -> None:
    # c is known at 1 and ready at 10; d is known at 2 and ready at once, so it overtakes.
    problem = world(machine, "a, b, c=a, d=b", [1, 2, 1, 1], given=[[[9]]] * 4)
    found = run(problem, [0, 1, 1, 1])
    after = PLACETO_OP_S if machine == "placeto" else 0
    assert found.op_start[2:] == [10, near(2 + after)]


@pytest.mark.parametrize("machine", FIRST_READY)
def test_first_ready_has_no_eye_for_the_order_of_the_graph(machine: Machine) -> None:
    # While e runs on device 1 until 10, c gets ready at 4 and d, later in the graph, at 2.
    given = [[[2]], [[1]], [[0]], [[0]], [[0]]]
    problem = world(machine, "a, b, c=a, d=b, e", [2, 1, 1, 1, 10], given=given, devices=3)
    found = run(problem, [0, 2, 1, 1, 1])
    after = PLACETO_OP_S if machine == "placeto" else 0
    assert found.op_start[2:4] == [near(11 + 2 * after), near(10 + after)]


@pytest.mark.parametrize("machine", FIRST_READY)
def test_first_ready_takes_the_lower_index_of_two_ready_at_once(machine: Machine) -> None:
    found = run(world(machine, "a, b, c=ab, d=ab"), [0, 0, 0, 0])
    assert found.op_start[2] < found.op_start[3]
    # d is known at 1 and ready at 3; c gets known and ready at 3.
    found = run(world(machine, "a, b, c=b, d=a", [1, 3, 1, 1], given=[[[2]]] * 4), [0, 1, 1, 1])
    assert found.op_start[2] < found.op_start[3]


@pytest.mark.parametrize("machine", BY_PRIORITY)
def test_highest_priority_takes_the_most_urgent_of_what_is_ready(machine: Machine) -> None:
    # While e runs on device 1 until 10, c gets ready at 4 and d, less urgent, at 2.
    given = [[[2]], [[1]], [[0]], [[0]], [[0]]]
    problem = world(machine, "a, b, c=a, d=b, e", [2, 1, 1, 1, 10], given=given, devices=3)
    assert run(problem, [0, 2, 1, 1, 1]).op_start[2:4] == [10, 11]
    # It does not wait for c, which is known at 2 but not ready.
    problem = world(machine, "a, b, c=a, d=b, e", [2, 1, 1, 9, 2], given=given, devices=3)
    assert run(problem, [0, 2, 1, 1, 1]).op_start[2:4] == [11, 2]


@pytest.mark.parametrize("machine", BY_PRIORITY)
def test_ends_come_before_starts_at_the_same_time(machine: Machine) -> None:
    # At 2 device 0 gets free; d waits there, and c gets ready by b's end on device 1.
    problem = world(machine, "a, b, c=b, d", [2, 2, 1, 1], sizes=0)
    assert run(problem, [0, 1, 0, 0]).op_start == [0, 0, 2, 3]


@pytest.mark.parametrize("machine", BY_PRIORITY)
def test_the_lower_device_comes_first_at_the_same_time(machine: Machine) -> None:
    # a takes no time. On device 0 it ends before device 1 starts, and b is there to be taken.
    problem = world(machine, "a, b=a, c", [0, 1, 1], sizes=0)
    assert run(problem, [0, 1, 1]).op_start == [0, 0, 1]
    assert run(problem, [1, 0, 0]).op_start == [0, 1, 0]
    # Two ops end at 1; that of device 0 queues first for the way into device 2.
    two = world(machine, "a, b, c=a, d=b", devices=3, contention="egress-ingress")
    assert moves(run(two, [1, 0, 2, 2])) == [(1, 2, 1, 2), (0, 2, 2, 3)]


# How values travel.


def test_native_sends_once_to_each_device() -> None:
    problem = world("native", "a, b=a, c=a, d=a", devices=3, contention="none")
    assert moves(run(problem, [0, 1, 1, 2])) == [(0, 1, 1, 2), (0, 2, 1, 2)]


@pytest.mark.parametrize(
    ("contention", "starts"),
    [
        ("none", [1, 1, 1, 1]),
        ("link", [1, 2, 1, 1]),
        ("egress", [1, 2, 3, 1]),
        ("egress-ingress", [1, 2, 3, 4]),
        ("port", [1, 2, 3, 4]),
    ],
)
def test_native_contends_as_the_cluster_says(contention: str, starts: list[float]) -> None:
    # At 1 device 0 sends a and b to 1 and c to 2, and then device 1 sends d to 2.
    problem = world("native", "abc, d, e=a, f=b, g=c, h=d", devices=3, contention=contention)
    found = {value: start for value, _, start, _ in moves(run(problem, [0, 1, 1, 1, 2, 2]))}
    assert [found[value] for value in range(4)] == starts


def test_the_most_urgent_reader_is_served_first_and_then_the_lower_value() -> None:
    native = world("native", "ab, c=b, d=ab", devices=3, contention="egress")
    assert moves(run(native, [0, 1, 2])) == [(1, 1, 1, 2), (0, 2, 2, 3), (1, 2, 3, 4)]
    # Sent once, b is as urgent as c, its first reader on device 1.
    native = world("native", "ab, c=b, d=ab", contention="egress")
    assert moves(run(native, [0, 1, 1])) == [(1, 1, 1, 2), (0, 1, 2, 3)]
    moirai = world("moirai", "ab, c=b, d=ab")
    assert moves(run(moirai, [0, 1, 1])) == [(1, 1, 1, 2), (0, 1, 2, 3), (1, 1, 3, 4)]


def test_moirai_sends_to_each_reader_through_egress_and_ingress() -> None:
    problem = world("moirai", "a, b=a, c=a", contention="link")
    assert moves(run(problem, [0, 1, 1])) == [(0, 1, 1, 2), (0, 1, 2, 3)]
    ingress = world("moirai", "a, b, c=a, d=b", devices=3, contention="link")
    assert moves(run(ingress, [0, 1, 2, 2])) == [(0, 2, 1, 2), (1, 2, 2, 3)]
    free = replace(ingress, cluster=make_cluster(3, bytes_per_s=1.0, contention="none"))
    assert moves(run(free, [0, 1, 2, 2])) == [(0, 2, 1, 2), (1, 2, 1, 2)]


def test_placeto_sends_once_for_all_and_its_bus_stays_busy() -> None:
    problem = world("placeto", "ab, c=a, d=a, e=b", devices=3, sizes=GB, latency_s=9)
    found = run(problem, [0, 2, 1, 1])
    assert moves(found) == [
        (0, 1, 1, 2),
        (0, 2, 1, 2),
        (1, 1, 2 + PLACETO_BUS_S, near(3 + PLACETO_BUS_S)),
    ]
    # Both readers of a start at once; nothing else is on the receivers' side.
    assert found.op_start[1:3] == [2, 2]


def test_placeto_stays_busy_after_ops_and_ends_with_the_last_event() -> None:
    found = run(world("placeto", "a, b=a, c=a", [1, 0, 1]), [0, 0, 0])
    assert found.op_start == [0, 1 + PLACETO_OP_S, 1 + PLACETO_OP_S]
    assert found.makespan == near(2 + 2 * PLACETO_OP_S)
    # The value leaves at 1, not after what follows; b takes no time, so the bus is last.
    found = run(world("placeto", "a, b=a", [1, 0], sizes=GB), [0, 1])
    assert moves(found) == [(0, 1, 1, 2)]
    assert found.makespan == near(2 + PLACETO_BUS_S)
    found = run(world("placeto", "a, b=a", [1, 1], sizes=0), [0, 1])
    assert found.makespan == near(2 + PLACETO_OP_S)


def test_baechi_books_the_sender_and_then_the_receiver() -> None:
    # At 1 device 0 sends to 2 and then 1 does: its send is over at 2, its receive runs 2 to 3.
    problem = world("baechi", "a, b, c=a, d=b", devices=3, contention="none")
    found = run(problem, [0, 1, 2, 2])
    assert moves(found) == [(0, 2, 1, 2), (1, 2, 1, 3)]
    # The sender's port is free at 2, though what it sent arrives at 3 only.
    problem = world("baechi", "a, bx, c=a, d=b, e=x", devices=4)
    found = run(problem, [0, 1, 2, 2, 3])
    assert moves(found) == [(0, 2, 1, 2), (1, 2, 1, 3), (2, 3, 2, 3)]


def test_baechi_has_one_port_for_both_directions_and_sends_once() -> None:
    problem = world("baechi", "a, b, c=a, d=b", contention="none")
    # Both end at 1. a takes both ports until 2, then b those until 3.
    assert moves(run(problem, [0, 1, 1, 0])) == [(0, 1, 1, 2), (1, 0, 2, 3)]
    problem = world("baechi", "ba, c=a, d=a, e=b", devices=3)
    # Values in order, then targets by index; the readers on device 1 share one copy.
    assert moves(run(problem, [0, 2, 1, 1])) == [(0, 1, 1, 2), (1, 1, 2, 3), (1, 2, 3, 4)]


def test_independent_sends_all_at_once() -> None:
    problem = world("independent", "ab, c=a, d=a, e=b", contention="port")
    found = run(problem, [0, 1, 1, 1])
    assert moves(found) == [(0, 1, 1, 2), (0, 1, 1, 2), (1, 1, 1, 2)]
    assert found.op_start[1:] == [2, 3, 4]


# Memory.


def test_what_counts_as_memory() -> None:
    # a lives on device 0 until c has read it there and on device 1 while b reads it.
    weights = {"weights": [["s"], ["s", "t"], ["s"]], "weight_bytes": {"s": 64, "t": 128}}
    sizes = {"a": 1, "b": 2, "c": 4}
    graph = {"graph_outputs": ["c"], **weights}
    expected = {
        "native": [64 + 1 + 4, 64 + 128 + 1 + 2],
        "placeto": [1 + 4, 2],
        "baechi": [64 + 1 + 4, 64 + 128 + 2],
        "moirai": [64, 64 + 128],
        "independent": [0, 0],
        "dnn-partitioning": [64, 64 + 128],
    }
    for machine in (*OP_BY_OP, "dnn-partitioning"):
        problem = world(machine, "a, b=a, c=a", sizes=sizes, graph=graph)
        if machine == "dnn-partitioning":
            assert run(problem, [0, 1, 0]).peak_bytes == expected[machine]
        assert run(problem, [0, 1, 0]).peak_bytes == expected[machine], machine


@pytest.mark.parametrize("machine", ["placeto", "baechi"])
def test_a_value_counts_until_its_last_reader_anywhere_has_ended(machine: Machine) -> None:
    # b reads a on device 1 until 12, so that a is there beside c and d.
    sizes = {"a": 1, "b": 2, "c": 4, "d": 8}
    problem = world(machine, "a, b=a, c, d=c", [1, 8, 1, 1], sizes=sizes, latency_s=2)
    assert run(problem, [0, 1, 0, 0]).peak_bytes == [1 + 4 + 8, 2]
    # What starts at the moment when something else ends takes its room.
    problem = world(machine, "a, b=a, c", sizes=sizes)
    assert run(problem, [0, 0, 0]).peak_bytes[0] == 1 + 4  # c comes before b, which is ready later


# dnn-partitioning. Device 0 is the CPU, the others are accelerators.


def halves(ops: str, seconds: Sequence[float] | None = None, **more: Any) -> Problem:
    cluster = {"host_bytes_per_s": 1.0, "devices": 3, "kinds": ["CPU", "GPU", "GPU"]}
    return world("dnn-partitioning", ops, seconds, **{**cluster, **more})


def test_a_block_pays_for_what_enters_its_ops_and_what_leaves() -> None:
    found = run(halves("a, b=a, c=b, d=bc, e=d", [1, 2, 4, 8, 16]), [0, 1, 1, 0, 0])
    # a enters from 1 to 2, then b and c, then b and c leave; d starts at the block's end.
    assert found.op_start == [0, 2, 4, 10, 18]
    assert moves(found) == [(0, 1, 1, 2), (1, 0, 8, 9), (2, 0, 9, 10)]
    assert found.makespan == 34


def test_a_block_waits_for_all_that_any_of_its_ops_reads() -> None:
    found = run(halves("a, b, c=b", [1, 8, 1], sizes=0), [1, 0, 1])
    assert found.op_start == [8, 0, 9]


def test_a_value_is_paid_for_once_a_block_and_on_both_sides() -> None:
    found = run(halves("a, b=a, c=a, d=a", sizes=4), [1, 2, 2, 0])
    assert moves(found) == [(0, 2, 1, 5), (0, 2, 5, 9)]
    assert found.op_start == [0, 9, 10, 5]


def test_cpus_run_any_number_of_ops_and_share_their_memory() -> None:
    problem = halves("a, b, c=ab", [1, 2, 4], kinds=["CPU", "CPU", "GPU"], host_latency_s=9)
    found = run(problem, [0, 0, 1])
    assert (found.op_start, found.transfers, found.makespan) == ([0, 0, 2], [], 6)


def test_an_accelerators_own_host_link_counts() -> None:
    problem = halves("a, b=a", [0, 0], sizes=4)
    speeds = np.array([1.0, 2.0, 4.0])
    unlike = replace(problem.cluster, host_bytes_per_s=speeds, host_latency_s=speeds)
    found = run(replace(problem, cluster=unlike), [1, 2])
    assert moves(found) == [(0, 2, 0, 2 + 2), (0, 2, 4, 4 + 4 + 1)]
    given = replace(problem, cluster=unlike, transfer_s=np.array([[[3.0]], [[9.0]]]))
    assert moves(run(given, [1, 2])) == [(0, 2, 0, 3), (0, 2, 3, 6)]


def test_blocks_in_a_circle_are_no_answer_but_have_a_load() -> None:
    problem = halves("a, b=a, c=b", [1, 2, 4], sizes={"a": 1, "b": 2, "c": 8})
    for placement in ([1, 2, 1], [1, 0, 1]):
        assert blocks(problem, placement) is None
    assert loads(problem, [1, 2, 1]) == [0, (1 + 4) + (1 + 2), 2 + (1 + 2)]
    assert loads(problem, [1, 0, 1]) == [2, (1 + 4) + (1 + 2), 0]


# Throughput of the others.


@pytest.mark.parametrize(
    ("machine", "contention", "busiest"),
    [
        ("native", "none", 0),
        ("native", "link", 2),  # a to device 1, b to device 1
        ("native", "egress", 3),
        ("native", "port", 3),
        ("baechi", "none", 3),
        ("moirai", "none", 0),
        ("moirai", "link", 4),  # a twice to device 1
        ("independent", "port", 0),
    ],
)
def test_a_channel_is_loaded_with_what_occupies_it(
    machine: Machine, contention: str, busiest: float
) -> None:
    # Out of device 0: a to device 1, where two ops read it, and to 2; b to device 1.
    problem = world(machine, "ab, c=a, d=ab, e=a", [4, 1, 1, 1], devices=3, contention=contention)
    devices, busy = station_loads(problem, [0, 1, 1, 2])
    assert devices == [4, 2, 1]
    assert max(busy.values(), default=0) == busiest


def test_placeto_loads_its_bus_and_devices_with_what_follows() -> None:
    problem = world("placeto", "ab, c=a, d=ab, e=a", [4, 0, 1, 1], devices=3, sizes=GB)
    devices, busy = station_loads(problem, [0, 1, 1, 2])
    assert devices == [4 + PLACETO_OP_S, 1 + PLACETO_OP_S, 1 + PLACETO_OP_S]
    assert busy == {("out", 0): near(2 * (1 + PLACETO_BUS_S))}
