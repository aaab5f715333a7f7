"""Every policy keeps to the rules; auto is never worse than any of them."""

import dataclasses
import math
from typing import get_args

import numpy as np
import pytest

from dplace.bounds import best_bound
from dplace.cluster import Contention
from dplace.errors import InputError, MemoryLimitError, UsageError
from dplace.lowering import Evaluator
from dplace.placement import allowed_devices, check_placement, movable_units
from dplace.policies import POLICIES, answer_for, default_evaluations, place
from dplace.policies.auto import race
from dplace.problem import Machine, Objective
from tests.brute_force import optimum_s
from tests.policies.worlds import branchy, heavy_chain, two_towers
from tests.random_problems import make_cluster, make_graph, make_problem, random_problem

NAMES = sorted(set(POLICIES) - {"exhaustive"})  # which refuses all but small graphs


@pytest.mark.parametrize("name", NAMES)
def test_pins_and_colocation_are_kept_and_answers_repeat(name: str) -> None:
    rng = np.random.default_rng(1)
    problem = random_problem(rng, 40, 3, unlike=True, window=8)
    problem.graph.colocation[[3, 11, 30]] = 5
    problem.pins[[11, 20]] = [2, 0]
    problem.seconds[7, [0, 1]] = np.inf
    answers = [place(problem, name, seed=3, evaluations=400) for _ in range(2)]
    placement = answers[0].placement
    assert placement[[3, 11, 30]].tolist() == [2, 2, 2]
    assert (placement[20], placement[7]) == (0, 2)
    assert placement.tolist() == answers[1].placement.tolist()
    assert answers[0].timeline.makespan_s == answers[1].timeline.makespan_s
    assert answers[0].evaluations == answers[1].evaluations
    assert answers[0].bound_s <= answers[0].timeline.makespan_s
    assert answers[0].scores[name] == answers[0].timeline.makespan_s


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "problem",
    [
        make_problem(make_graph([], []), make_cluster(2), np.zeros((0, 2))),
        make_problem(make_graph([["x"]], [["y"]]), make_cluster(1), [1.0]),
        make_problem(make_graph([[], [], []], [["a"], ["b"], ["c"]]), make_cluster(2), [0.0] * 3),
        make_problem(make_graph([["x"], ["a"]], [["a"], ["b"]]), make_cluster(3), [1.0, 0.0]),
    ],
    ids=["no ops", "one device", "no edges, no time", "more devices than ops"],
)
def test_odd_worlds_are_placed(name: str, problem: object) -> None:
    answer = place(problem, name, evaluations=100)  # type: ignore[arg-type]
    assert math.isfinite(answer.timeline.makespan_s)


def test_random_goes_everywhere_and_differs_by_seed() -> None:
    problem = branchy()
    first, second = (place(problem, "random", seed=seed).placement for seed in (0, 1))
    assert set(first.tolist()) == {0, 1}
    assert first.tolist() != second.tolist()


def test_single_picks_the_device_that_is_fastest_all_told() -> None:
    graph = make_graph([["x"], ["a"]], [["a"], ["b"]])
    cluster = make_cluster(2, overhead_s=1.0)
    problem = make_problem(graph, cluster, np.array([[1.0, 3.0], [5.0, 2.0]]))
    answer = place(problem, "single")
    assert answer.placement.tolist() == [1, 1]
    assert answer.timeline.makespan_s == answer.best_single_device_s == 1 + 3 + 2


def test_the_single_device_baseline_leaves_pins_aside() -> None:
    graph = make_graph([["x"], ["a"]], [["a"], ["b"]])
    problem = make_problem(graph, make_cluster(2, latency_s=7.0), [1.0, 1.0], pins=[0, 1])
    answer = place(problem, "single")
    assert answer.timeline.makespan_s == 1 + 7 + 1
    assert answer.best_single_device_s == 1 + 1


def test_a_cpu_of_dnn_partitioning_is_like_no_accelerator() -> None:
    # It runs both ops at a time, though each takes as long as on the accelerator before it.
    graph = make_graph([["x"], ["x"]], [["a"], ["b"]])
    cluster = make_cluster(2)
    devices = (cluster.devices[0], dataclasses.replace(cluster.devices[1], kind="CPU"))
    problem = dataclasses.replace(
        make_problem(graph, dataclasses.replace(cluster, devices=devices), [1.0, 1.0]),
        machine="dnn-partitioning",
    )
    answer = place(problem, "single")
    assert answer.placement.tolist() == [1, 1]
    assert answer.objective_s == answer.best_single_device_s == 1


@pytest.mark.parametrize("name", ["auto", "heft", "search", "m-etf"])
def test_two_towers_go_to_two_devices(name: str) -> None:
    answer = place(two_towers(), name)
    assert answer.timeline.makespan_s == (1 + 20) + 1 + (1 + 1)
    assert answer.lowered.num_parts == 3


