"""What test_course.py lets torchrun start: a small course, played together and alone."""

import json
import math
from pathlib import Path

import torch

from dplace.policies.placeto.course import Course, CourseSettings, Step
from dplace.policies.placeto.episode import EpisodeRules
from dplace.policies.placeto.imitate import ImitationSettings
from dplace.policies.placeto.ranks import ALONE, Ranks, ranks_of_torchrun
from dplace.policies.placeto.train import Settings
from tests.policies.placeto.test_train import network, random_world

__all__ = ["SETTINGS", "course_of"]

SETTINGS = CourseSettings(
    imitation=ImitationSettings(updates=5, graphs=2, states=3, own_every=2),
    trials=Settings(updates=5, graphs=2, rules=EpisodeRules(order="mixed", start="mixed")),
    evaluations=200,
    seed=3,
)


def course_of(settings: CourseSettings = SETTINGS, ranks: Ranks = ALONE) -> Course:
    """Return a course over three worlds of unlike numbers of devices."""
    worlds = [random_world(index, 2 + index % 2) for index in range(3)]
    return Course(network(), worlds, settings, ranks=ranks)


def _told(steps: list[Step]) -> list[object]:
    return [[step.stage, step.figures, step.best_s] for step in steps if step.stage != "search"]


def _main(out: Path) -> None:
    with ranks_of_torchrun("cpu") as (ranks, _):
        shared = ranks.from_first(b"what is kept" if ranks.is_first else b"").decode()
        assert ranks.from_first(b"") == b""
        together = course_of(ranks=ranks)
        steps = [together.step() for _ in range(together.num_steps)]
        weights = torch.cat([weight.detach().flatten() for weight in together.network.parameters()])
        apart = ranks.total(weights.clone()) / ranks.size - weights
        answer = {
            "size": ranks.size,
            "steps": _told(steps),
            "shared": ranks.total(torch.tensor([shared == "what is kept"]).int()).item(),
            "is_over": together.is_over,
            "apart": float(apart.abs().max()),
            "is_finite": math.isfinite(float(weights.sum())),
        }
        if ranks.is_first:
            out.write_text(json.dumps(answer))


if __name__ == "__main__":
    import sys

    _main(Path(sys.argv[1]))
