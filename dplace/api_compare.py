"""Policies on models, side by side, each model in a process of its own: part of the roof."""

from __future__ import annotations

import dataclasses
import itertools
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from dplace.api_graph import checked_machine, checked_objective, graph_problem
from dplace.api_model import model_problem
from dplace.errors import DplaceError, UsageError
from dplace.parallel import Lost, run_each
from dplace.report.comparison import ComparedModel, Comparison, PolicyRow

if TYPE_CHECKING:
    from dplace.cluster import Cluster
    from dplace.graph_io.cost_graphs import CostGraph
    from dplace.graph_io.session import OptLevel
    from dplace.policies.policy import Answer
    from dplace.problem import Problem
    from dplace.simulator.timeline import Lowered, Timeline

__all__ = ["ALL_ORDERS", "ALL_POLICIES", "Progress", "compare"]

ALL_POLICIES = "all"
ALL_ORDERS = "all"

Step = Callable[[str], None]

Progress = Callable[[int, int, str], None]
"""Takes how many decisions are done, of how many, and what comes next."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One model and what to do with it; goes to another process."""

    model: str
    cluster: str | Cluster
    policies: tuple[str, ...]
    objective: str
    machine: str | None
    format: str | None
    evaluations: int | None
    seeds: int
    comm_order: str
    dims: Mapping[str, int]
    pins: tuple[str | tuple[str, str], ...]
    optimize: Literal["auto", "native", "portable", "none"]
    opt_level: OptLevel
    profiles: tuple[str | Path, ...]


def compare(
    models: Sequence[str | Path],
    *,
    cluster: str | Cluster,
    policies: Sequence[str] = ("single", "heft", "m-etf", "auto"),
    objective: str = "latency",
    machine: str | None = None,
    format: str | None = None,
    evaluations: int | None = None,
    seeds: int = 1,
    comm_order: str = "best",
    dims: Mapping[str, int] | None = None,
    pins: Sequence[str | tuple[str, str]] = (),
    optimize: Literal["auto", "native", "portable", "none"] = "auto",
    opt_level: OptLevel = "all",
    profiles: Sequence[str | Path] = (),
    jobs: int | None = None,
    progress: Progress | None = None,
) -> Comparison:
    """Return what policies come to on models and cost graphs.

    Several models are looked at in processes of their own, so a program that calls this for
    several has to be importable: keep the call under ``if __name__ == "__main__"``.

    Args:
        models: Paths; ``-`` for standard input, alone.
        cluster: As for ``place``.
        policies: Names; ``all`` for every one there is.
        objective: ``latency`` or ``throughput``.
        machine: The rules to judge by; None takes ``native`` for a model, and for a cost graph
            those of its format.
        format: The format of cost graphs; None tells it by the content.
        evaluations: How many placements a policy may simulate; None takes a number that fits.
        seeds: Each policy decides that often, with seeds 0, 1, and so on.
        comm_order: As for ``place``; ``all`` has a row for each order, on one placement.
        dims: As for ``place``, as are the next four.
        pins: ``PATTERN=DEVICE``.
        optimize: Which graph is placed.
        opt_level: onnxruntime's level that a whole model is optimised at.
        profiles: Files of measured times.
        jobs: How many models at once; None takes one for each core.
        progress: Called before each decision; see ``Progress``.

    Raises:
        UsageError: An option names what there is not. What is wrong with one model is in its
            rows.
    """
    checked_objective(objective)
    checked_machine(machine)
    if not models:
        raise UsageError("compare: expected at least one model, got none")
    _checked_order(comm_order)
    if seeds < 1:
        raise UsageError(f"--seeds {seeds}: expected at least 1")
    if len(models) > 1 and "-" in map(str, models):
        raise UsageError("- reads one model from standard input, which cannot stand beside others")
    tasks = [
        Task(
            model=str(model),
            cluster=cluster,
            policies=_checked_policies(policies),
            objective=objective,
            machine=machine,
            format=format,
            evaluations=evaluations,
            seeds=seeds,
            comm_order=comm_order,
            dims=dict(dims or {}),
            pins=tuple(pins),
            optimize=optimize,
            opt_level=opt_level,
            profiles=tuple(profiles),
        )
        for model in models
    ]
    total = len(tasks) * len(tasks[0].policies) * seeds
    begun = itertools.count()

    def step(doing: str) -> None:
        if progress is not None:
            progress(next(begun), total, doing)

    if len(tasks) == 1:
        compared = [compare_one(tasks[0], step)]
    else:
        processes = jobs or len(os.sched_getaffinity(0))
        results = run_each(compare_one, tasks, processes=processes, step=step)
        compared = [_lost(done) if isinstance(done, Lost) else done for done in results]
    return Comparison(
        objective=objective,
        seeds=seeds,
        models=tuple(compared),
        is_by_order=comm_order == ALL_ORDERS,
    )


