"""Worlds written by hand in which one argument is as good as the optimum and no other is."""

import dataclasses
from collections.abc import Sequence

import numpy as np
import pytest

from dplace.bounds import best_bound
from dplace.bounds.units import Units
from dplace.bounds.work import spread_work
from dplace.op_graph import OpGraph
from dplace.placement import allowed_devices
from dplace.problem import Machine, Problem
from tests.brute_force import optimum_s
from tests.random_problems import make_cluster, make_graph, make_problem


def chain_graph(num_ops: int, *, value_bytes: int = 0, weight_bytes: int = 0) -> OpGraph:
    """Return a chain of ops, each with a value and a weight of its own."""
    return make_graph(
        [[], *([f"v{op}"] for op in range(num_ops - 1))],
        [[f"v{op}"] for op in range(num_ops)],
        value_bytes={f"v{op}": value_bytes for op in range(num_ops)},
        weights=[[f"w{op}"] for op in range(num_ops)],
        weight_bytes={f"w{op}": weight_bytes for op in range(num_ops)},
    )


def by_rules_of(machine: Machine, problem: Problem, kinds: Sequence[str] = ()) -> Problem:
    """Return a problem under the rules of another machine, on devices of some kinds."""
    devices = problem.cluster.devices
    if kinds:
        devices = tuple(
            dataclasses.replace(device, kind=kind)
            for device, kind in zip(devices, kinds, strict=True)
        )
    cluster = dataclasses.replace(problem.cluster, devices=devices)
    return dataclasses.replace(problem, machine=machine, cluster=cluster)


def check(problem: Problem, argument: str, seconds: float) -> None:
    """Make sure that an argument gives the bound, and that a placement meets it."""
    bound = best_bound(problem)
    assert bound.argument == argument
    assert bound.seconds == pytest.approx(seconds, rel=1e-2)
    assert optimum_s(problem) == pytest.approx(seconds)


def test_what_does_not_fit_on_the_fast_device_is_paid_at_the_slow_one() -> None:
    # A hundred ops of 1 s on a device that holds fifty, or of 3 s on another.
    units = Units(np.arange(100, dtype=np.int32), np.tile([1.0, 3.0], (100, 1)), np.full(100, 10.0))
    work = spread_work(units, np.array([500.0, 1e9]))
    assert work.seconds == pytest.approx(150.0, rel=1e-3)
    assert work.seconds <= 150.0
    assert work.second_cost.sum() == pytest.approx(1.0)


def test_three_equal_ops_leave_two_for_one_of_two_devices() -> None:
    graph = make_graph([[]] * 3, [[f"v{op}"] for op in range(3)])
    check(make_problem(graph, make_cluster(2), [5.0] * 3), "count", 10.0)


def test_memory_counts_as_time_does() -> None:
    graph = make_graph(
        [[]] * 4,
        [[f"v{op}"] for op in range(4)],
        weights=[[f"w{op}"] for op in range(4)],
        weight_bytes={f"w{op}": 10 for op in range(4)},
    )
    # The fast device holds one op, so the slow one has three.
    problem = make_problem(
        graph, make_cluster(2, memory_bytes=(19, 100)), np.tile([1.0, 2.0], (4, 1))
    )
    check(problem, "count", 6.0)


def test_ops_that_share_a_device_are_one_after_another() -> None:
    graph = make_graph([[]] * 3, [[f"v{op}"] for op in range(3)], colocation=[0, 0, 0])
    check(make_problem(graph, make_cluster(2), [1.0, 2.0, 3.0]), "count", 6.0)


def test_a_unit_goes_only_where_its_weights_fit() -> None:
    graph = chain_graph(1, weight_bytes=10)
    problem = make_problem(graph, make_cluster(2, memory_bytes=(5, 20)), np.array([[1.0, 7.0]]))
    check(problem, "count", 7.0)


def test_forks_along_a_chain_add_up() -> None:
    inputs: list[list[str]] = [[]]
    outputs, sizes = [["s0"]], {"s0": 5}
    for index in range(2):
        inputs += [[f"s{index}"], [f"s{index}"], [f"a{index}", f"b{index}"]]
        outputs += [[f"a{index}"], [f"b{index}"], [f"s{index + 1}"]]
        sizes |= dict.fromkeys((f"a{index}", f"b{index}", f"s{index + 1}"), 5)
    graph = make_graph(inputs, outputs, value_bytes=sizes)
    seconds = [1.0] + [4.0, 4.0, 1.0] * 2
    problem = make_problem(graph, make_cluster(2, bytes_per_s=1.0), seconds)
    check(problem, "forks", 1 + 2 * (4 + 4 + 1))
    # Where a crossing takes less than a branch, each fork crosses once.
    problem = make_problem(graph, make_cluster(2, bytes_per_s=2.0), seconds)
    check(problem, "forks", 1 + 2 * (4 + 2.5 + 1))


