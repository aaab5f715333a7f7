"""What ``pretrain`` and ``finetune`` answer, and what ``policies`` lists."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["LearnAnswer", "LearnedModel", "ShippedPolicies", "ShippedPolicy", "results_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnedModel:
    """A model on a cluster that a policy was trained on; times in seconds, ``inf`` for none."""

    model: str
    cluster: str
    num_ops: int
    num_groups: int
    bound_s: float
    """No placement is faster than this."""
    single_s: float
    """On the best single device."""
    best_s: float
    """The best that the training or the policy met."""
    policy_s: float
    """What the policy comes to in one episode, at its end; ``inf`` if it was interrupted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnAnswer:
    """How a training went."""

    out: Path
    steps_done: int
    steps: int
    models: tuple[LearnedModel, ...]
    warnings: tuple[str, ...] = ()
    is_interrupted: bool = False
    rank: int = 0
    """Of this process, where torchrun has started several; the first one tells."""

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON can tell it."""
        return {
            "out": str(self.out),
            "steps_done": self.steps_done,
            "steps": self.steps,
            "results": results_of(self.models),
            "models": [
                {name: _told(getattr(model, name)) for name in LearnedModel.__slots__}
                for model in self.models
            ],
            "warnings": list(self.warnings),
            "is_interrupted": self.is_interrupted,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ShippedPolicy:
    """A policy that comes with dplace."""

    name: str
    families: tuple[str, ...]
    clusters: tuple[str, ...]
    command: str
    """What trained it."""
    results: Mapping[str, Any]
    size_bytes: int


@dataclass(frozen=True, slots=True)
class ShippedPolicies:
    """All that come with dplace, by name."""

    policies: tuple[ShippedPolicy, ...]

    def as_json(self) -> dict[str, Any]:
        """Return them as JSON can tell them."""
        return {
            "policies": [
                {name: getattr(policy, name) for name in ShippedPolicy.__slots__}
                for policy in self.policies
            ]
        }


def results_of(models: Sequence[LearnedModel]) -> dict[str, float]:
    """Return means over models: geometric, for they are of ratios."""
    told: dict[str, float] = {"problems": len(models)}
    for name, above, below in (
        ("policy_over_single", "policy_s", "single_s"),
        ("best_over_single", "best_s", "single_s"),
        ("policy_over_bound", "policy_s", "bound_s"),
        ("best_over_bound", "best_s", "bound_s"),
    ):
        logs = [
            math.log(getattr(model, above) / getattr(model, below))
            for model in models
            if 0 < getattr(model, above) < math.inf and 0 < getattr(model, below) < math.inf
        ]
        if logs:
            told[name] = round(math.exp(math.fsum(logs) / len(logs)), 6)
    return told


def _told(value: object) -> object:
    return None if isinstance(value, float) and not math.isfinite(value) else value
