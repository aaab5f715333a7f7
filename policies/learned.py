"""``placeto``, by name or by the file of a policy: what decides is what a network has learned.

Nothing here imports torch: what a policy says is computed in NumPy.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dplace.errors import InputError, MemoryLimitError
from dplace.lowering import Evaluator
from dplace.policies.memory import no_room

__all__ = [
    "PLACETO",
    "POLICY_FILE",
    "Learned",
    "is_policy_path",
    "policy_file",
    "proposal",
    "shipped",
]

PLACETO = "placeto"
"""The name of the shipped policy that fits what is placed."""

POLICY_FILE = "policy.safetensors"
"""The policy in a folder that ``finetune`` or ``pretrain`` wrote."""

SUFFIX = ".safetensors"

LONG_SEARCH = 40_000_000
"""Evaluations times ops from which a search takes more than some five seconds."""
LEAST_EVALUATIONS = 4000
"""Ten times what an episode of a small graph takes."""


@dataclass(frozen=True, slots=True)
class Learned:
    """Places by a network."""

    path: Path | None = None
    """The file of a policy or the folder that has one; None for the shipped one that fits."""

    def __call__(
        self, evaluator: Evaluator, *, rng: np.random.Generator, evaluations: int
    ) -> NDArray[np.int32]:
        """Return a device for each op, shape ``(num_ops,)``; see ``Policy``.

        Raises:
            InputError: There is no such policy, or it is damaged.
            MemoryLimitError: The policy finds nothing that fits.
        """
        from dplace.policies.placeto.policy import fitting, propose
        from dplace.policies.placeto.weights import read_weights
        from dplace.policies.placeto.world import World

        with shipped() as paths:
            if self.path is not None:
                candidates = [read_weights(policy_file(self.path))]
            elif paths:
                candidates = [read_weights(path) for path in paths]
            else:
                raise InputError(
                    f"--policy {PLACETO}: no policy comes with this version of dplace; train one "
                    "with dplace pretrain or dplace finetune, and give its path"
                )
        problem = evaluator.problem
        if problem.num_ops == 0:
            return np.zeros(0, dtype=np.int32)
        world = World(evaluator)
        devices = propose(fitting(candidates, world), world, rng=rng, evaluations=evaluations)
        placement = world.of_ops(devices)
        score, _ = evaluator.best_rule(placement)
        if score.overflow_bytes:
            raise no_room(problem, score, evaluator.overflow_bytes(placement))
        return placement


def proposal(
    evaluator: Evaluator, *, rng: np.random.Generator, evaluations: int
) -> NDArray[np.int32] | None:
    """Return what the shipped policy that fits proposes, or None where it is not asked.

    It is asked where the search is long, and where an episode takes a small part of its
    evaluations.

    Args:
        evaluator: The problem and its simulator.
        rng: Of the orders of visits.
        evaluations: What the whole search may take.
    """
    problem = evaluator.problem
    is_long = evaluations * problem.num_ops >= LONG_SEARCH
    if not is_long or problem.num_devices == 1 or evaluations < LEAST_EVALUATIONS:
        return None
    with shipped() as paths:
        if not paths:
            return None
    with suppress(MemoryLimitError):
        return Learned()(evaluator, rng=rng, evaluations=evaluations // 10)
    return None


def policy_file(path: Path) -> Path:
    """Return the file of a policy that is given as its file or its folder."""
    return path / POLICY_FILE if path.is_dir() else path


def is_policy_path(name: str) -> bool:
    """Return whether a word for ``--policy`` means a file or a folder."""
    return bool(name) and ("/" in name or name.endswith(SUFFIX) or Path(name).exists())


@contextmanager
def shipped() -> Iterator[list[Path]]:
    """Yield the files of the policies that come with dplace, by name."""
    with as_file(files("dplace.policies.pretrained")) as folder:
        yield sorted(folder.glob(f"*{SUFFIX}"))