def compare_one(task: Task, step: Step) -> ComparedModel:
    """Return what each policy comes to on one model; what is wrong with it is in the answer."""
    from dplace.comm_order import BEST, check_can_order

    try:
        with _problem(task) as (problem, source, warnings):
            if task.comm_order != BEST:
                check_can_order(problem, task.comm_order)
            answers: list[Answer] = []
            rows = tuple(
                row
                for policy in task.policies
                for row in _rows(task, problem, policy, step, answers)
            )
            return ComparedModel(
                model=task.model,
                format="onnx" if source is None else source.format,
                machine=problem.machine,
                cluster=problem.cluster.spec,
                num_ops=problem.num_ops,
                unit="ms" if source is None else source.unit,
                unit_s=1e-3 if source is None else source.unit_s,
                bound_s=answers[0].bound_s if answers else 0.0,
                best_single_device_s=min(
                    (answer.best_single_device_s for answer in answers), default=float("inf")
                ),
                rows=rows,
                warnings=warnings,
            )
    except DplaceError as error:
        return ComparedModel(model=task.model, error=str(error), exit_code=error.exit_code)
    except OSError as error:
        if error.strerror is None:
            raise
        where = task.model if error.filename is None else os.fsdecode(error.filename)
        return ComparedModel(model=task.model, error=f"{where}: {error.strerror}", exit_code=1)


@contextmanager
def _problem(task: Task) -> Iterator[tuple[Problem, CostGraph | None, tuple[str, ...]]]:
    """Yield a model's problem, with its cost graph if it is one, and the warnings."""
    from dplace.graph_io.cost_graphs import is_cost_graph, read_cost_graph

    if task.format is not None or is_cost_graph(task.model):
        source = read_cost_graph(task.model, task.format)
        problem = graph_problem(
            source,
            task.cluster,
            machine=task.machine,
            objective=task.objective,
            pins=task.pins,
        )
        yield problem, source, source.warnings
        return
    with model_problem(
        task.model,
        cluster=task.cluster,
        dims=task.dims,
        pins=task.pins,
        optimize=task.optimize,
        opt_level=task.opt_level,
        objective=checked_objective(task.objective),
        machine=checked_machine(task.machine) or "native",
        profiles=task.profiles,
    ) as made:
        yield made.problem, None, made.warnings


