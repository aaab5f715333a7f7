"""Policies as files: what is read is what was written, and what is wrong is refused."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load, save, save_file

from dplace.errors import InputError
from dplace.policies.placeto.checkpoint import load_policy, save_policy
from dplace.policies.placeto.network import PlacetoNetwork
from dplace.policies.placeto.shape import Shape

SHAPE = {"width": 4, "rounds": 3, "pools": ["ancestors", "self"]}


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "policy.safetensors"
    shape = Shape(width=4, rounds=3, pools=("ancestors", "self"))
    net = PlacetoNetwork(shape, generator=torch.Generator().manual_seed(1))
    save_policy(path, net, {"family": "ptb"})
    return path


def header_of(path: Path) -> dict[str, object]:
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    entry = json.loads(content[8 : 8 + length])["__metadata__"]["dplace"]
    header: dict[str, object] = json.loads(entry)
    return header


def rewrite(path: Path, **changes: object) -> None:
    header = {**header_of(path), **changes}
    path.write_bytes(save(load(path.read_bytes()), {"dplace": json.dumps(header)}))


def test_a_policy_comes_back_as_it_was(saved: Path) -> None:
    network, training = load_policy(saved)
    assert training == {"family": "ptb"}
    assert network.shape == Shape(width=4, rounds=3, pools=("ancestors", "self"))
    before = PlacetoNetwork(network.shape, generator=torch.Generator().manual_seed(1))
    for one, other in zip(before.parameters(), network.parameters(), strict=True):
        assert torch.equal(one, other)
    content = saved.read_bytes()
    save_policy(saved, network, training)
    assert saved.read_bytes() == content


def test_what_a_trainer_tells_may_be_keyed_by_numbers(saved: Path) -> None:
    save_policy(saved, load_policy(saved).network, {"steps": {9: 1.5, 10: float("inf")}})
    assert load_policy(saved).training == {"steps": {"9": 1.5, "10": float("inf")}}


def test_a_policy_that_was_read_can_be_trained(saved: Path) -> None:
    content = saved.read_bytes()
    network, _ = load_policy(saved)
    for weight in network.parameters():
        assert weight.requires_grad
        assert not weight.is_meta
        weight.data.zero_()
    assert saved.read_bytes() == content


def test_a_policy_of_the_usual_shape_is_small(tmp_path: Path) -> None:
    path = tmp_path / "policy.safetensors"
    save_policy(path, PlacetoNetwork(), {})
    assert path.stat().st_size < 2e6


def test_a_file_that_is_missing_cut_or_none_is_refused(saved: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="missing.safetensors"):
        load_policy(tmp_path / "missing.safetensors")
    content = saved.read_bytes()
    for wrong in (b"", b"no policy at all", content[: len(content) // 2], content[:-1]):
        saved.write_bytes(wrong)
        with pytest.raises(InputError, match="not a policy"):
            load_policy(saved)
    save_file({"weight": torch.zeros(2)}, saved)
    with pytest.raises(InputError, match="no entry 'dplace'"):
        load_policy(saved)


def test_weights_of_another_kind_and_headers_without_end_are_refused(saved: Path) -> None:
    content = saved.read_bytes()
    header = json.dumps(header_of(saved))
    for kind in (torch.bfloat16, torch.float64, torch.int32):
        weights = {name: weight.to(kind) for name, weight in load(content).items()}
        saved.write_bytes(save(weights, {"dplace": header}))
        with pytest.raises(InputError, match="32-bit floats"):
            load_policy(saved)
    saved.write_bytes(save(load(content), {"dplace": "[" * 100_000}))
    with pytest.raises(InputError, match="not JSON"):
        load_policy(saved)


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_weights_that_are_no_numbers_are_refused(saved: Path, number: float) -> None:
    network = load_policy(saved).network
    torch.nn.init.constant_(network.get_parameter("classify.1.bias"), number)
    save_policy(saved, network, {})
    with pytest.raises(InputError, match="classify.1.bias: expected finite numbers, got NaN or"):
        load_policy(saved)


def test_a_changed_weight_is_noticed(saved: Path) -> None:
    content = bytearray(saved.read_bytes())
    content[-3] ^= 1
    saved.write_bytes(bytes(content))
    with pytest.raises(InputError, match="not those that were saved"):
        load_policy(saved)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"version": 99}, "version: expected 1, got 99"),
        ({"format": "other"}, "format: expected dplace-placeto"),
        ({"node_features": ["work"]}, "node_features"),
        ({"shape": {"width": 8, "rounds": 3, "pools": ["self"]}}, "do not go together"),
        ({"shape": {"depth": 8}}, "do not go together"),
        ({"shape": None}, "do not go together"),
        ({"shape": {**SHAPE, "width": 0}}, "do not go together"),
        ({"shape": {**SHAPE, "width": 10**5}}, "do not go together"),
        ({"shape": {**SHAPE, "pools": ["ancestors", "self", "other"]}}, "do not go together"),
        ({"shape": {**SHAPE, "rounds": "3"}}, "do not go together"),
        ({"shape": {**SHAPE, "rounds": 4}}, "not those that were saved"),
        ({"training": {"family": "nmt"}}, "not those that were saved"),
    ],
)
def test_a_header_that_does_not_fit_is_refused(
    saved: Path, changes: dict[str, object], words: str
) -> None:
    rewrite(saved, **changes)
    with pytest.raises(InputError, match=words):
        load_policy(saved)