@pytest.mark.parametrize("name", ["auto", "search"])
def test_whole_branches_move_where_single_ops_never_pay(name: str) -> None:
    # A block has 25 ops; split 10 + 5 against 9 and the join, and pay for the way there and back.
    problem = branchy(num_blocks=4)
    alone_s = place(problem, "single").timeline.makespan_s
    answer = place(problem, name)
    assert answer.timeline.makespan_s < 0.85 * alone_s
    rounded = [answer.lowered.num_parts, len(set(answer.placement.tolist()))]
    assert rounded[0] <= 4 * 4
    assert rounded[1] == 2


def test_nothing_is_split_where_nothing_is_gained() -> None:
    answer = place(branchy(op_s=1e-7), "auto")
    assert set(answer.placement.tolist()) == {0}
    assert answer.lowered.num_transfers == 0


@pytest.mark.parametrize(("away_s", "num_devices"), [(0.0, 2), (4.4, 2), (4.7, 1), (5.2, 1)])
def test_parts_that_gain_little_are_not_worth_it_where_times_are_measured(
    away_s: float, num_devices: int
) -> None:
    # On one device 20 s; on two 10 s and the way there and back.
    graph = make_graph([["x"], ["y"]], [["a"], ["b"]])
    cluster = make_cluster(2, latency_s=0.0)
    host_s = cluster.host_latency_s.copy()
    host_s[1] = away_s
    problem = make_problem(graph, dataclasses.replace(cluster, host_latency_s=host_s), [10.0, 10.0])
    modelled = place(problem, "auto")
    assert len(set(modelled.placement.tolist())) == (2 if 10.0 + 2 * away_s < 20.0 else 1)
    measured = np.ones_like(problem.measured)
    answer = place(dataclasses.replace(problem, measured=measured), "auto")
    assert len(set(answer.placement.tolist())) == num_devices


@pytest.mark.parametrize("machine", ["independent", "placeto"])
def test_weights_that_do_not_count_need_no_room(machine: Machine) -> None:
    problem = dataclasses.replace(heavy_chain(4, 450), machine=machine)
    for name in ("auto", "heft", "search", "packing", "m-topo"):
        assert place(problem, name).lowered.num_parts > 0


@pytest.mark.parametrize("seed", range(12))
def test_auto_is_never_worse_than_what_it_tries(seed: int) -> None:
    rng = np.random.default_rng(seed)
    problem = random_problem(
        rng, 50, 2 + seed % 3, contention=get_args(Contention)[seed % 5], unlike=bool(seed % 2)
    )
    answer = place(problem, "auto", seed=seed, evaluations=300)
    assert answer.timeline.makespan_s <= min(answer.scores.values())
    for name in ("single", "heft", "m-etf"):
        other = place(problem, name)
        assert answer.timeline.makespan_s <= other.timeline.makespan_s
        assert answer.scores[name] <= other.timeline.makespan_s
    assert answer.evaluations <= 300


@pytest.mark.parametrize("objective", get_args(Objective))
@pytest.mark.parametrize("machine", get_args(Machine))
def test_auto_answers_under_every_machine_and_objective(
    machine: Machine, objective: Objective
) -> None:
    problem = random_problem(np.random.default_rng(3), 30, 3)
    problem = dataclasses.replace(problem, machine=machine, objective=objective)
    answer = place(problem, "auto", evaluations=300)
    assert math.isfinite(answer.objective_s)
    assert answer.objective_s == answer.scores["auto"] == min(answer.scores.values())
    assert answer.scores["single"] <= place(problem, "single").objective_s
    if (machine, objective) == ("dnn-partitioning", "latency"):
        with pytest.raises(InputError, match="wait for each other in a circle"):
            place(problem, "heft")
        assert answer.scores["heft"] == math.inf
    else:
        assert answer.scores["heft"] <= place(problem, "heft").objective_s


def test_auto_tells_true_scores_of_what_it_has_not_put_in_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("dplace.policies.policy.OPS_OF_ENTRIES", 0)  # as of a large graph
    for seed, contention in enumerate(get_args(Contention)):
        problem = random_problem(np.random.default_rng(seed), 50, 3, contention=contention)
        answer = place(problem, "auto", evaluations=300)
        assert answer.objective_s == answer.scores["auto"] == min(answer.scores.values())


def test_auto_finds_most_optima_of_small_graphs() -> None:
    optimal = 0
    for seed in range(25):
        rng = np.random.default_rng(seed)
        num_devices = 2 + seed % 2
        problem = random_problem(
            rng,
            int(rng.integers(3, 8 if num_devices == 2 else 6)),
            num_devices,
            contention=get_args(Contention)[seed % 5],
            unlike=bool(seed % 2),
            overhead_ticks=(1, 4, 16)[seed % 3],
        )
        best = optimum_s(problem)
        answer = place(problem, "auto")
        assert best <= answer.timeline.makespan_s
        optimal += answer.timeline.makespan_s == best
    assert optimal >= 24


def test_the_search_stays_within_its_budget_and_more_is_no_worse() -> None:
    problem = random_problem(np.random.default_rng(4), 60, 3, overhead_ticks=20, window=10)
    makespans = []
    for evaluations in (50, 300, 2000):
        answer = place(problem, "auto", seed=0, evaluations=evaluations)
        assert answer.evaluations <= max(evaluations, 150)
        makespans.append(answer.timeline.makespan_s)
    assert makespans[2] <= makespans[1] <= makespans[0]


