"""The Gymnasium environment: its checker is content, and an episode is that of the process."""

import dataclasses

import numpy as np
import pytest

import dplace.policies
from dplace.errors import UsageError
from dplace.policies.placeto.episode import EpisodeRules
from dplace.problem import Problem
from tests.policies.worlds import branchy, heavy_chain
from tests.random_problems import random_problem

gymnasium = pytest.importorskip("gymnasium")

NAME = "dplace/Placement-v0"
gymnasium.register(NAME, entry_point=dplace.policies.PlacementEnv)


def worlds() -> list[Problem]:
    unlike = random_problem(np.random.default_rng(1), 30, 4, unlike=True)
    seconds = unlike.seconds.copy()
    seconds[::3, 1] = np.inf
    return [
        branchy(2),
        heavy_chain(6, 450, 2),
        dataclasses.replace(unlike, seconds=seconds),
        random_problem(np.random.default_rng(1), 1, 1),
    ]


@pytest.mark.parametrize("index", range(4))
def test_gymnasium_finds_nothing_wrong(index: int) -> None:
    from gymnasium.utils.env_checker import check_env

    rules = EpisodeRules(order="random", start="random")
    environment = gymnasium.make(NAME, problem=worlds()[index], rules=rules, max_groups=10)
    check_env(environment.unwrapped)


def test_an_episode_has_a_step_for_each_group() -> None:
    environment = gymnasium.make(NAME, problem=branchy(1), max_groups=5)
    observation, info = environment.reset(seed=3)
    assert environment.observation_space.contains(observation)
    is_over, steps = False, 0
    while not is_over:
        action = environment.action_space.sample(info["action_mask"])
        observation, _, is_over, is_cut, info = environment.step(action)
        assert not is_cut
        steps += 1
    assert steps == 5
    assert observation["visited"].all()
    assert info["best_makespan_s"] <= info["makespan_s"]


def test_a_masked_device_leaves_the_group_where_it_is() -> None:
    problem = dataclasses.replace(branchy(1), pins=np.full(branchy(1).num_ops, 1, dtype=np.int32))
    environment = dplace.policies.PlacementEnv(problem, max_groups=3)
    observation, _ = environment.reset(seed=0)
    assert observation["action_mask"].tolist() == [0, 1]
    after, reward, *_ = environment.step(np.int64(0))
    assert reward == 0.0
    assert (after["placement"] == observation["placement"]).all()


def test_orders_and_starts_can_be_given() -> None:
    environment = dplace.policies.PlacementEnv(branchy(1), max_groups=4)
    order, start = [3, 1, 0, 2], [1, 1, 1, 0]
    observation, _ = environment.reset(options={"order": order, "start": start})
    assert observation["placement"].tolist() == start
    seen = []
    for _ in order:
        seen.append(int(observation["current"]))
        observation, *_ = environment.step(np.int64(0))
    assert seen == order


@pytest.mark.parametrize("action", [2, -1, 10**9, 1.5, float("nan"), None, "1", np.array([1])])
def test_an_action_that_is_no_device_is_refused(action: object) -> None:
    environment = dplace.policies.PlacementEnv(branchy(1), max_groups=4)
    environment.reset(seed=0)
    with pytest.raises(UsageError, match="action: expected a device from 0 to 1, got"):
        environment.step(action)  # type: ignore[arg-type]
    for _ in range(4):
        environment.step(np.int64(1))
    with pytest.raises(UsageError, match="over"):
        environment.step(np.int64(1))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"start": [0, 0, 0, 2]}, "start: expected for each of 4 groups a device from 0 to 1"),
        ({"start": [0, 0, 0, -1]}, "start: expected"),
        ({"start": [0, 0, 0, 0.5]}, "start: expected"),
        ({"start": [0]}, "start: expected"),
        ({"start": 0}, "start: expected"),
        ({"order": [0, 1, 2]}, "order: expected each of 4 groups once"),
        ({"order": [[0, 1], [2, 3]]}, "order: expected"),
        ({"order": 3}, "order: expected"),
        ({"ordre": [0, 1, 2, 3]}, "options: expected order or start, got ordre"),
    ],
)
def test_options_that_are_none_are_refused(options: dict[str, object], words: str) -> None:
    environment = dplace.policies.PlacementEnv(branchy(1), max_groups=4)
    with pytest.raises(UsageError, match=words):
        environment.reset(options=options)


def test_without_gymnasium_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "gymnasium", None)
    monkeypatch.delitem(sys.modules, "dplace.policies.placeto.environment", raising=False)
    with pytest.raises(ImportError, match="dplace\\[gym\\]"):
        _ = dplace.policies.PlacementEnv
