"""Networks to files and back; weights.py says what is in such a file, and reads it."""

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors.torch import save

from dplace.new_file import new_file
from dplace.policies.placeto.network import PlacetoNetwork
from dplace.policies.placeto.weights import ENTRY, Weights, digest, expected_header, read_weights

__all__ = ["Checkpoint", "load_policy", "save_policy", "weights_of"]


class Checkpoint(NamedTuple):
    """A policy from a file, to be trained on."""

    network: PlacetoNetwork
    training: dict[str, Any]
    """What the trainer told."""


def save_policy(path: Path, network: PlacetoNetwork, training: Mapping[str, Any]) -> None:
    """Write a policy; equal policies make equal files.

    Args:
        path: Takes the place of what is there once the file is whole.
        network: What is kept.
        training: How it came about, as JSON can tell it.

    Raises:
        OSError: The file cannot be written.
    """
    weights = {
        name: weight.detach().cpu().contiguous() for name, weight in network.state_dict().items()
    }
    told = {
        **expected_header(),
        "shape": dataclasses.asdict(network.shape),
        "training": dict(training),
    }
    header = json.loads(json.dumps(told))  # as it will be read: keys are strings
    header["digest"] = digest(header, {name: each.numpy() for name, each in weights.items()})
    with new_file(path) as file:
        file.write(save(weights, {ENTRY: json.dumps(header, sort_keys=True)}))


def load_policy(path: Path) -> Checkpoint:
    """Read a policy onto the CPU.

    Raises:
        InputError: There is no such file, it is damaged or no policy, or one of another version.
    """
    weights = read_weights(path)
    with torch.device("meta"):
        network = PlacetoNetwork(weights.shape)
    copies = {name: torch.tensor(array) for name, array in weights.arrays.items()}
    network.load_state_dict(copies, assign=True)
    return Checkpoint(network, weights.training)


def weights_of(network: PlacetoNetwork) -> Weights:
    """Return a copy of a network's weights as they are now."""
    found = network.state_dict().items()
    arrays = {name: weight.detach().cpu().numpy().copy() for name, weight in found}
    return Weights(network.shape, arrays, {})
