"""Policies as files: safetensors, with all that is needed to use one in its JSON header.

The header's entry ``dplace`` is JSON: ``format`` and ``version``, the network's ``shape``, the
``node_features``, ``device_features`` and ``moment_features`` that it was trained to see, in order,
``training``, what the trainer wants to tell, and a ``digest`` of all this and the weights.
docs/policy-format.md has them one by one.
"""

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from dplace.errors import InputError, UsageError
from dplace.graph_io.group_graph import DEVICE_FEATURES
from dplace.new_file import new_file
from dplace.policies.placeto.network import MOMENT_FEATURES, NODE_FEATURES, PlacetoNetwork, Shape

__all__ = ["Checkpoint", "load_policy", "save_policy"]

FORMAT, VERSION = "dplace-placeto", 1
ENTRY = "dplace"


class Checkpoint(NamedTuple):
    """A policy from a file."""

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
        **_expected(),
        "shape": dataclasses.asdict(network.shape),
        "training": dict(training),
    }
    header = json.loads(json.dumps(told))  # as it will be read: keys are strings
    header["digest"] = _digest(header, weights)
    with new_file(path) as file:
        file.write(save(weights, {ENTRY: json.dumps(header, sort_keys=True)}))


def load_policy(path: Path) -> Checkpoint:
    """Read a policy onto the CPU.

    Raises:
        InputError: There is no such file, it is damaged or no policy, or one of another version.
    """
    try:
        with safe_open(path, framework="pt") as file:
            entry = (file.metadata() or {}).get(ENTRY)
            weights = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise InputError(f"{path}: not a policy that can be read: {error}") from error
    if entry is None:
        raise InputError(f"{path}: not a policy of dplace; its header has no entry {ENTRY!r}")
    header = _parsed(path, entry)
    for name, expected in _expected().items():
        if header.get(name) != expected:
            raise InputError(
                f"{path}: {name}: expected {expected}, got {header.get(name)}; train it again "
                "with this version of dplace"
            )
    if any(weight.dtype != torch.float32 for weight in weights.values()):
        raise InputError(f"{path}: expected weights that are 32-bit floats")
    try:
        shape = header["shape"]
        with torch.device("meta"):  # whatever size the header tells, it takes no memory
            network = PlacetoNetwork(Shape(**{**shape, "pools": tuple(shape["pools"])}))
        network.load_state_dict(weights, assign=True)
    except (KeyError, TypeError, RuntimeError, UsageError) as error:
        raise InputError(f"{path}: shape and weights do not go together") from error
    if header.get("digest") != _digest(header, weights):
        raise InputError(
            f"{path}: header or weights are not those that were saved; get the file again"
        )
    training = header.get("training")
    return Checkpoint(network, training if isinstance(training, dict) else {})


def _expected() -> dict[str, Any]:
    """Return what has to be the same where a policy is used as where it was trained."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "node_features": list(NODE_FEATURES),
        "device_features": list(DEVICE_FEATURES),
        "moment_features": list(MOMENT_FEATURES),
    }


def _parsed(path: Path, entry: str) -> dict[str, Any]:
    try:
        header = json.loads(entry)
    except (json.JSONDecodeError, RecursionError) as error:
        raise InputError(f"{path}: its header is not JSON: {error}") from error
    if not isinstance(header, dict):
        raise InputError(f"{path}: its header is no JSON object")
    return header


def _digest(header: Mapping[str, Any], weights: Mapping[str, Tensor]) -> str:
    """Return a digest of the header but its own, and of names, types, shapes and numbers."""
    told = {name: value for name, value in header.items() if name != "digest"}
    found = hashlib.sha256(json.dumps(told, sort_keys=True).encode())
    for name, weight in sorted(weights.items()):
        found.update(f"\n{name} {weight.dtype} {tuple(weight.shape)}\n".encode())
        found.update(weight.numpy().tobytes())
    return found.hexdigest()
