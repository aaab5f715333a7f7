"""What test_course.py starts: a small course, played by two processes together."""

import hashlib
import json
import multiprocessing
import os
from collections.abc import Sequence
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
from tests.runtime.ranks.processes import free_port

__all__ = ["SETTINGS", "STAGES", "course_of", "together"]

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


def together(name: str, ranks: Ranks) -> dict[str, object]:
    """Go through one stage, and tell what came of it."""
    course = course_of(STAGES[name], ranks)
    steps = [course.step() for _ in range(course.num_steps)]
    weights = torch.cat([weight.detach().flatten() for weight in course.network.parameters()])
    # Adam's first moments are sums of all gradients.
    moments = torch.cat([row.flatten() for row in course.state().all_of(name).row("exp_avg")])
    return {
        "weights": hashlib.sha256(weights.numpy().tobytes()).hexdigest(),
        "processes_apart": float((ranks.total(weights.clone()) / ranks.size - weights).abs().max()),
        "gradients": moments.tolist(),
        "figures": [step.figures for step in steps if step.stage != "search"],
        "best_s": steps[-1].best_s,
    }


def _rank(rank: int, port: int, out: Path) -> None:
    """Be one of two processes, by the variables that torchrun sets."""
    told = {"RANK": rank, "WORLD_SIZE": 2, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    os.environ.update({name: str(value) for name, value in told.items()})
    with ranks_of_torchrun("cpu") as (ranks, _):
        shared = ranks.from_first(b"what is kept" if ranks.is_first else b"").decode()
        assert ranks.from_first(b"") == b""
        answer: dict[str, object] = {
            "size": ranks.size,
            "shared": ranks.total(torch.tensor([shared == "what is kept"]).int()).item(),
        }
        answer.update({name: together(name, ranks) for name in STAGES})
        if ranks.is_first:
            out.write_text(json.dumps(answer))


def _main(outs: Sequence[Path]) -> None:
    """Let two processes play twice; forked, for each loads torch, dgl and numba in ten seconds."""
    torch.set_num_threads(1)
    course_of().step()
    # No backward pass: torch's engine does not outlive a fork. But what optimisers import.
    parameter = torch.nn.Parameter(torch.zeros(1))
    parameter.grad = torch.zeros(1)
    torch.optim.Adam([parameter]).step()
    context = multiprocessing.get_context("fork")
    for out in outs:
        port = free_port()
        ranks = [context.Process(target=_rank, args=(rank, port, out)) for rank in range(2)]
        for process in ranks:
            process.start()
        for process in ranks:
            process.join()
        if any(process.exitcode for process in ranks):
            raise SystemExit(f"ranks left with {[process.exitcode for process in ranks]}")


if __name__ == "__main__":
    import sys

    _main([Path(word) for word in sys.argv[1:]])
