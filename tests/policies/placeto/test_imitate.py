"""The first stage: targets are renumbered to fit, and a policy learns to go where they are."""

import dataclasses
import itertools

import numpy as np
import pytest
import torch

from dplace.lowering import Evaluator
from dplace.policies.placeto.batch import make_batch
from dplace.policies.placeto.episode import Episode
from dplace.policies.placeto.imitate import Imitation, ImitationSettings
from dplace.policies.placeto.network import PlacetoNetwork
from dplace.policies.placeto.rollout import play
from dplace.policies.placeto.shape import Shape
from dplace.policies.placeto.teacher import classes_of, matched, renumbered, taught
from dplace.policies.placeto.world import World
from tests.policies.placeto.test_train import chains, random_world
from tests.random_problems import random_problem

SMALL = Shape(width=8, rounds=2, is_ahead=False)


def test_devices_are_classed_by_what_a_policy_sees() -> None:
    alike = World(Evaluator(random_problem(np.random.default_rng(0), 20, 3)), max_groups=8)
    assert classes_of(alike.graph) == [[0, 1, 2]]
    slower = dataclasses.replace(alike.problem, seconds=alike.problem.seconds * [1.0, 2.0, 1.0])
    assert classes_of(World(Evaluator(slower), max_groups=8).graph) == [[0, 2], [1]]


def test_what_is_visited_first_need_not_move() -> None:
    target = np.array([2, 0, 0, 1, 2], dtype=np.int32)
    here = np.zeros(5, dtype=np.int32)
    order = np.arange(5)
    assert renumbered(target, here, order, [[0, 1, 2]]).tolist() == [0, 1, 1, 2, 0]
    # A device of its own class keeps its number.
    assert renumbered(target, here, order, [[0, 1], [2]]).tolist() == [2, 0, 0, 1, 2]
    assert renumbered(target, here, order[::-1], [[0, 1, 2]]).tolist() == [0, 2, 2, 1, 0]


@pytest.mark.parametrize("seed", range(20))
def test_a_target_is_matched_as_well_as_any_renumbering_does(seed: int) -> None:
    rng = np.random.default_rng(seed)
    target = rng.integers(4, size=9).astype(np.int32)
    here = rng.integers(4, size=9).astype(np.int32)
    weight = rng.random(9)
    classes = [[0, 2, 3], [1]]
    best = max(
        weight[np.array([a, 1, b, c])[target] == here].sum()
        for a, b, c in itertools.permutations([0, 2, 3])
    )
    found = matched(target, here, weight, classes)
    assert weight[found == here].sum() == pytest.approx(best)
    assert (found[target == 1] == 1).all()


def test_the_teacher_finds_what_is_best_of_few() -> None:
    world = chains(2)
    target = taught(world, evaluations=2000)
    assert target is not None
    least = min(
        world.outcome(np.array(devices, dtype=np.int32)).score
        for devices in itertools.product(range(2), repeat=world.num_groups)
    )
    assert world.outcome(target).score.makespan_s == pytest.approx(least.makespan_s)


def test_a_policy_learns_to_go_where_targets_are() -> None:
    worlds = [chains(2), chains(4), random_world(0, 2)]
    targets = [taught(world, evaluations=2000) for world in worlds]
    assert all(target is not None for target in targets)
    network = PlacetoNetwork(SMALL, generator=torch.Generator().manual_seed(0))
    settings = ImitationSettings(updates=120, graphs=3, states=8, own_every=10)
    stage = Imitation(network, worlds, [t for t in targets if t is not None], settings)
    told = [stage.update() for _ in range(settings.updates)]
    assert (
        np.mean([one.loss for one in told[-20:]]) < 0.7 * told[0].loss
    )  # soft targets have an entropy of their own
    for world, target in zip(worlds, targets, strict=True):
        assert target is not None
        episode = Episode(world, rng=np.random.default_rng(0))
        play(network, make_batch([world.graph]), [episode], generator=None)
        asked = world.outcome(target).score.makespan_s
        assert episode.best_score.makespan_s <= 1.1 * asked


def test_equal_seeds_imitate_equally() -> None:
    def told() -> list[float]:
        worlds = [chains(2), random_world(1, 3)]
        targets = [world.random(np.random.default_rng(0)) for world in worlds]
        network = PlacetoNetwork(SMALL, generator=torch.Generator().manual_seed(0))
        settings = ImitationSettings(updates=8, graphs=1, states=2, own_every=3)
        stage = Imitation(network, worlds, targets, settings, seed=5)
        return [stage.update().loss for _ in range(settings.updates)]

    assert told() == told()
