"""Clusters and branches: what hangs together in a graph."""

import numpy as np
import pytest

from dplace.policies.regions import branches, cluster, cut_ops, edges, neighbours
from dplace.problem import Problem
from tests.policies.worlds import branchy
from tests.random_problems import make_cluster, make_graph, make_problem, random_problem


def fork_and_join() -> Problem:
    """Return 0 -> (1 -> 2, 3 -> 4) -> 5 -> 6, of which only 6 is long."""
    graph = make_graph(
        [["x"], ["v0"], ["v1"], ["v0"], ["v3"], ["v2", "v4"], ["v5"]],
        [[f"v{op}"] for op in range(7)],
    )
    return make_problem(graph, make_cluster(2), [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 50.0])


def test_no_edge_passes_by_a_cut() -> None:
    assert cut_ops(fork_and_join().graph).tolist() == [0, 5, 6]


def test_branches_lie_between_cuts() -> None:
    assert [ops.tolist() for ops in branches(fork_and_join().graph)] == [[1, 2], [3, 4]]
    assert len(branches(branchy(3).graph)) == 3 * 4


def test_neighbours_are_named_once() -> None:
    graph = make_graph([["x"], ["a", "b"], ["a"]], [["a", "b"], ["c"], ["d"]])
    near = neighbours(graph)
    assert edges(graph).tolist() == [[0, 1], [0, 2]]
    assert near.consumers(0).tolist() == [1, 2]
    assert near.producers(1).tolist() == [0]
    assert near.producers(0).tolist() == near.consumers(2).tolist() == []


def test_chains_are_clusters() -> None:
    tree, (chains,) = cluster(fork_and_join(), (0.5,))
    assert chains.tolist() == [0, 1, 1, 2, 2, 3, 3]
    found = {tuple(sorted(tree.ops_of(node).tolist())) for node in range(len(tree.start))}
    assert {(1, 2), (3, 4), (5, 6), tuple(range(7))} <= found
    assert sorted(tree.sizes.tolist()) == tree.sizes.tolist()


@pytest.mark.parametrize("seed", range(20))
def test_stages_never_wait_in_a_circle_and_clusters_are_slices(seed: int) -> None:
    problem = random_problem(np.random.default_rng(seed), 40, 2, window=7)
    tree, stages = cluster(problem, (1e-6, 1e-5, 1e-4))
    assert sorted(tree.leaves.tolist()) == list(range(40))
    assert (tree.start >= 0).all()
    assert (tree.end <= 40).all()
    pairs = edges(problem.graph)
    for group in stages:
        between = {(int(group[a]), int(group[b])) for a, b in pairs if group[a] != group[b]}
        waiting = {target for _, target in between}
        free = set(range(int(group.max()) + 1)) - waiting
        while free:
            between = {(a, b) for a, b in between if a not in free}
            left = {target for _, target in between}
            free = (waiting - left) - free
            waiting = left
        assert not between
