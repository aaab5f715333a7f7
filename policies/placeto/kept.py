"""What a training depends on from here on, as tensors and JSON: one file, and no pickle.

The file is safetensors; its header's entry ``dplace-training`` is JSON and has a digest of all.
"""

import hashlib
import json
from collections import deque
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor, nn

from dplace.errors import InputError
from dplace.new_file import new_file
from dplace.policies.placeto.episode import Episode

__all__ = ["Kept", "Learner", "keep_learner", "load_kept", "restore_learner", "save_kept"]

ENTRY = "dplace-training"

Learner = tuple[
    nn.Module, torch.optim.Adam, np.random.Generator, torch.Generator, Sequence[Episode]
]
"""A network, what improves it, the two sources of chance, and what it plays."""


class Kept(NamedTuple):
    """All that what comes next depends on."""

    tensors: dict[str, Tensor]
    told: dict[str, Any]
    """As JSON can tell it, with strings as keys."""

    def put_row(self, name: str, tensors: Iterable[Tensor]) -> None:
        """Keep some tensors in their order."""
        row = [tensor.detach().cpu().contiguous().clone() for tensor in tensors]
        self.told[f"{name}.length"] = len(row)
        self.tensors.update({f"{name}.{at}": tensor for at, tensor in enumerate(row)})

    def row(self, name: str) -> list[Tensor]:
        """Return tensors as they were put, copies."""
        length = self.told[f"{name}.length"]
        return [self.tensors[f"{name}.{at}"].clone() for at in range(length)]

    def put_all(self, name: str, other: "Kept") -> None:
        """Keep all of another under a name."""
        self.tensors.update({f"{name}.{key}": tensor for key, tensor in other.tensors.items()})
        self.told[name] = dict(other.told)

    def all_of(self, name: str) -> "Kept":
        """Return what was put under a name."""
        start = f"{name}."
        tensors = {
            key.removeprefix(start): tensor
            for key, tensor in self.tensors.items()
            if key.startswith(start)
        }
        return Kept(tensors, dict(self.told[name]))


def keep_learner(
    network: nn.Module,
    optimiser: torch.optim.Adam,
    rng: np.random.Generator,
    generator: torch.Generator,
    episodes: Sequence[Episode],
) -> Kept:
    """Return weights, moments, sources of chance, and the best placement of each episode."""
    kept = Kept({}, {"rng": rng.bit_generator.state})
    kept.put_row("generator", [generator.get_state()])
    kept.put_row("weights", network.parameters())
    states = [optimiser.state.get(parameter) for parameter in network.parameters()]
    kept.told["has_moments"] = [bool(state) for state in states]
    for name in MOMENTS:
        kept.put_row(name, [state[name] for state in states if state])
    kept.put_row("best", [torch.from_numpy(episode.best) for episode in episodes])
    return kept


MOMENTS = ("step", "exp_avg", "exp_avg_sq")
"""What Adam knows of a parameter."""


def restore_learner(
    kept: Kept,
    network: nn.Module,
    optimiser: torch.optim.Adam,
    rng: np.random.Generator,
    generator: torch.Generator,
    episodes: Sequence[Episode],
) -> None:
    """Put back what ``keep_learner`` returned."""
    rng.bit_generator.state = kept.told["rng"]
    generator.set_state(kept.row("generator")[0])
    parameters = list(network.parameters())
    with torch.no_grad():
        for parameter, weight in zip(parameters, kept.row("weights"), strict=True):
            parameter.copy_(weight)
    rows = {name: deque(kept.row(name)) for name in MOMENTS}
    optimiser.state.clear()
    for parameter, has_moments in zip(parameters, kept.told["has_moments"], strict=True):
        if has_moments:
            optimiser.state[parameter] = {
                # Adam counts steps on the CPU, wherever the weights are.
                name: row.popleft() if name == "step" else row.popleft().to(parameter.device)
                for name, row in rows.items()
            }
    for episode, best in zip(episodes, kept.row("best"), strict=True):
        episode.best = best.numpy()
        episode.best_score = episode.world.outcome(episode.best).score


def save_kept(path: Path, kept: Kept) -> None:
    """Write what is kept; the file is there when it is whole.

    Raises:
        OSError: The file cannot be written.
    """
    told = json.loads(json.dumps(kept.told))
    header = json.dumps({"told": told, "digest": _digest(kept._replace(told=told))})
    with new_file(path) as file:
        file.write(save(kept.tensors, {ENTRY: header}))


def load_kept(content: bytes, name: str) -> Kept:
    """Return what was written, from what its file holds.

    Args:
        content: Of the file.
        name: Of the file, for errors.

    Raises:
        InputError: It is damaged.
    """
    try:
        tensors = load(content)
        length = int.from_bytes(content[:8], "little")
        header = json.loads(json.loads(content[8 : 8 + length])["__metadata__"][ENTRY])
        kept = Kept(tensors, header["told"])
        is_whole = header["digest"] == _digest(kept)
    except (SafetensorError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(f"{name}: not the state of a training that can be read") from error
    if not is_whole:
        raise InputError(f"{name}: the state of the training is damaged")
    return kept


def _digest(kept: Kept) -> str:
    found = hashlib.sha256(json.dumps(kept.told, sort_keys=True).encode())
    for name, tensor in sorted(kept.tensors.items()):
        found.update(f"\n{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        found.update(tensor.numpy().tobytes())
    return found.hexdigest()
