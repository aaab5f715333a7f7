"""m-SCT: whom each op favours, and devices that wait for a favourite."""

import numpy as np
import pytest

from dplace.lowering import Evaluator
from dplace.policies.favourite_child import favourite_children
from dplace.policies.m_etf import m_etf
from dplace.policies.m_sct import m_sct
from dplace.policies.regions import edges
from tests.random_problems import make_cluster, make_graph, make_problem, random_problem


def test_a_chain_is_favoured_all_along() -> None:
    graph = make_graph([["x"], ["a"], ["b"]], [["a"], ["b"], ["c"]])
    cluster = make_cluster(2, overhead_s=0.25, latency_s=0.5)
    children, away_s = favourite_children(Evaluator(make_problem(graph, cluster, [1.0] * 3)))
    assert children.tolist() == [1, 2, -1]
    assert away_s.tolist() == [0.75, 0.75, 0.0]


def test_the_longer_branch_is_the_favourite() -> None:
    # 0 -> (1, 2) -> 3: op 2 takes longest, so it may not wait for a transfer on either side.
    graph = make_graph([["x"], ["a"], ["a"], ["b", "c"]], [["a"], ["b"], ["c"], ["d"]])
    problem = make_problem(graph, make_cluster(2, latency_s=1.0), [1.0, 2.0, 7.0, 1.0])
    children, _ = favourite_children(Evaluator(problem))
    assert (children[0], children[2]) == (2, 3)
    assert children[1] == -1


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("edges_at_once", [7, 1000])
def test_a_favourite_is_a_child_and_nobody_shares_one(seed: int, edges_at_once: int) -> None:
    problem = random_problem(np.random.default_rng(seed), 60, 3, overhead_ticks=0)
    children, away_s = favourite_children(Evaluator(problem), edges_at_once)
    pairs = {(parent, child) for parent, child in edges(problem.graph).tolist()}
    favoured = [(op, int(child)) for op, child in enumerate(children) if child >= 0]
    assert set(favoured) <= pairs
    assert len({child for _, child in favoured}) == len(favoured) > 5
    assert (away_s[children < 0] == 0).all()


def test_a_device_waits_for_its_favourite_while_others_have_room() -> None:
    # Op 0 ends at 1 and its value takes 8, so its device waits for op 2, which reads a value that
    # arrives at 3 + 1. Op 3 could start there at 1, or on the other device at 3.
    graph = make_graph(
        [["x"], ["x"], ["a", "b"], ["x"]],
        [["a"], ["b"], ["c"], ["d"]],
        value_bytes={"a": 8, "b": 1},
    )
    cluster = make_cluster(2, bytes_per_s=1.0)
    problem = make_problem(graph, cluster, [1.0, 3.0, 10.0, 5.0], pins=[0, 1, -1, -1])
    evaluator, rng = Evaluator(problem), np.random.default_rng(0)
    assert m_etf(evaluator, rng=rng, evaluations=1).tolist() == [0, 1, 0, 0]
    assert m_sct(evaluator, rng=rng, evaluations=1).tolist() == [0, 1, 0, 1]
