"""The decision process: every group once, and rewards that are drops in log run time."""

import dataclasses
import math

import numpy as np
import pytest

from dplace.errors import UsageError
from dplace.lowering import Evaluator
from dplace.policies.heft import heft
from dplace.policies.m_etf import m_etf
from dplace.policies.placeto.episode import Episode, EpisodeRules
from dplace.policies.placeto.world import WORST, World, topological
from dplace.policies.single import single
from dplace.problem import Machine, Objective, Problem
from tests.policies.worlds import heavy_chain, two_towers
from tests.random_problems import make_cluster, make_graph, make_problem, random_problem


def episode_of(problem: Problem, rules: EpisodeRules | None = None, **options: int) -> Episode:
    world = World(Evaluator(problem), is_listed=False, **options)  # type: ignore[arg-type]
    return Episode(world, rules, rng=np.random.default_rng(0))


def side_by_side() -> Problem:
    """Return four ops of 1 s that do not need each other, on two devices."""
    graph = make_graph([["x"], ["x"], ["x"], ["x"]], [["a"], ["b"], ["c"], ["d"]])
    return make_problem(graph, make_cluster(2), [1.0] * 4)


def test_a_move_gains_what_it_takes_off_the_log_run_time() -> None:
    episode = episode_of(side_by_side())
    assert episode.world.num_groups == 4
    assert [episode.step(device) for device in (1, 0, 1, 0)] == [
        pytest.approx(math.log(4) - math.log(3)),
        0.0,
        pytest.approx(math.log(3) - math.log(2)),
        0.0,
    ]
    assert episode.is_over
    assert episode.best.tolist() == [1, 0, 1, 0]
    assert episode.best_score.makespan_s == 2.0


@pytest.mark.parametrize("seed", range(4))
def test_final_rewards_sum_to_the_same(seed: int) -> None:
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, 30, 3, unlike=True)
    devices = rng.integers(0, 3, 30).tolist()
    sums = []
    for kind in ("each-move", "final"):
        episode = episode_of(problem, EpisodeRules(reward=kind))
        rewards = [episode.step(device) for device in devices[: episode.world.num_groups]]
        assert kind == "each-move" or rewards[:-1] == [0.0] * (len(rewards) - 1)
        sums.append(sum(rewards))
    first = episode.world.outcome(episode.world.single).log_time
    last = episode.state.outcome.log_time
    assert sums == [pytest.approx(first - last), pytest.approx(first - last)]


def test_every_group_is_visited_once_and_the_state_follows() -> None:
    episode = episode_of(two_towers(), EpisodeRules(order="random", start="random"), max_groups=8)
    seen: list[int] = []
    while not episode.is_over:
        state = episode.state
        assert sorted(np.flatnonzero(state.visited).tolist()) == sorted(seen)
        assert state.current not in seen
        seen.append(state.current)
        episode.step(1)
        assert episode.state.placement[seen[-1]] == 1
    assert sorted(seen) == list(range(8))
    assert (episode.state.placement == 1).all()
    with pytest.raises(UsageError, match="over"):
        episode.step(0)
    orders = {tuple(episode.order.tolist())}
    for _ in range(5):
        episode.reset()
        orders.add(tuple(episode.order.tolist()))
    assert len(orders) > 1


def test_a_topological_order_never_runs_ahead() -> None:
    world = World(
        Evaluator(random_problem(np.random.default_rng(5), 60, 2)), max_groups=20, is_listed=False
    )
    place = np.argsort(topological(world.graph))
    assert (place[world.graph.edges[:, 0]] < place[world.graph.edges[:, 1]]).all()


def test_what_overflows_is_worse_than_what_fits_however_fast() -> None:
    world = World(Evaluator(heavy_chain(6, 450, 2)))
    one = world.outcome(np.zeros(6, dtype=np.int32))
    both = world.outcome(np.array([0, 0, 0, 1, 1, 1], dtype=np.int32))
    assert one.score.makespan_s < both.score.makespan_s
    assert one.score.overflow_bytes > 0 == both.score.overflow_bytes
    assert one.log_time > both.log_time
    assert one.full[0] > 1.0 >= both.full.max()


def test_best_fits_even_if_the_start_does_not() -> None:
    episode = episode_of(heavy_chain(6, 450, 2))
    assert episode.best_score.overflow_bytes > 0
    for device in (0, 0, 0, 1, 1, 1):
        episode.step(device)
    assert episode.best_score.overflow_bytes == 0
    assert episode.best.tolist() == [0, 0, 0, 1, 1, 1]


