"""exhaustive: nothing beats it, and what cannot be tried is refused."""

import dataclasses
from typing import get_args

import numpy as np
import pytest

from dplace.cluster import Contention
from dplace.errors import MemoryLimitError, UsageError
from dplace.lowering import Evaluator, Score
from dplace.policies.alike import alike_devices
from dplace.policies.exhaustive import exhaustive, num_placements
from dplace.policies.policy import POLICIES
from dplace.problem import Machine, Objective, Problem
from tests.brute_force import optimum_s
from tests.lines_run import lines_run
from tests.policies.worlds import heavy_chain, two_towers
from tests.random_problems import TICK, make_cluster, make_graph, make_problem, random_problem


def found(problem: Problem) -> tuple[Score, list[int]]:
    evaluator = Evaluator(problem)
    placement = exhaustive(evaluator, rng=np.random.default_rng(0), evaluations=1)
    return evaluator.best_rule(placement)[0], placement.tolist()


@pytest.mark.parametrize("seed", range(30))
def test_no_placement_beats_it(seed: int) -> None:
    rng = np.random.default_rng(seed)
    num_devices = 2 + seed % 2
    problem = random_problem(
        rng,
        int(rng.integers(1, 8 if num_devices == 2 else 6)),
        num_devices,
        contention=get_args(Contention)[seed % 5],
        unlike=bool(seed % 4 == 1),
        overhead_ticks=int(rng.choice([0, 4, 16])),
    )
    if seed % 3 == 0:
        problem.pins[rng.integers(problem.num_ops)] = rng.integers(num_devices)
    elif seed % 3 == 1:
        problem.graph.colocation[rng.integers(problem.num_ops, size=2)] = 4
    assert found(problem)[0].makespan_s == optimum_s(problem)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("objective", get_args(Objective))
@pytest.mark.parametrize("machine", get_args(Machine))
def test_no_placement_beats_it_by_the_rules_of_others(
    machine: Machine, objective: Objective, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    contention: Contention = "egress-ingress" if seed % 3 else "link"
    problem = dataclasses.replace(
        random_problem(rng, 6, 2 + seed % 2, contention=contention, unlike=seed == 5, max_kib=16),
        machine=machine,
        objective=objective,
    )
    if seed % 2:
        shape = (problem.graph.num_values, problem.num_devices, problem.num_devices)
        ticks = rng.integers(0, 9, shape if seed == 1 else (shape[0], 1, 1))
        problem = dataclasses.replace(problem, transfer_s=ticks.astype(np.float64) * 4 * TICK)
    assert found(problem)[0].makespan_s == optimum_s(problem)


@pytest.mark.parametrize("seed", range(6))
def test_no_policy_beats_it(seed: int) -> None:
    problem = random_problem(np.random.default_rng(seed), 8, 3, overhead_ticks=2)
    best, _ = found(problem)
    for name in sorted(set(POLICIES) - {"exhaustive", "metis"}):
        evaluator = Evaluator(problem)
        placement = POLICIES[name](evaluator, rng=np.random.default_rng(0), evaluations=200)
        assert best.makespan_s <= evaluator.best_rule(placement)[0].makespan_s


def test_equal_devices_are_counted_once() -> None:
    problem = random_problem(np.random.default_rng(0), 4, 3)
    # Ways to part four ops into at most three sets: 1 + 7 + 6.
    assert alike_devices(Evaluator(problem)) == [[0, 1, 2]]
    assert num_placements(Evaluator(problem)) == 1 + 7 + 6
    problem.pins[0] = 1
    assert alike_devices(Evaluator(problem)) == [[0, 2], [1]]
    # With device 1 apart, two sets for three ops: in all 3 ** 3 placements, those that use
    # devices 0 and 2 are paired with their mirror image; 1 is its own.
    assert num_placements(Evaluator(problem)) == (3**3 + 1) // 2


def test_devices_with_other_links_or_a_shared_channel_are_not_alike() -> None:
    problem = random_problem(np.random.default_rng(0), 4, 3)
    problem.cluster.latency_s[0, 1] *= 2
    assert alike_devices(Evaluator(problem)) == [[0], [1], [2]]
    shared = random_problem(np.random.default_rng(0), 4, 3, contention="egress-ingress")
    assert alike_devices(Evaluator(shared)) == [[0], [1], [2]]
    assert num_placements(Evaluator(shared)) == 3**4
    by_host = dataclasses.replace(shared, machine="dnn-partitioning")
    assert alike_devices(Evaluator(by_host)) == [[0, 1, 2]]


def test_too_many_placements_are_refused_at_once() -> None:
    problem = random_problem(np.random.default_rng(0), 400, 16, unlike=True)

    def refused() -> None:
        with pytest.raises(UsageError, match=r"more than 2,000,000 placements on 16xTEST; pin ops"):
            found(problem)

    refused()  # what the first call imports and compiles is no part of it
    assert lines_run(refused) < 20_000


def test_long_graphs_with_one_way_are_placed() -> None:
    problem = random_problem(np.random.default_rng(0), 3000, 1, window=50)
    assert set(found(problem)[1]) == {0}


def test_two_towers_go_to_two_devices() -> None:
    score, devices = found(two_towers(8))
    assert score.makespan_s == (1 + 8) + 1 + (1 + 1)
    assert devices[:16:2] != devices[1:16:2]


def test_memory_is_a_hard_limit() -> None:
    # Six ops of 100 on devices that hold two and some values each.
    score, devices = found(heavy_chain(6, 240))
    assert score.overflow_bytes == 0
    assert sorted(devices) == [0, 0, 1, 1, 2, 2]
    with pytest.raises(MemoryLimitError):
        found(heavy_chain(6, 150))


def test_what_has_no_room_for_its_weights_is_not_simulated() -> None:
    # Seven weights of 100 on devices that hold two each.
    evaluator = Evaluator(heavy_chain(7, 240))
    with pytest.raises(MemoryLimitError, match="nothing found that fits"):
        exhaustive(evaluator, rng=np.random.default_rng(0), evaluations=1)
    assert evaluator.evaluations < 100


def test_evaluations_are_counted_and_hopeless_ones_left_out() -> None:
    graph = make_graph([[]] * 8, [[f"v{op}"] for op in range(8)])
    problem = make_problem(graph, make_cluster(2), [1.0, 1.0, 2.0, 2.0, 3.0, 3.0, 4.0, 4.0])
    evaluator = Evaluator(problem)
    placement = exhaustive(evaluator, rng=np.random.default_rng(0), evaluations=1)
    assert evaluator.score(placement).makespan_s == 10
    # All work is spread evenly by heft already, so nothing can be better.
    assert 0 < evaluator.evaluations < 100


def test_a_stream_is_judged_by_its_bottleneck() -> None:
    # Two ops in a row: no gain for one request, half the time between two.
    graph = make_graph([["x"], ["a"]], [["a"], ["b"]])
    problem = make_problem(graph, make_cluster(2, latency_s=1.0), [4.0, 4.0])
    stream = dataclasses.replace(problem, objective="throughput")
    assert found(problem)[0].makespan_s == 8
    assert found(stream)[0].makespan_s == 4
