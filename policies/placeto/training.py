"""A course from its beginning, or from where it was broken off, to a policy on disk."""

import hashlib
import json
import logging
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from dplace.errors import InputError
from dplace.lowering import Score
from dplace.policies.learned import PLACETO, policy_file, shipped
from dplace.policies.placeto.batch import make_batch
from dplace.policies.placeto.checkpoint import Checkpoint, load_policy, save_policy
from dplace.policies.placeto.course import Course, CourseSettings, Step
from dplace.policies.placeto.episode import Episode
from dplace.policies.placeto.files import PolicyFiles, write_state
from dplace.policies.placeto.journal import Journal
from dplace.policies.placeto.network import PlacetoNetwork
from dplace.policies.placeto.policy import fitting, told_kind
from dplace.policies.placeto.rollout import play
from dplace.policies.placeto.world import World

__all__ = ["greedy_scores", "recipe_of", "starting_points", "to_start_from", "train"]

_log = logging.getLogger(__name__)

KEPT_EVERY_S = 30.0
AT_ONCE = 8
"""Episodes of worlds that are played side by side at the end."""


def starting_points(from_policy: Path | None) -> list[Checkpoint]:
    """Return the policies to choose from to start from; none for random weights.

    Args:
        from_policy: A policy's file or folder, or ``placeto`` for those that are shipped.

    Raises:
        InputError: There is no such policy, or it is damaged.
    """
    if from_policy is None:
        return []
    if str(from_policy) != PLACETO:
        return [load_policy(policy_file(from_policy))]
    with shipped() as paths:
        if not paths:
            raise InputError(f"--from {PLACETO}: no policy comes with this version of dplace")
        return [load_policy(path) for path in paths]


def to_start_from(
    policies: Sequence[Checkpoint], world: World, *, seed: int, device: torch.device
) -> PlacetoNetwork:
    """Return the network that fits, or one with weights that the seed alone decides."""
    if policies:
        network = fitting(policies, world).network
    else:
        network = PlacetoNetwork(generator=torch.Generator().manual_seed(seed))
    return network.to(device)


def recipe_of(
    asked: str,
    network: PlacetoNetwork,
    worlds: Sequence[World],
    settings: CourseSettings,
    *,
    is_from: bool,
    processes: int,
) -> dict[str, Any]:
    """Return all that decides what a training comes to, as JSON tells it."""
    recipe = {
        "asked": asked,
        "processes": processes,
        "seed": settings.seed,
        "updates": settings.trials.updates,
        "imitate": 0 if settings.imitation is None else settings.imitation.updates,
        "settings": asdict(settings),
        "from": _digest(*network.parameters()) if is_from else None,
        "models": [
            [world.problem.graph.name, world.problem.cluster.spec, _digest_of(world)]
            for world in worlds
        ],
    }
    told: dict[str, Any] = json.loads(json.dumps(recipe))
    return told


def _digest_of(world: World) -> str:
    graph = world.graph
    return _digest(
        *(graph.group, graph.edges, graph.edge_sent, graph.features, graph.allowed),
        *(graph.device_features, graph.link, world.problem.seconds),
    )


def _digest(*arrays: torch.Tensor | NDArray[Any]) -> str:
    found = hashlib.sha256()
    for array in arrays:
        if isinstance(array, torch.Tensor):
            array = array.detach().cpu().numpy()
        found.update(str(array.shape).encode() + np.ascontiguousarray(array).tobytes())
    return found.hexdigest()[:16]


def train(
    course: Course,
    files: PolicyFiles,
    *,
    recipe: Mapping[str, Any],
    header: Mapping[str, Any],
    names: Sequence[str],
    results: Callable[[list[Score]], Mapping[str, Any]],
    logdir: Path | None = None,
    progress: Callable[[Step, int, int], None] | None = None,
) -> list[Score] | None:
    """Go through a course, and return what its policy comes to at once in each world.

    It is None if Ctrl-C, or the signal to terminate, ended it: then the step that was begun is
    finished and all is kept. A second one ends it on the spot, with what was kept before.

    Args:
        course: New, or restored.
        files: Where to write.
        recipe: What was asked, kept with it.
        header: What the policy's header tells of its training.
        names: Of the worlds.
        results: Makes of the scores what the header tells under ``results``.
        logdir: For TensorBoard.
        progress: Is told each step, the steps done, and how many there are.
    """

    def policy(more: Mapping[str, Any]) -> None:
        told = {
            **header,
            "steps_done": course.steps_done,
            "steps": course.num_steps,
            "kind": told_kind(course.worlds),
        }
        save_policy(files.policy, course.network, {**told, **more})

    def keep() -> None:
        if not course.ranks.is_first:
            return
        files.policy.absolute().parent.mkdir(parents=True, exist_ok=True)
        journal.flush()
        write_state(files, recipe, course.state())
        policy({})
        _log.info("%s: kept after step %d of %d", files.out, course.steps_done, course.num_steps)

    ranks = course.ranks

    def is_asked() -> bool:
        """Return whether any process was interrupted, so that all end after the same step."""
        return bool(ranks.total(torch.tensor([len(asked)]))[0])

    with closing(Journal(files.log, course, names, logdir)) as journal, interruptions() as asked:
        kept_at = time.monotonic()
        while not course.is_over:
            step = course.step()
            journal.note(step)
            told = step.stage, step.figures
            _log.debug("step %d of %d: %s %s", course.steps_done, course.num_steps, *told)
            if progress is not None:
                progress(step, course.steps_done, course.num_steps)
            if is_asked() and not course.is_over:
                keep()
                return None
            if time.monotonic() - kept_at >= KEPT_EVERY_S:
                keep()
                kept_at = time.monotonic()
        keep()
        scores = greedy_scores(course.network, course.worlds)
        if ranks.is_first:
            policy({"results": dict(results(scores)), "is_finished": True})
            files.state.unlink(missing_ok=True)
        return scores


def greedy_scores(network: PlacetoNetwork, worlds: tuple[World, ...]) -> list[Score]:
    """Return for each world the best score met by one episode of most probable devices."""
    device = next(network.parameters()).device
    episodes = [Episode(world, rng=np.random.default_rng(0)) for world in worlds]
    for begin in range(0, len(episodes), AT_ONCE):
        some = episodes[begin : begin + AT_ONCE]
        batch = make_batch([episode.world.graph for episode in some], device=device)
        play(network, batch, some, generator=None)
    return [episode.best_score for episode in episodes]


@contextmanager
def interruptions() -> Iterator[list[int]]:
    """Yield a list that Ctrl-C, or the signal to terminate, adds to; the second one ends all."""
    asked: list[int] = []

    def ask(number: int, frame: FrameType | None) -> None:
        if asked:
            raise KeyboardInterrupt
        asked.append(number)

    if threading.current_thread() is not threading.main_thread():
        yield asked
        return
    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
