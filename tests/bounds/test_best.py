"""No placement beats the bound; on easy worlds it is met."""

from typing import get_args

import numpy as np
import pytest

from dplace.bounds import bounds_by_argument, lower_bound_s
from dplace.bounds.units import by_unit, room_of
from dplace.bounds.work import spread_work
from dplace.cluster import Contention
from dplace.placement import allowed_devices
from dplace.problem import Problem
from tests.brute_force import optimum_s
from tests.random_problems import make_cluster, make_graph, make_problem, random_problem


def work_s(problem: Problem) -> float:
    """Return the bound of spreading the work."""
    return spread_work(by_unit(problem, allowed_devices(problem)), room_of(problem)).seconds


@pytest.mark.parametrize("seed", range(40))
def test_no_placement_beats_the_bound(seed: int) -> None:
    rng = np.random.default_rng(seed)
    num_devices = 2 + seed % 2
    problem = random_problem(
        rng,
        int(rng.integers(1, 8 if num_devices == 2 else 6)),
        num_devices,
        contention=get_args(Contention)[seed % 5],
        unlike=bool(seed % 2),
        overhead_ticks=int(rng.choice([0, 4, 16])),
        single_ticks=2 if seed % 5 < 2 else None,
    )
    if seed % 3 == 0:
        problem.pins[rng.integers(problem.num_ops)] = rng.integers(num_devices)
    if seed % 4 == 0:
        problem.seconds[rng.integers(problem.num_ops), num_devices - 1] = np.inf
        problem.pins[problem.pins == num_devices - 1] = -1
    assert lower_bound_s(problem) <= optimum_s(problem)


def test_a_chain_meets_the_path_bound() -> None:
    graph = make_graph([["x"], ["a"], ["b"]], [["a"], ["b"], ["c"]])
    problem = make_problem(graph, make_cluster(2, overhead_s=1.0), [1.0, 2.0, 4.0])
    assert lower_bound_s(problem) == pytest.approx(1 + 1 + 2 + 4)


def test_the_path_bound_pays_for_a_crossing_that_pins_force() -> None:
    graph = make_graph([["x"], ["a"]], [["a"], ["b"]], value_bytes={"a": 8})
    cluster = make_cluster(2, overhead_s=1.0, latency_s=2.0, bytes_per_s=2.0)
    problem = make_problem(graph, cluster, [3.0, 5.0], pins=[0, 1])
    bound_s = bounds_by_argument(problem)["path"]
    assert bound_s == (1 + 3) + (2 + 8 / 2) + (1 + 5)
    assert bound_s == optimum_s(problem)


def test_the_path_bound_counts_copies_from_and_to_the_host() -> None:
    graph = make_graph([["x"]], [["y"]], value_bytes={"x": 6, "y": 4})
    cluster = make_cluster(2, overhead_s=1.0, host_latency_s=1.0, host_bytes_per_s=2.0)
    problem = make_problem(graph, cluster, [5.0])
    expected = (1 + 6 / 2) + 1 + 5 + (1 + 4 / 2)
    assert bounds_by_argument(problem)["path"] == expected


def test_equal_devices_share_the_work() -> None:
    graph = make_graph([[]] * 6, [[f"v{op}"] for op in range(6)])
    problem = make_problem(graph, make_cluster(3, overhead_s=2.0), [1.0, 2.0, 3.0, 3.0, 2.0, 1.0])
    assert work_s(problem) == pytest.approx(12 / 3)
    assert lower_bound_s(problem) == pytest.approx(optimum_s(problem))


def test_unlike_devices_share_the_work_by_speed() -> None:
    # Twelve ops of 2 and 4 seconds: the fast device takes two thirds.
    graph = make_graph([[]] * 12, [[f"v{op}"] for op in range(12)])
    problem = make_problem(graph, make_cluster(2), np.tile([2.0, 4.0], (12, 1)))
    assert work_s(problem) == pytest.approx(8 * 2.0, rel=1e-2)


def test_work_that_only_one_device_can_do_bounds_it() -> None:
    graph = make_graph([[]] * 4, [[f"v{op}"] for op in range(4)])
    seconds = np.array([[3.0, np.inf], [3.0, np.inf], [3.0, np.inf], [1.0, 1.0]])
    problem = make_problem(graph, make_cluster(2), seconds)
    assert work_s(problem) == pytest.approx(9.0, rel=1e-2)


def test_no_ops_take_no_time() -> None:
    problem = make_problem(make_graph([], []), make_cluster(2), np.zeros((0, 2)))
    assert lower_bound_s(problem) == 0.0


def test_one_device_alone_has_a_bound_of_its_own() -> None:
    graph = make_graph([["x"], ["x"]], [["a"], ["b"]])
    for single_s, expected in ((0.5, 0.5 + 4.0), (9.0, 2.0 + 1.0 + 2.0 + 2.0)):
        cluster = make_cluster(2, overhead_s=1.0, single_s=single_s, host_latency_s=2.0)
        problem = make_problem(graph, cluster, [2.0, 2.0])
        assert lower_bound_s(problem) == pytest.approx(expected)
        assert optimum_s(problem) == pytest.approx(expected)


def test_a_device_that_cannot_hold_all_has_no_bound_of_its_own() -> None:
    graph = make_graph(
        [["x"], ["a"]],
        [["a"], ["b"]],
        weights=[["v"], ["w"]],
        weight_bytes={"v": 10, "w": 10},
    )
    cluster = make_cluster(2, overhead_s=1.0, single_s=0.0, memory_bytes=15)
    problem = make_problem(graph, cluster, [4.0, 4.0])
    assert lower_bound_s(problem) == pytest.approx(1 + 4 + 1 + 4)
    assert optimum_s(problem) == pytest.approx(1 + 4 + 1 + 4)
