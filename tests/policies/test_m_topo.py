"""m-TOPO: equal shares of memory, in the order of the graph."""

import numpy as np
import pytest

from dplace.errors import MemoryLimitError
from dplace.lowering import Evaluator
from dplace.policies.m_topo import fill, m_topo
from dplace.policies.memory import Units
from dplace.problem import Problem
from tests.policies.worlds import heavy_chain
from tests.random_problems import make_cluster, make_graph, make_problem


def placed(problem: Problem) -> list[int]:
    placement = m_topo(Evaluator(problem), rng=np.random.default_rng(0), evaluations=1)
    return [int(device) for device in placement]


def test_a_device_is_full_at_its_share_and_one_op() -> None:
    # Twelve ops of 100 and 10 bytes: 1320 / 3 + 110 = 550.
    assert placed(heavy_chain(12, 2000)) == [0] * 5 + [1] * 5 + [2] * 2


def test_memory_ends_a_turn_early() -> None:
    assert placed(heavy_chain(12, [350, 900, 900])) == [0] * 3 + [1] * 5 + [2] * 4


def test_ops_that_go_elsewhere_do_not_end_the_turn() -> None:
    problem = heavy_chain(12, 2000)
    problem.pins[1] = 2
    problem.seconds[3, [0, 1]] = np.inf
    assert placed(problem) == [0, 2, 0, 2, 0, 0, 0] + [1] * 5


def test_a_shared_weight_is_counted_once_on_a_device() -> None:
    names = ["x", *(f"v{op}" for op in range(6))]
    graph = make_graph(
        [[name] for name in names[:-1]],
        [[name] for name in names[1:]],
        weights=[["w"]] * 6,
        weight_bytes={"w": 100},
    )
    # The share is 100 / 2 + 100.
    assert placed(make_problem(graph, make_cluster(2), [1.0] * 6)) == [0] * 6


def test_without_sizes_all_is_on_the_first_device() -> None:
    graph = make_graph([["x"], ["a"]], [["a"], ["b"]])
    assert placed(make_problem(graph, make_cluster(2), [1.0, 1.0])) == [0, 0]


def test_weights_that_fit_nowhere_are_refused() -> None:
    with pytest.raises(MemoryLimitError):
        fill(Units(heavy_chain(12, 460)), 0.2)
