"""Ranks and critical paths on graphs small enough to add up by hand."""

import numpy as np
import pytest

from dplace.problem import Problem
from dplace.schedule import critical_path, mean_rank, placed_rank, priority_order
from dplace.schedule.rank import mean_seconds
from dplace.simulator.tables import tabulate
from tests.random_problems import make_cluster, make_graph, make_problem, random_problem


def diamond() -> Problem:
    """Return a -> (b, c) -> d on two devices; the second is twice as slow."""
    graph = make_graph(
        [["x"], ["a"], ["a"], ["b", "c"]],
        [["a"], ["b"], ["c"], ["d"]],
        value_bytes={"a": 4, "b": 8, "c": 0, "d": 100},
    )
    cluster = make_cluster(2, overhead_s=3.0, latency_s=1.0, bytes_per_s=4.0)
    return make_problem(graph, cluster, np.array([[2.0, 4.0], [4.0, 8.0], [6.0, 12.0], [2.0, 4.0]]))


def test_mean_rank_is_that_of_heft_with_a_call_for_each_crossing() -> None:
    problem = diamond()
    # Of the four ordered pairs of devices two cross: half of (latency + bytes / 4 + call).
    a, b, c = (1 + 4 / 4 + 3) / 2, (1 + 8 / 4 + 3) / 2, (1 + 0 + 3) / 2
    d = (2 + 4) / 2
    expected_b, expected_c = (4 + 8) / 2 + b + d, (6 + 12) / 2 + c + d
    expected = [(2 + 4) / 2 + a + max(expected_b, expected_c), expected_b, expected_c, d]
    assert mean_rank(problem, tabulate(problem)).tolist() == expected


def test_placed_rank_pays_only_for_edges_that_cross() -> None:
    problem = diamond()
    rank = placed_rank(tabulate(problem), np.array([0, 0, 1, 0], dtype=np.int32))
    c = 12 + (1 + 0 + 3) + 2
    assert rank.tolist() == [2 + (1 + 4 / 4 + 3) + c, 4 + 2, c, 2]


def test_critical_path_takes_each_op_at_its_fastest() -> None:
    problem = diamond()
    length_s, path = critical_path(problem, tabulate(problem))
    assert (length_s, path.tolist()) == (2 + 6 + 2, [0, 2, 3])


def test_a_device_that_cannot_run_an_op_is_left_out_of_its_mean() -> None:
    graph = make_graph([["x"]], [["y"]])
    problem = make_problem(graph, make_cluster(3), np.array([[2.0, np.inf, 6.0]]))
    assert mean_seconds(problem).tolist() == [(2 + 6) / 2]


@pytest.mark.parametrize("seed", range(10))
def test_orders_by_rank_are_topological_even_with_ops_that_take_no_time(seed: int) -> None:
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, 60, 3, max_ticks=1)
    placement = rng.integers(0, 3, 60).astype(np.int32)
    tables = tabulate(problem)
    graph = problem.graph
    for rank in (mean_rank(problem, tables), placed_rank(tables, placement)):
        order = priority_order(rank)
        position = np.argsort(order)
        for op in range(graph.num_ops):
            for value in graph.outputs_of(op):
                assert (position[graph.consumers_of(value)] > position[op]).all()


def test_no_ops_no_path() -> None:
    problem = make_problem(make_graph([], []), make_cluster(1), np.zeros((0, 1)))
    assert critical_path(problem, tabulate(problem))[0] == 0.0
