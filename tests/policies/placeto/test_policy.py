"""What a network proposes, and which of several networks is asked."""

from pathlib import Path

import numpy as np
import pytest
import torch

from dplace.errors import InputError, MemoryLimitError, UsageError
from dplace.lowering import Evaluator
from dplace.policies import place
from dplace.policies.learned import is_policy_path
from dplace.policies.placeto.batch import make_batch
from dplace.policies.placeto.checkpoint import Checkpoint, save_policy, weights_of
from dplace.policies.placeto.episode import Episode
from dplace.policies.placeto.network import PlacetoNetwork
from dplace.policies.placeto.policy import EPISODES, fitting, propose, told_kind
from dplace.policies.placeto.rollout import play
from dplace.policies.placeto.world import World
from tests.policies.placeto.test_train import chains, network, random_world
from tests.policies.worlds import branchy, heavy_chain
from tests.random_problems import make_cluster, make_graph, make_problem


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "policy.safetensors"
    save_policy(path, network(), {})
    return path


def test_a_proposal_is_never_worse_than_one_device_and_repeats() -> None:
    world = random_world(2, 3)
    found = [
        propose(weights_of(network()), world, rng=np.random.default_rng(0), evaluations=1000)
        for _ in range(2)
    ]
    assert found[0].tolist() == found[1].tolist()
    assert world.outcome(found[0]).score <= world.outcome(world.single).score


def test_more_episodes_are_played_while_evaluations_are_left() -> None:
    used = []
    for evaluations in (0, 10**9):
        world = World(Evaluator(branchy(2)), max_groups=10)
        before = world.evaluator.evaluations
        propose(weights_of(network()), world, rng=np.random.default_rng(0), evaluations=evaluations)
        used.append(world.evaluator.evaluations - before)
    assert 0 < used[0] < used[1] <= 2 * EPISODES * used[0]


def test_the_policy_is_asked_that_was_trained_on_such_graphs() -> None:
    long, wide = [chains(1, length) for length in (14, 16)], [chains(num, 2) for num in (8, 9)]
    both = [*long, *wide]
    policies = [
        Checkpoint(PlacetoNetwork(), {"kind": told_kind(worlds)}) for worlds in (both, long, wide)
    ]
    nothing = Checkpoint(PlacetoNetwork(), {"kind": "none"})
    for world, expected in ((chains(1, 15), 1), (chains(7, 2), 2)):
        assert fitting([nothing, *policies], world) is policies[expected]
    assert fitting([nothing], long[0]) is nothing


def test_place_asks_a_policy_by_its_file_and_its_folder(saved: Path) -> None:
    problem = branchy(2)
    answers = [place(problem, str(path), evaluations=100) for path in (saved, saved.parent)]
    assert answers[0].placement.tolist() == answers[1].placement.tolist()
    assert answers[0].policy == str(saved)
    assert answers[0].objective_s <= answers[0].best_single_device_s * (1 + 1e-9)


def test_odd_problems_are_placed(saved: Path) -> None:
    empty = make_problem(make_graph([], []), make_cluster(2), np.zeros((0, 2)))
    assert place(empty, str(saved)).placement.tolist() == []
    one = make_problem(make_graph([["x"]], [["y"]]), make_cluster(1), [1.0])
    assert place(one, str(saved)).placement.tolist() == [0]


def test_what_fits_nowhere_is_told(saved: Path) -> None:
    with pytest.raises(MemoryLimitError):
        place(heavy_chain(6, 250, 2), str(saved))


def test_weights_whose_scores_overflow_are_refused(saved: Path) -> None:
    net, world = network(), random_world(2, 3)
    for weight in net.parameters():
        torch.nn.init.constant_(weight, 1e30)
    save_policy(saved, net, {})
    with pytest.raises(InputError, match="policy.safetensors: expected scores that are finite"):
        place(branchy(2), str(saved))
    episode = Episode(world, rng=np.random.default_rng(0))
    with pytest.raises(InputError, match="in training: expected scores that are finite"):
        play(net, make_batch([world.graph]), [episode], generator=None)


def test_a_word_with_a_slash_an_ending_or_a_file_is_a_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert is_policy_path("my-policy/")
    assert is_policy_path("ptb.safetensors")
    assert not is_policy_path("my-policy")
    (tmp_path / "my-policy").mkdir()
    assert is_policy_path("my-policy")
    with pytest.raises(UsageError, match="no policy 'mine'; there are auto, .*placeto"):
        place(branchy(1), "mine")
    with pytest.raises(InputError, match="my-policy/policy.safetensors: not a policy"):
        place(branchy(1), "my-policy")
