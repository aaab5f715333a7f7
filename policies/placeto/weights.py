"""Policies as files are read: safetensors, with all that is needed to use one in its JSON header.

The header's entry ``dplace`` is JSON: ``format`` and ``version``, the network's ``shape``, the
``node_features``, ``device_features`` and ``moment_features`` that it was trained to see, in order,
``training``, what the trainer wants to tell, and a ``digest`` of all this and the weights.
docs/policy-format.md has them one by one. Nothing here needs torch.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from dplace.errors import InputError, UsageError
from dplace.graph_io.group_graph import DEVICE_FEATURES
from dplace.policies.placeto.shape import MOMENT_FEATURES, NODE_FEATURES, Shape, weight_shapes

__all__ = ["ENTRY", "Weights", "digest", "expected_header", "no_number", "read_weights"]

FORMAT, VERSION = "dplace-placeto", 1
ENTRY = "dplace"


class Weights(NamedTuple):
    """A policy from a file, as arrays."""

    shape: Shape
    arrays: dict[str, NDArray[np.float32]]
    """By the names of the network's weights."""
    training: dict[str, Any]
    """What the trainer told."""
    name: str = "the policy"
    """What messages call it: its file."""


def read_weights(path: Path) -> Weights:
    """Read a policy.

    Raises:
        InputError: There is no such file, it is damaged or no policy, or one of another version,
            or its training ended in weights that are no numbers.
    """
    try:
        with safe_open(path, framework="numpy") as file:
            entry = (file.metadata() or {}).get(ENTRY)
            names = list(file.keys())
            is_float = all(file.get_slice(name).get_dtype() == "F32" for name in names)
            arrays = {name: file.get_tensor(name) for name in names} if is_float else {}
    except (OSError, SafetensorError) as error:
        raise InputError(f"{path}: not a policy that can be read: {error}") from error
    if entry is None:
        raise InputError(f"{path}: not a policy of dplace; its header has no entry {ENTRY!r}")
    header = _parsed(path, entry)
    for name, expected in expected_header().items():
        if header.get(name) != expected:
            raise InputError(
                f"{path}: {name}: expected {expected}, got {header.get(name)}; train it again "
                "with this version of dplace"
            )
    if not is_float:
        raise InputError(f"{path}: expected weights that are 32-bit floats")
    try:
        told = header["shape"]
        shape = Shape(**{**told, "pools": tuple(told["pools"])})
        shapes = weight_shapes(shape)
    except (KeyError, TypeError, UsageError) as error:
        raise InputError(f"{path}: shape and weights do not go together") from error
    if shapes != {name: array.shape for name, array in arrays.items()}:
        raise InputError(f"{path}: shape and weights do not go together")
    if header.get("digest") != digest(header, arrays):
        raise InputError(
            f"{path}: header or weights are not those that were saved; get the file again"
        )
    for name, array in arrays.items():
        if not np.isfinite(array).all():
            raise InputError(
                f"{path}: {name}: expected finite numbers, got NaN or infinity; train it again"
            )
    training = header.get("training")
    return Weights(shape, arrays, training if isinstance(training, dict) else {}, str(path))


def expected_header() -> dict[str, Any]:
    """Return what has to be the same where a policy is used as where it was trained."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "node_features": list(NODE_FEATURES),
        "device_features": list(DEVICE_FEATURES),
        "moment_features": list(MOMENT_FEATURES),
    }


def no_number(name: str) -> InputError:
    """Return the error of a policy whose scores overflow."""
    return InputError(
        f"{name}: expected scores that are finite numbers, got NaN or infinity: its weights are "
        "too large; train it again"
    )


def _parsed(path: Path, entry: str) -> dict[str, Any]:
    try:
        header = json.loads(entry)
    except (json.JSONDecodeError, RecursionError) as error:
        raise InputError(f"{path}: its header is not JSON: {error}") from error
    if not isinstance(header, dict):
        raise InputError(f"{path}: its header is no JSON object")
    return header


def digest(header: Mapping[str, Any], arrays: Mapping[str, NDArray[np.float32]]) -> str:
    """Return a digest of the header but its own, and of names, types, shapes and numbers."""
    told = {name: value for name, value in header.items() if name != "digest"}
    found = hashlib.sha256(json.dumps(told, sort_keys=True).encode())
    for name, array in sorted(arrays.items()):
        found.update(f"\n{name} torch.{array.dtype} {array.shape}\n".encode())
        found.update(array.tobytes())
    return found.hexdigest()