def _rows(
    task: Task, problem: Problem, policy: str, step: Step, answers: list[Answer]
) -> Iterator[PolicyRow]:
    """Yield what a policy comes to over the seeds; the best answer goes into ``answers``.

    With an order of communication it is one row, with all of them one for each.
    """
    from dplace.comm_order import BEST
    from dplace.policies.policy import place

    with suppress(DplaceError):
        # What is compiled or loaded at first use is no policy's time.
        place(problem, "single", evaluations=1)
    found: list[Answer] = []
    order = BEST if task.comm_order == ALL_ORDERS else task.comm_order
    begun = time.perf_counter()
    for seed in range(task.seeds):
        step(f"{Path(task.model).name} {policy}")
        try:
            found.append(
                place(problem, policy, seed=seed, evaluations=task.evaluations, comm_order=order)
            )
        except DplaceError as error:
            yield PolicyRow(policy=policy, error=str(error), exit_code=error.exit_code)
            return
        if found[-1].is_interrupted:
            raise KeyboardInterrupt  # half a search compares with nothing
    seconds = (time.perf_counter() - begun) / task.seeds
    best = min(found, key=lambda answer: answer.objective_s)
    answers.append(best)
    if task.comm_order == ALL_ORDERS:
        yield from _rows_by_order(problem, found)
        return
    runs = [(answer.lowered, answer.timeline) for answer in found]
    yield dataclasses.replace(
        _row(problem, policy, best.comm_order, runs),
        evaluations=sum(answer.evaluations for answer in found) / task.seeds,
        seconds=seconds,
    )


def _rows_by_order(problem: Problem, answers: Sequence[Answer]) -> Iterator[PolicyRow]:
    """Yield what each order of communication comes to on the placements of a policy."""
    from dplace.comm_order import BEST, COMM_ORDERS, schedule
    from dplace.lowering import Evaluator

    evaluator, policy = Evaluator(problem), answers[0].policy
    for name in COMM_ORDERS:
        if name == BEST:
            continue
        begun = time.perf_counter()
        try:
            found = [
                schedule(evaluator, answer.placement, name, seed=seed)
                for seed, answer in enumerate(answers)
            ]
        except DplaceError as error:
            yield PolicyRow(
                policy=policy, comm_order=name, error=str(error), exit_code=error.exit_code
            )
            continue
        runs = [(way.lowered, way.timeline) for way in found]
        yield dataclasses.replace(
            _row(problem, policy, name, runs),
            evaluations=sum(answer.evaluations for answer in answers) / len(answers),
            seconds=(time.perf_counter() - begun) / len(answers),
        )


def _row(
    problem: Problem, policy: str, comm_order: str, runs: Sequence[tuple[Lowered, Timeline]]
) -> PolicyRow:
    """Return what predicted runs, one a seed, come to; how they were found is still to be told."""
    from dplace.simulator.timeline import straggler_effect

    is_stream = problem.objective == "throughput"
    objectives_s = [
        float(timeline.bottleneck_s if is_stream else timeline.makespan_s) for _, timeline in runs
    ]
    lowered, timeline = runs[objectives_s.index(min(objectives_s))]
    effects = [straggler_effect(lowered, timeline) for lowered, timeline in runs]
    return PolicyRow(
        policy=policy,
        comm_order=comm_order,
        makespans_s=tuple(objectives_s),
        straggler_effect=sum(effects) / len(effects),
        transfers=lowered.num_transfers,
        transfer_bytes=int(problem.graph.value_bytes[lowered.transfer_value].sum()),
        peak_bytes=int(timeline.peak_bytes.max()),
    )


def _checked_order(name: str) -> None:
    """Make sure that there is an order of communication of that name.

    Raises:
        UsageError: There is not.
    """
    from dplace.comm_order import COMM_ORDERS

    if name not in (*COMM_ORDERS, ALL_ORDERS):
        known = ", ".join((*COMM_ORDERS, ALL_ORDERS))
        raise UsageError(f"--comm-order {name}: expected one of {known}")


def _checked_policies(policies: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the policies, each once.

    Raises:
        UsageError: There is no policy of a name, or no name.
    """
    from dplace.policies.policy import POLICIES, policy_named

    names = [
        name for word in policies for name in (sorted(POLICIES) if word == ALL_POLICIES else [word])
    ]
    for name in names:
        try:
            policy_named(name)
        except UsageError as error:
            raise UsageError(f"--policies: {error}") from None
    if not names:
        raise UsageError("--policies: expected at least one policy, got none")
    return tuple(dict.fromkeys(names))


def _lost(lost: Lost[Task]) -> ComparedModel:
    return ComparedModel(model=lost.piece.model, error=lost.reason, exit_code=1)
