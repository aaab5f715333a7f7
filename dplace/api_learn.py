"""Policies that are learned: pretrain, finetune, the list of those shipped: part of the roof."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from dplace.api_learn_models import Source, family_sources, model_files, read_worlds
from dplace.errors import UsageError

if TYPE_CHECKING:
    from dplace.cluster import Cluster
    from dplace.lowering import Score
    from dplace.policies.placeto.course import Course, CourseSettings, Step
    from dplace.report.learning import LearnAnswer, LearnedModel, ShippedPolicies

__all__ = ["CLUSTERS", "EPISODES", "Progress", "finetune", "pretrain", "shipped_policies"]

_log = logging.getLogger(__name__)

CLUSTERS = ("2xV100", "4xV100")
"""What ``pretrain`` places on where nothing is said: as many devices as in Placeto."""

EPISODES = 2000
"""What ``finetune`` plays where nothing is said."""

MAX_SEED = 2**64 - 1
"""torch takes no larger one."""

Progress = Callable[[int, int, str], None]
"""Takes how much is done, of how much, and how it goes."""


def pretrain(
    families: Sequence[str | Path],
    *,
    out: Path | str,
    clusters: Sequence[str | Cluster] | None = None,
    updates: int | None = None,
    imitate: int | None = None,
    seed: int = 0,
    members: int | None = None,
    dims: Mapping[str, int] | None = None,
    logdir: Path | str | None = None,
    overwrite: bool = False,
    device: str = "cpu",
    settings: CourseSettings | None = None,
    command: str = "",
    progress: Progress | None = None,
    tell: Callable[[str], None] | None = None,
) -> LearnAnswer:
    """Train a policy on the training members of families, or on models of your own.

    Asked again with the same ``out`` it goes on where it was interrupted, to the same result.

    Args:
        families: Names of families; folders, patterns or files as for ``finetune``.
        out: A file ``NAME.safetensors``, or a folder to have it in.
        clusters: Each model is placed on each; by default ``CLUSTERS``.
        updates: Of the last stage, which learns from trials.
        imitate: Updates of the stage before, which imitates what search finds; 0 for none.
        seed: Of the first weights and all chance.
        members: How many of each family's training members; None for all of them.
        dims: Sizes of dynamic dimensions in place of the family's own.
        logdir: A folder for TensorBoard's files.
        overwrite: Whether what is at ``out`` may go.
        device: Where the network computes: ``cpu`` or ``cuda``.
        settings: All else.
        command: What the policy is to tell about how it came about.
        progress: See ``Progress``.
        tell: Takes sentences for the user, such as that it goes on from before.

    Raises:
        InputError: A family, a model, a cluster or ``out`` cannot be used.
        MemoryLimitError: A model does not fit.
        UsageError: Options that do not go together.
    """
    from dplace.policies.placeto.course import CourseSettings

    base = settings or CourseSettings()
    if not families:
        raise UsageError("pretrain: expected at least one family or folder, got none")
    clusters = clusters or CLUSTERS
    words = [str(family) for family in families]
    return _learn(
        "pretrain",
        family_sources(words, clusters, members=members, dims=dims or {}),
        out=Path(out),
        settings=_with(base, updates=updates, imitate=imitate, seed=seed),
        from_policy=None,
        dims=dims or {},
        logdir=logdir,
        overwrite=overwrite,
        device=device,
        header={"families": words, "clusters": [_spec(c) for c in clusters], "command": command},
        progress=progress,
        tell=tell,
    )


def finetune(
    models: Sequence[str | Path],
    *,
    cluster: str | Cluster,
    out: Path | str,
    from_policy: Path | str | None = None,
    episodes: int | None = None,
    imitate: int | None = None,
    seed: int = 0,
    dims: Mapping[str, int] | None = None,
    logdir: Path | str | None = None,
    overwrite: bool = False,
    device: str = "cpu",
    settings: CourseSettings | None = None,
    command: str = "",
    progress: Progress | None = None,
    tell: Callable[[str], None] | None = None,
) -> LearnAnswer:
    """Train a policy on models of your own, from another policy or from nothing.

    Args:
        models: Files, folders that have them, or patterns; cost graphs may be among the files.
        cluster: As for ``place``.
        out: As for ``pretrain``, as are all that are not here.
        from_policy: A policy's file or folder, or ``placeto`` for the shipped one that fits the
            first model; None for random weights.
        episodes: How many are played in all, rounded up to whole updates.
        imitate: Updates that imitate what search finds, before those; by default none.

    Raises:
        InputError: A model, the cluster, a policy or ``out`` cannot be used.
        MemoryLimitError: A model does not fit.
        UsageError: Options that do not go together.
    """
    from dplace.policies.placeto.course import CourseSettings

    if episodes is None:
        episodes = EPISODES
    if episodes < 1:
        raise UsageError(f"--episodes {episodes}: expected at least 1")
    base = settings or CourseSettings()
    sources = [
        Source(name=str(path), model=path, cluster=cluster, sizes=dims or {})
        for path in model_files([str(model) for model in models])
    ]
    at_once = min(base.trials.graphs, len(sources)) * base.trials.episodes
    return _learn(
        "finetune",
        sources,
        out=Path(out),
        settings=_with(base, updates=-(-episodes // at_once), imitate=imitate, seed=seed),
        from_policy=None if from_policy is None else Path(from_policy),
        dims=dims or {},
        logdir=logdir,
        overwrite=overwrite,
        device=device,
        header={"families": [], "clusters": [_spec(cluster)], "command": command},
        progress=progress,
        tell=tell,
    )


def _with(
    settings: CourseSettings, *, updates: int | None, imitate: int | None, seed: int
) -> CourseSettings:
    from dplace.policies.placeto.imitate import ImitationSettings

    for option, number in (("--updates", updates), ("--imitate", imitate), ("--seed", seed)):
        if number is not None and number < 0:
            raise UsageError(f"{option} {number}: expected at least 0")
    if seed > MAX_SEED:
        raise UsageError(f"--seed {seed}: expected at most {MAX_SEED}")
    trials, imitation = settings.trials, settings.imitation
    if updates is not None:
        trials = replace(trials, updates=updates)
    if imitate is not None:
        imitation = replace(imitation or ImitationSettings(), updates=imitate) if imitate else None
    if not trials.updates and (imitation is None or not imitation.updates):
        raise UsageError("no updates: there is nothing to learn; give --updates or --imitate")
    return replace(settings, trials=trials, imitation=imitation, seed=seed)


def _learn(
    verb: Literal["pretrain", "finetune"],
    sources: Iterable[Source],
    *,
    out: Path,
    settings: CourseSettings,
    from_policy: Path | None,
    dims: Mapping[str, int],
    logdir: Path | str | None,
    overwrite: bool,
    device: str,
    header: Mapping[str, Any],
    progress: Progress | None,
    tell: Callable[[str], None] | None,
) -> LearnAnswer:
    from dplace.policies.placeto.course import Course
    from dplace.policies.placeto.files import check_out, files_of, read_state
    from dplace.policies.placeto.journal import check_tensorboard
    from dplace.policies.placeto.ranks import ranks_of_torchrun
    from dplace.policies.placeto.training import recipe_of, starting_points, to_start_from, train
    from dplace.report.learning import LearnAnswer, results_of

    files = files_of(out)
    if from_policy is not None and from_policy.absolute() in (out.absolute(), files.policy):
        raise UsageError(f"--from {from_policy}: is -o as well; give another -o")
    if logdir is not None:
        check_tensorboard()
    with ranks_of_torchrun(device) as (ranks, own_device):
        if ranks.is_first:
            check_out(out, overwrite=overwrite)
        else:
            progress = tell = None
        starts = starting_points(from_policy)

        def reading(done: int, name: str) -> None:
            _log.info("reading %s", name)
            if progress is not None:
                progress(done, 0, f"reading {Path(name).name}")

        names, worlds, warnings = read_worlds(sources, dims, reading)
        network = to_start_from(starts, worlds[0], seed=settings.seed, device=own_device)
        is_from = from_policy is not None
        recipe = recipe_of(verb, network, worlds, settings, is_from=is_from, processes=ranks.size)
        course = Course(network, worlds, settings, ranks=ranks)
        if not overwrite and (kept := read_state(files, recipe, ranks=ranks)) is not None:
            course.restore(kept)
            if tell is not None:
                tell(f"{out}: going on after step {course.steps_done} of {course.num_steps}")

        def shown(step: Step, done: int, steps: int) -> None:
            if progress is not None:
                progress(done, steps, doing(step, course))

        scores = train(
            course,
            files,
            recipe=recipe,
            header={**header, "from": recipe["from"], "settings": recipe["settings"]},
            results=lambda found: results_of(_models(names, course, found)),
            names=names,
            logdir=None if logdir is None else Path(logdir),
            progress=shown,
        )
        return LearnAnswer(
            out=out,
            steps_done=course.steps_done,
            steps=course.num_steps,
            models=_models(names, course, scores),
            warnings=warnings,
            is_interrupted=scores is None,
            rank=ranks.rank,
        )


def doing(step: Step, course: Course) -> str:
    """Return what a step was for, the best so far, and how far that is above the bound."""
    from dplace.report.plain import time_text

    names = {"search": "searching targets", "imitation": "imitating", "trials": "trying"}
    if len(course.worlds) == 1:
        best = f"best {time_text(step.best_s[0])}"
    else:
        ratios = [
            alone / best
            for alone, best in zip(course.single_s, step.best_s, strict=True)
            if math.isfinite(alone) and 0 < best < math.inf
        ]
        mean = math.fsum(ratios) / len(ratios) if ratios else 1.0
        best = f"best {mean:.2f}x one device"
    return f"{names[step.stage]}, {best}, {step.gap:.1%} above the bound"


def _models(
    names: Sequence[str], course: Course, scores: Sequence[Score] | None
) -> tuple[LearnedModel, ...]:
    from dplace.report.learning import LearnedModel

    rows = []
    for index, world in enumerate(course.worlds):
        policy_s = math.inf
        if scores is not None and not scores[index].overflow_bytes:
            policy_s = scores[index].makespan_s
        rows.append(
            LearnedModel(
                model=names[index],
                cluster=world.problem.cluster.spec,
                num_ops=world.problem.num_ops,
                num_groups=world.num_groups,
                bound_s=course.bound_s[index],
                single_s=course.single_s[index],
                best_s=min(course.best_s[index], policy_s),
                policy_s=policy_s,
            )
        )
    return tuple(rows)


def shipped_policies() -> ShippedPolicies:
    """Return the policies that come with dplace, by what their headers tell.

    Raises:
        InputError: One of them is damaged.
    """
    from dplace.policies.learned import shipped
    from dplace.policies.placeto.weights import read_weights
    from dplace.report.learning import ShippedPolicies, ShippedPolicy

    with shipped() as paths:
        return ShippedPolicies(
            tuple(
                ShippedPolicy(
                    name=path.stem,
                    families=tuple(map(str, told.get("families", ()))),
                    clusters=tuple(map(str, told.get("clusters", ()))),
                    command=str(told.get("command", "")),
                    results=dict(told.get("results", {})),
                    size_bytes=path.stat().st_size,
                )
                for path in paths
                for told in [read_weights(path).training]
            )
        )


def _spec(cluster: str | Cluster) -> str:
    return cluster if isinstance(cluster, str) else cluster.spec
