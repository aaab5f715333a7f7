"""search finds what is best on small graphs, keeps to its limits, and ends well when broken off."""

import dataclasses
import importlib
from typing import get_args

import numpy as np
import pytest

from dplace.cluster import Contention
from dplace.lowering import Evaluator, Progress
from dplace.placement import check_placement
from dplace.policies import place
from dplace.policies.search import MOST_PER_UNIT, improve, search
from dplace.policies.single import single
from dplace.problem import Machine, Objective, Problem
from tests.policies.worlds import branchy, two_towers, unrolled
from tests.random_problems import make_cluster, make_graph, make_problem, random_problem


def small_problem(seed: int) -> Problem:
    """Return a problem of up to 10 ops on 2 or 3 devices."""
    rng = np.random.default_rng(seed)
    num_devices = int(rng.integers(2, 4))
    return random_problem(
        rng,
        int(rng.integers(3, 11 if num_devices == 2 else 9)),
        num_devices,
        contention=get_args(Contention)[seed % 5],
        unlike=bool(seed % 2),
        overhead_ticks=int(rng.choice([0, 4, 16])),
    )


def test_the_optimum_of_small_graphs_is_found() -> None:
    found = 0
    for seed in range(200):
        problem = small_problem(seed)
        ours = place(problem, "search", seed=seed, evaluations=2000)
        best = place(problem, "exhaustive")
        assert ours.objective_s >= best.objective_s
        found += ours.objective_s == best.objective_s
    assert found >= 190


@pytest.mark.parametrize("objective", get_args(Objective))
@pytest.mark.parametrize("machine", get_args(Machine))
def test_every_machine_and_objective_is_searched(machine: Machine, objective: Objective) -> None:
    rng = np.random.default_rng(5)
    problem = random_problem(rng, 40, 3, unlike=True, window=6)
    problem = dataclasses.replace(problem, machine=machine, objective=objective)
    evaluator = Evaluator(problem)
    alone = evaluator.best_rule(single(evaluator, rng=rng, evaluations=1))[0]
    answers = [place(problem, "search", seed=1, evaluations=3000) for _ in range(2)]
    assert answers[0].placement.tolist() == answers[1].placement.tolist()
    assert answers[0].bound_s <= answers[0].objective_s <= alone.makespan_s
    check_placement(problem, answers[0].placement)


def test_loads_are_balanced() -> None:
    # Seven ops of 1 to 7 seconds on two devices that share the work for free: 14 each.
    graph = make_graph([[]] * 7, [[f"v{op}"] for op in range(7)], graph_outputs=[])
    problem = make_problem(graph, make_cluster(2), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0])
    problem = dataclasses.replace(problem, objective="throughput")
    answer = place(problem, "search", evaluations=3000)
    assert answer.objective_s == 14


def test_co_located_ops_and_pins_stay_where_they_belong() -> None:
    problem = random_problem(np.random.default_rng(3), 30, 3)
    problem.graph.colocation[[2, 9, 17]] = 4
    problem.pins[11] = 2
    answer = place(problem, "search", evaluations=2000)
    assert len(set(answer.placement[[2, 9, 17]].tolist())) == 1
    assert answer.placement[11] == 2


def test_what_does_not_fit_is_left_and_what_fits_is_found() -> None:
    # Each device holds three of six ops, whose order makes packing put them the wrong way.
    names = [f"v{op}" for op in range(6)]
    graph = make_graph(
        [[], [], ["v0"], ["v1"], ["v2"], ["v3"]],
        [[name] for name in names],
        weights=[[f"w{op}"] for op in range(6)],
        weight_bytes={f"w{op}": 10 for op in range(6)},
    )
    cluster = make_cluster(2, memory_bytes=30, latency_s=5.0)
    problem = make_problem(graph, cluster, [1.0] * 6)
    for machine in ("native", "baechi", "moirai"):
        answer = place(dataclasses.replace(problem, machine=machine), "search", evaluations=500)
        assert answer.objective_s == 3
        assert answer.timeline.weight_bytes.tolist() == [30, 30]


def test_progress_is_told() -> None:
    told: list[Progress] = []
    place(branchy(2), "search", evaluations=2000, progress=told.append)
    assert told
    counts = [progress.evaluations for progress in told]
    assert counts == sorted(counts)
    assert 0 < told[-1].best_s < np.inf
    assert told[-1].expected >= 2000


def test_an_interruption_keeps_the_best_so_far() -> None:
    problem = two_towers()

    def interrupt(progress: Progress) -> None:
        raise KeyboardInterrupt

    answer = place(problem, "search", evaluations=5000, progress=interrupt)
    assert answer.is_interrupted
    assert answer.evaluations < 5000
    assert answer.objective_s <= place(problem, "single").objective_s


@pytest.mark.parametrize(
    ("policy", "step"),
    [
        *(("search", f"search.{step}") for step in ("splits", "m_etf", "coarsen", "_grown")),
        *(("auto", f"auto.{step}") for step in ("cluster", "splits", "proposal")),
        *(("auto", f"search.{step}") for step in ("coarsen", "list_schedules", "Walker")),
    ],
)
def test_an_interruption_at_any_time_keeps_the_best_so_far(
    policy: str, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    problem = unrolled(4, 10)
    module, name = step.split(".")
    monkeypatch.setattr(importlib.import_module(f"dplace.policies.{module}"), name, interrupt)
    answer = place(problem, policy, evaluations=2000)
    assert answer.is_interrupted
    assert answer.objective_s <= answer.best_single_device_s * (1 + 1e-9)


def test_no_start_is_made_worse() -> None:
    problem = random_problem(np.random.default_rng(8), 50, 4, window=8)
    evaluator = Evaluator(problem)
    rng = np.random.default_rng(0)
    starts = [rng.integers(0, 4, 50).astype(np.int32) for _ in range(5)]
    best = min(evaluator.best_rule(start)[0] for start in starts)
    for evaluations in (1, 50, 2000):
        found = improve(evaluator, starts, rng=rng, evaluations=evaluations)
        assert evaluator.best_rule(found)[0] <= best


def test_a_graph_without_ops_has_an_answer() -> None:
    problem = make_problem(make_graph([], []), make_cluster(2), [])
    evaluator = Evaluator(problem)
    placement = search(evaluator, rng=np.random.default_rng(0), evaluations=100)
    assert placement.shape == (0,)


def test_a_thousand_ops_are_placed_better_by_way_of_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = unrolled(4, 25)
    assert problem.num_ops == 1000
    budget = 3000

    def found_s(most_per_unit: int) -> float:
        monkeypatch.setattr("dplace.policies.search.MOST_PER_UNIT", most_per_unit)
        answers = [place(problem, "auto", seed=seed, evaluations=budget) for seed in range(3)]
        # What is left over of a stage is not carried to the next.
        assert all(0.8 * budget < answer.evaluations <= budget for answer in answers)
        return sum(answer.objective_s for answer in answers)

    assert found_s(MOST_PER_UNIT) < 0.95 * found_s(0)