@pytest.mark.parametrize(
    "name",
    [
        *("auto", "critical-path", "heft", "search"),
        *("m-etf", "m-sct", "m-topo", "metis", "packing"),
    ],
)
def test_what_no_device_holds_is_spread_and_fits(name: str) -> None:
    # 12 weights of 100 on three devices of 460: four each, and some values.
    problem = heavy_chain(12, 460)
    answer = place(problem, name, evaluations=1000)
    assert (answer.timeline.peak_bytes <= 460).all()
    assert answer.best_single_device_s == math.inf
    check_placement(problem, answer.placement)


def test_auto_crosses_no_more_than_memory_makes_it() -> None:
    answer = place(heavy_chain(12, 460), "auto", evaluations=1000)
    assert answer.lowered.num_parts == 3
    assert answer.timeline.makespan_s == 12 * 1 + 3 * 1 + 2 * 1


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("memory_bytes", "message"),
    [
        (300, "weights take 1.17 KiB, all of 3xTEST has 900 bytes; 300 bytes missing|too little"),
        ([2000, 100, 100], None),
    ],
)
def test_memory_is_a_hard_limit(
    name: str, memory_bytes: int | list[int], message: str | None
) -> None:
    problem = heavy_chain(12, memory_bytes)
    if message is None and name != "random":
        assert set(place(problem, name, evaluations=1000).placement.tolist()) == {0}
    elif message is not None:
        with pytest.raises(MemoryLimitError, match=message):
            place(problem, name, evaluations=1000)


def test_an_op_that_is_too_large_for_every_device_is_named() -> None:
    graph = make_graph(
        [["x"], ["a"]],
        [["a"], ["b"]],
        weights=[["w"], ["v"]],
        weight_bytes={"w": 600, "v": 10},
        value_bytes={"x": 0, "a": 5, "b": 5},
    )
    problem = make_problem(graph, make_cluster(2, memory_bytes=500), [1.0, 1.0])
    with pytest.raises(MemoryLimitError, match="op 'a' .* takes 605 bytes, .* has 500 bytes; 105"):
        place(problem, "auto", evaluations=1000)


def test_colocated_weights_are_one_lump() -> None:
    problem = heavy_chain(6, 450, num_devices=2)
    problem.graph.colocation[:5] = 1
    with pytest.raises(MemoryLimitError, match="with what must share its device takes"):
        place(problem, "auto", evaluations=1000)


def test_a_shared_weight_counts_once() -> None:
    names = ["x", *(f"v{op}" for op in range(6))]
    graph = make_graph(
        [[name] for name in names[:-1]],
        [[name] for name in names[1:]],
        weights=[["w"]] * 6,
        weight_bytes={"w": 100},
    )
    problem = make_problem(graph, make_cluster(2, memory_bytes=100), [1.0] * 6)
    answer = place(problem, "packing")
    assert answer.timeline.weight_bytes.max() == 100
    assert len(set(answer.placement.tolist())) == 1


def test_a_placement_that_is_given_is_answered_for() -> None:
    problem = two_towers(3)
    given = np.array([0, 1, 0, 1, 0, 1, 0], dtype=np.int32)
    answer = answer_for(problem, given, policy="given")
    assert (answer.policy, answer.evaluations) == ("given", 0)
    assert (answer.bound_s, answer.bound_argument) == best_bound(problem)
    assert answer.timeline.makespan_s == (1 + 3) + 1 + (1 + 1)
    with pytest.raises(InputError, match="device 2"):
        answer_for(problem, given + 1, policy="given")


def test_wrong_questions_are_refused() -> None:
    problem = two_towers(2)
    with pytest.raises(UsageError, match="no policy 'hefty'; there are auto, critical-path,"):
        place(problem, "hefty")


def test_the_budget_shrinks_with_the_graph() -> None:
    rng = np.random.default_rng(0)
    budgets = [default_evaluations(random_problem(rng, num_ops, 2)) for num_ops in (5, 300, 3000)]
    assert budgets[0] == 50_000
    assert budgets == sorted(budgets, reverse=True)
    assert budgets[-1] >= 40


def test_race_reports_each_policy_that_it_tried() -> None:
    evaluator = Evaluator(branchy(2))
    result = race(evaluator, rng=np.random.default_rng(0), evaluations=500)
    assert {"auto", "single", "heft", "m-etf"} <= set(result.scores)
    assert result.scores["auto"] == min(result.scores.values())


@pytest.mark.parametrize("name", NAMES)
def test_every_policy_gives_each_unit_one_allowed_device(name: str) -> None:
    problem = random_problem(np.random.default_rng(9), 30, 4)
    problem.graph.colocation[10:14] = 0
    placement = POLICIES[name](Evaluator(problem), rng=np.random.default_rng(0), evaluations=200)
    assert placement.shape == (30,)
    assert allowed_devices(problem)[np.arange(30), placement].all()
    unit = movable_units(problem)
    assert all(len(set(placement[unit == index].tolist())) == 1 for index in set(unit.tolist()))
