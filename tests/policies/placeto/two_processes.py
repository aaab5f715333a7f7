"""What test_course.py lets torchrun start: a small course, played together and alone."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from dplace.lowering import Evaluator
from dplace.policies.placeto.course import Course, CourseSettings
from dplace.policies.placeto.episode import EpisodeRules
from dplace.policies.placeto.imitate import ImitationSettings
from dplace.policies.placeto.ranks import ALONE, Ranks, ranks_of_torchrun
from dplace.policies.placeto.train import Settings
from dplace.policies.placeto.world import World
from tests.policies.placeto.test_train import network
from tests.random_problems import random_problem

__all__ = ["SETTINGS", "STAGES", "course_of"]

SETTINGS = CourseSettings(
    imitation=ImitationSettings(updates=5, graphs=2, states=3, own_every=2),
    trials=Settings(updates=5, graphs=2, rules=EpisodeRules(order="mixed", start="mixed")),
    evaluations=200,
    seed=3,
)


def course_of(settings: CourseSettings = SETTINGS, ranks: Ranks = ALONE) -> Course:
    """Return a course over three worlds of unlike numbers of devices.

    The devices are unlike as well: between two that are alike rounding may decide.
    """
    worlds = [_world(index, 2 + index % 2) for index in range(3)]
    return Course(network(), worlds, settings, ranks=ranks)


def _world(seed: int, num_devices: int) -> World:
    problem = random_problem(np.random.default_rng(seed), 20, num_devices, window=6, unlike=True)
    return World(Evaluator(problem), max_groups=8)


# With steps this small rounding stays what it is: Adam's are as long for the smallest gradients as
# for the largest, and another weight may draw another device.
RATE = 1e-6
STAGES = {
    "imitation": replace(
        SETTINGS,
        imitation=ImitationSettings(
            updates=5, graphs=2, states=3, own_every=2, learning_rate=RATE, last_learning_rate=RATE
        ),
        trials=Settings(updates=0),
    ),
    "trials": replace(
        SETTINGS,
        imitation=None,
        trials=replace(SETTINGS.trials, learning_rate=RATE, last_learning_rate=RATE),
    ),
}


def _compare(name: str, ranks: Ranks) -> dict[str, object]:
    """Go through one stage together and alone, and tell how far apart that is."""
    together, alone = course_of(STAGES[name], ranks), course_of(STAGES[name])
    steps = [together.step() for _ in range(together.num_steps)]
    expected = [alone.step() for _ in range(alone.num_steps)]
    weights = torch.cat([weight.detach().flatten() for weight in together.network.parameters()])
    # Adam's first moments are sums of all gradients.
    one, other = (
        torch.cat([row.flatten() for row in course.state().all_of(name).row("exp_avg")])
        for course in (together, alone)
    )
    return {
        "weights": hashlib.sha256(weights.numpy().tobytes()).hexdigest(),
        "processes_apart": float((ranks.total(weights.clone()) / ranks.size - weights).abs().max()),
        "gradients_apart": float((one - other).abs().max() / other.abs().max()),
        "figures": [step.figures for step in steps if step.stage != "search"],
        "expected": [step.figures for step in expected if step.stage != "search"],
        "is_best_equal": steps[-1].best_s == expected[-1].best_s,
    }


def _main(out: Path) -> None:
    with ranks_of_torchrun("cpu") as (ranks, _):
        shared = ranks.from_first(b"what is kept" if ranks.is_first else b"").decode()
        assert ranks.from_first(b"") == b""
        answer: dict[str, object] = {
            "size": ranks.size,
            "shared": ranks.total(torch.tensor([shared == "what is kept"]).int()).item(),
        }
        answer.update({name: _compare(name, ranks) for name in STAGES})
        if ranks.is_first:
            out.write_text(json.dumps(answer))


if __name__ == "__main__":
    import sys

    _main(Path(sys.argv[1]))