def test_outcomes_say_when_groups_start_and_how_long_devices_work() -> None:
    world = World(Evaluator(side_by_side()))
    outcome = world.outcome(np.array([0, 0, 0, 1], dtype=np.int32))
    assert sorted(outcome.start[:3].tolist()) == pytest.approx([0.0, 1 / 3, 2 / 3])
    assert outcome.busy.tolist() == pytest.approx([1.0, 1 / 3])


def test_what_is_known_is_not_evaluated_again() -> None:
    world = World(Evaluator(side_by_side()))
    devices = np.array([0, 1, 0, 1], dtype=np.int32)
    world.outcome(devices)
    before = world.evaluator.evaluations
    assert world.outcome(devices.copy()) is world.outcome(devices)
    assert world.evaluator.evaluations == before


def test_masked_devices_are_refused() -> None:
    problem = side_by_side()
    seconds = problem.seconds.copy()
    seconds[1, 0] = np.inf
    pins = np.array([1, -1, -1, -1], dtype=np.int32)
    episode = episode_of(dataclasses.replace(problem, seconds=seconds, pins=pins))
    assert episode.mask.tolist() == [False, True]
    with pytest.raises(UsageError, match="may not go to device 0"):
        episode.step(0)
    with pytest.raises(UsageError, match="may not go to device -1"):
        episode.step(-1)
    episode.step(1)
    assert episode.mask.tolist() == [False, True]


def test_wrong_orders_and_starts_are_refused() -> None:
    episode = episode_of(side_by_side())
    with pytest.raises(UsageError, match="once"):
        episode.reset(order=np.array([0, 0, 1, 2]))
    pinned = dataclasses.replace(side_by_side(), pins=np.array([1, -1, -1, -1], dtype=np.int32))
    with pytest.raises(UsageError, match="may not"):
        episode_of(pinned).reset(start=np.zeros(4, dtype=np.int32))
    with pytest.raises(UsageError, match="nothing to place"):
        World(Evaluator(make_problem(make_graph([], []), make_cluster(2), np.zeros((0, 2)))))


@pytest.mark.parametrize(
    ("machine", "objective"),
    [
        ("placeto", "latency"),
        ("baechi", "latency"),
        ("moirai", "latency"),
        ("independent", "latency"),
        ("native", "throughput"),
        ("dnn-partitioning", "latency"),
        ("dnn-partitioning", "throughput"),
    ],
)
def test_it_goes_under_every_machine(machine: Machine, objective: Objective) -> None:
    rng = np.random.default_rng(2)
    problem = random_problem(rng, 25, 3)
    world = World(Evaluator(dataclasses.replace(problem, machine=machine, objective=objective)))
    for _ in range(5):
        outcome = world.outcome(world.random(rng))
        assert outcome.log_time <= WORST
        for share in (outcome.start, outcome.busy, outcome.full):
            assert np.isfinite(share).all()
            assert (share >= 0).all()


@pytest.mark.parametrize("seed", range(4))
def test_looking_ahead_tells_what_each_choice_changes(seed: int) -> None:
    world = World(Evaluator(random_problem(np.random.default_rng(seed), 30, 3)), max_groups=10)
    episode = Episode(world, EpisodeRules(start="random"), rng=np.random.default_rng(seed))
    while not episode.is_over:
        seen = episode.seen(is_ahead=True)
        assert seen.ahead is not None
        for device, said in enumerate(seen.ahead.tolist()):
            moved = seen.placement.copy()
            moved[seen.current] = device
            change = world.outcome(moved).log_time - seen.outcome.log_time
            assert said == pytest.approx(change, abs=1e-6)
        episode.step(int(seen.ahead.argmin()))


@pytest.mark.parametrize("seed", range(6))
def test_episodes_start_from_the_best_of_one_device_and_list_schedules(seed: int) -> None:
    rng = np.random.default_rng(seed)
    evaluator = Evaluator(random_problem(rng, 60, 3, window=10))
    quick = [
        evaluator.best_rule(policy(evaluator, rng=rng, evaluations=1))[0]
        for policy in (single, heft, m_etf)
    ]
    world = World(evaluator, max_groups=6)
    assert world.outcome(world.start).score == min(quick)
    assert evaluator.best_rule(world.of_ops(world.start))[0] == min(quick)
    published = World(evaluator, max_groups=6, is_listed=False)
    assert (published.start == published.single).all()
    assert published.num_groups <= 6
