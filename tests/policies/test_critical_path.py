"""CPOP: the longest path on one device, the rest around it."""

import numpy as np

from dplace.lowering import Evaluator
from dplace.policies.critical_path import critical_path, fastest_device, longest_path
from dplace.policies.list_schedule import ListSchedule
from dplace.problem import Problem
from tests.policies.worlds import heavy_chain
from tests.random_problems import make_cluster, make_graph, make_problem


def diamond(fast: int = 1, latency_s: float = 2.0) -> Problem:
    """Return 0 -> (1 -> 2, 3) -> 4, where device ``fast`` is twice as fast; 3 is short."""
    graph = make_graph(
        [["x"], ["v0"], ["v1"], ["v0"], ["v2", "v3"]], [[f"v{op}"] for op in range(5)]
    )
    seconds = np.repeat(np.array([[2.0], [8.0], [8.0], [6.0], [2.0]]), 2, axis=1)
    seconds[:, fast] /= 2
    return make_problem(graph, make_cluster(2, latency_s=latency_s), seconds)


def placed(problem: Problem) -> list[int]:
    placement = critical_path(Evaluator(problem), rng=np.random.default_rng(0), evaluations=1)
    return [int(device) for device in placement]


def test_the_path_is_on_the_fast_device_and_the_rest_where_it_ends_first() -> None:
    # On the fast device op 3 waits for ops 1 and 2, until 9; on the slow one it ends at 1 + 2 + 6.
    assert placed(diamond(1)) == [1, 1, 1, 0, 1]
    assert placed(diamond(0)) == [0, 0, 0, 1, 0]


def test_what_is_far_comes_to_the_path() -> None:
    assert placed(diamond(1, latency_s=20.0)) == [1] * 5


def test_pins_and_kernels_go_before_the_path() -> None:
    problem = diamond(1)
    problem.pins[1] = 0
    problem.seconds[2, 1] = np.inf
    assert placed(problem)[1:3] == [0, 0]


def test_the_device_runs_as_much_of_the_path_as_can_be() -> None:
    problem = diamond(1)
    problem.seconds[2, 1] = np.inf
    schedule = ListSchedule(Evaluator(problem), None, 0.0)
    assert fastest_device(schedule, [0, 1, 2, 4]) == 0


def test_the_longest_path_counts_transfers() -> None:
    schedule = ListSchedule(Evaluator(diamond()), None, 0.0)
    up, down = schedule.ranks(), schedule.downward_ranks()
    # A mean transfer takes 2 / 2, for half of the pairs are of one device.
    assert up[0] == 1.5 + 1 + 6 + 1 + 6 + 1 + 1.5
    assert down == [0, 2.5, 2.5 + 6 + 1, 2.5, 2.5 + 6 + 1 + 6 + 1]
    priority = [first + second for first, second in zip(up, down, strict=True)]
    assert longest_path(schedule, priority) == [0, 1, 2, 4]


def test_a_path_that_fits_nowhere_is_cut() -> None:
    assert set(placed(heavy_chain(12, 460))) == {0, 1, 2}
