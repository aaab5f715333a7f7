"""Groups of ops: few, together where they must be, and never waiting in a circle."""

import dataclasses

import numpy as np
import pytest
from numpy.typing import NDArray

from dplace.errors import UsageError
from dplace.lowering import Evaluator
from dplace.policies.auto import auto
from dplace.policies.grouping import group_ops, grouped, grouping_loss
from dplace.policies.regions import edges
from dplace.problem import Problem
from tests.policies.worlds import branchy, heavy_chain, two_towers
from tests.random_problems import make_cluster, make_graph, make_problem, random_problem


def circles(problem: Problem, group: NDArray[np.int32]) -> int:
    """Return how many groups wait for each other in a circle, or for one that does."""
    pairs = {(int(group[a]), int(group[b])) for a, b in edges(problem.graph)}
    between = {(a, b) for a, b in pairs if a != b}
    left = set(group.tolist())
    while free := left - {b for a, b in between if a in left}:
        left -= free
    return len(left)


def components(problem: Problem) -> int:
    """Return how many parts of the graph nothing connects."""
    part = list(range(problem.num_ops))
    for source, target in edges(problem.graph).tolist():
        part = [part[source] if at == part[target] else at for at in part]
    return len(set(part))


def with_colocation(problem: Problem, colocation: list[int]) -> Problem:
    graph = dataclasses.replace(problem.graph, colocation=np.array(colocation, dtype=np.int32))
    return dataclasses.replace(problem, graph=graph)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("max_groups", [1, 7, 20])
def test_groups_are_few_and_never_wait_in_a_circle(seed: int, max_groups: int) -> None:
    problem = random_problem(np.random.default_rng(seed), 60, 2, window=9)
    group = group_ops(Evaluator(problem), max_groups)
    assert circles(problem, group) == 0
    assert int(group.max()) + 1 == max(max_groups, components(problem))
    _, first = np.unique(group, return_index=True)
    assert (np.diff(first) > 0).all()


def test_a_connected_graph_comes_down_to_what_was_asked_for() -> None:
    for max_groups in (1, 3, 10, 30):
        group = group_ops(Evaluator(branchy()), max_groups)
        assert len(set(group.tolist())) == max_groups


def test_a_small_graph_is_left_as_it_is() -> None:
    problem = branchy(1)
    assert group_ops(Evaluator(problem)).tolist() == list(range(problem.num_ops))


def test_the_branches_stay_apart_and_the_chains_go_together() -> None:
    problem = two_towers()
    group = group_ops(Evaluator(problem), 8)
    for which in set(group[:-1].tolist()):
        towers = {int(op) % 2 for op in np.flatnonzero(group == which) if op < 40}
        assert len(towers) == 1


@pytest.mark.parametrize("seed", range(6))
def test_colocated_ops_are_one_group_and_close_no_further_circles(seed: int) -> None:
    rng = np.random.default_rng(seed)
    plain = random_problem(rng, 40, 2, window=6)
    colocation = [-1] * 40
    for unit in range(3):
        for op in rng.choice(40, 2, replace=False):
            colocation[op] = unit
    problem = with_colocation(plain, colocation)
    evaluator = Evaluator(problem)
    group = group_ops(evaluator, 12)
    for unit in set(colocation) - {-1}:
        members = [op for op in range(40) if colocation[op] == unit]
        assert len({int(group[op]) for op in members}) == 1
    units = group_ops(evaluator, 40)
    assert circles(problem, group) <= circles(problem, units)


def test_forward_and_backward_ops_that_share_devices_do_not_collapse() -> None:
    # 0 -> 1 -> ... -> 9 -> 10 -> ... -> 19, op i and op 19 - i together, as in training.
    names = [f"v{op}" for op in range(21)]
    graph = make_graph(
        [[name] for name in names[:-1]],
        [[name] for name in names[1:]],
        colocation=[min(op, 19 - op) for op in range(20)],
    )
    problem = make_problem(graph, make_cluster(2), [1.0] * 20)
    group = group_ops(Evaluator(problem), 5)
    assert len(set(group.tolist())) == 5
    assert (group == group[::-1]).all()


def test_what_may_not_share_a_device_stays_apart() -> None:
    problem = heavy_chain(6, 10**6, 2)
    pinned = dataclasses.replace(problem, pins=np.array([0, 0, 0, 1, 1, 1], dtype=np.int32))
    assert group_ops(Evaluator(pinned), 1).tolist() == [0, 0, 0, 1, 1, 1]


def test_ops_of_unlike_kernels_come_down_to_what_was_asked_for_too() -> None:
    problem = heavy_chain(40, 10**6, 3)
    seconds = problem.seconds.copy()
    seconds[::2, 1] = seconds[1::2, 2] = np.inf
    group = group_ops(Evaluator(dataclasses.replace(problem, seconds=seconds)), 5)
    assert len(set(group.tolist())) == 5
    for which in range(5):
        assert np.isfinite(seconds[group == which]).all(axis=0).any()
    # While there is a choice, no group has fewer devices than its ops.
    mixed = problem.seconds.copy()
    mixed[20:, 1] = np.inf
    alike = group_ops(Evaluator(dataclasses.replace(problem, seconds=mixed)), 5)
    assert not set(alike[:20].tolist()) & set(alike[20:].tolist())


def test_weights_are_spread_over_groups_before_they_are_piled_up() -> None:
    group = group_ops(Evaluator(heavy_chain(64, 10**6)), 16)
    assert np.bincount(group).max() <= 4 * 64 // 16


def test_less_than_one_group_is_refused() -> None:
    with pytest.raises(UsageError, match="at least 1"):
        group_ops(Evaluator(two_towers()), 0)


def test_the_loss_is_that_of_the_search_with_groups() -> None:
    problem = branchy(2)
    evaluator = Evaluator(problem)
    fine = np.arange(problem.num_ops, dtype=np.int32)
    nothing = grouping_loss(problem, fine, auto, evaluations=300)
    assert nothing.loss == 0.0
    all_in_one = grouping_loss(problem, fine * 0, auto, evaluations=300)
    alone = evaluator.best_rule(fine * 0)[0].makespan_s
    assert all_in_one.groups_s == alone
    assert all_in_one.ops_s == nothing.ops_s < alone
    assert all_in_one.num_groups == 1
    assert (grouped(problem, fine * 0).graph.colocation == 0).all()