def test_what_fits_on_no_device_crosses() -> None:
    graph = chain_graph(2, value_bytes=5, weight_bytes=10)
    cluster = make_cluster(2, bytes_per_s=1.0, memory_bytes=15 + 5)
    problem = by_rules_of("moirai", make_problem(graph, cluster, [2.0, 3.0]))
    assert best_bound(problem).argument != "crossing"  # 20 bytes hold both
    tight = dataclasses.replace(problem, cluster=make_cluster(2, bytes_per_s=1.0, memory_bytes=15))
    check(tight, "crossing", 2 + 5 + 3)


def test_in_a_stream_one_device_has_all_or_a_channel_is_busy() -> None:
    graph = chain_graph(2, value_bytes=6)
    problem = make_problem(graph, make_cluster(2, bytes_per_s=1.0), [4.0, 4.0])
    check(dataclasses.replace(problem, objective="throughput"), "crossing", 6.0)


def on_accelerators(problem: Problem, num_accelerators: int) -> Problem:
    """Return a problem by the rules of dnn-partitioning, the last devices being CPUs."""
    num_cpus = problem.num_devices - num_accelerators
    kinds = ["TEST"] * num_accelerators + ["CPU"] * num_cpus
    return by_rules_of("dnn-partitioning", problem, kinds)


def crossing_s(problem: Problem, seconds: float) -> Problem:
    """Return a problem in which every value takes as long to cross."""
    times = np.full((problem.graph.num_values, 1, 1), seconds)
    return dataclasses.replace(problem, transfer_s=times)


def test_a_chain_is_cut_into_blocks_that_fit() -> None:
    problem = make_problem(
        chain_graph(4, weight_bytes=10),
        make_cluster(3, memory_bytes=20),
        np.tile([1.0, 1.0, 10.0], (4, 1)),
    )
    check(crossing_s(on_accelerators(problem, 2), 2.0), "blocks", 4 + 2 * 2)


def test_a_block_holds_what_lies_between_its_ops() -> None:
    graph = make_graph(
        [[], ["s"], ["s"], ["a", "b"]],
        [["s"], ["a"], ["b"], ["e"]],
        weights=[[f"w{op}"] for op in range(4)],
        weight_bytes={f"w{op}": 10 for op in range(4)},
    )
    cluster = make_cluster(2, memory_bytes=40)
    problem = make_problem(graph, cluster, np.tile([1.0, 10.0], (4, 1)))
    check(crossing_s(on_accelerators(problem, 1), 1.0), "blocks", 4.0)


def test_blocks_are_no_more_than_accelerators() -> None:
    problem = make_problem(
        chain_graph(4, weight_bytes=10),
        make_cluster(2, memory_bytes=20),
        np.tile([1.0, 3.0], (4, 1)),
    )
    check(crossing_s(on_accelerators(problem, 1), 0.0), "blocks", 2 + 2 * 3)


def test_pieces_pay_for_both_sides_of_a_cut() -> None:
    problem = make_problem(chain_graph(4), make_cluster(3), np.tile([2.0, 2.0, 100.0], (4, 1)))
    problem = dataclasses.replace(problem, objective="throughput")
    check(crossing_s(on_accelerators(problem, 2), 3.0), "pieces", 7.0)


def test_pieces_pay_for_a_value_that_is_read_further_down() -> None:
    # A cut in the middle is crossed by two values.
    graph = make_graph([[], ["v0"], ["v0", "v1"], ["v2"]], [["v0"], ["v1"], ["v2"], ["v3"]])
    problem = make_problem(graph, make_cluster(3), np.tile([4.0, 4.0, 100.0], (4, 1)))
    problem = dataclasses.replace(problem, objective="throughput")
    check(crossing_s(on_accelerators(problem, 2), 1.0), "pieces", 8 + 2)


def test_a_bound_keeps_to_kernels() -> None:
    problem = make_problem(chain_graph(2), make_cluster(2), [1.0, 1.0])
    problem.seconds[0, 0] = np.inf
    assert not allowed_devices(problem)[0, 0]
    assert best_bound(problem).seconds == pytest.approx(2.0)


def test_a_block_may_lie_between_two_ops_that_share_a_cpu() -> None:
    graph = dataclasses.replace(chain_graph(3), colocation=np.array([0, -1, 0], dtype=np.int32))
    seconds = np.array([[np.inf, 5.0], [1.0, 10.0], [np.inf, 5.0]])
    problem = on_accelerators(make_problem(graph, make_cluster(2), seconds), 1)
    check(crossing_s(problem, 1.0), "blocks", 5 + (1 + 1 + 1) + 5)


def test_links_cost_nothing_between_cpus_of_dnn_partitioning() -> None:
    graph = chain_graph(2, value_bytes=8)
    cluster = make_cluster(2, latency_s=100.0, bytes_per_s=1.0)
    problem = make_problem(graph, cluster, [1.0, 1.0], pins=[0, 1])
    check(on_accelerators(problem, 0), "path", 2.0)
