"""The road of one model as functions: place, simulate, compare, profile, run, inspect and others.

This is the roof: with its wings api_model.py (from an ONNX model to a plan), api_weights.py (which
of its weights are streamed), api_graph.py (graphs with given costs), api_simulate.py,
api_compare.py, api_profile.py, api_run.py and api_learn.py with api_learn_models.py (policies that
are learned), the only modules beside the command line that know all rooms. Whatever takes long to
import is imported by the function that needs it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast, overload

from dplace.api_compare import compare
from dplace.api_graph import (
    checked_machine,
    checked_objective,
    graph_answer,
    graph_problem,
    is_graph,
)
from dplace.api_learn import finetune, pretrain, shipped_policies
from dplace.api_model import model_problem, plan_answer, prepare
from dplace.api_profile import profile, profile_links
from dplace.api_run import launch_lines, run, run_ranks
from dplace.api_simulate import simulate
from dplace.api_weights import place_with_weights
from dplace.errors import UsageError

if TYPE_CHECKING:
    import numpy as np
    import onnx
    from numpy.typing import NDArray

    from dplace.cluster import Cluster
    from dplace.examination import DoctorReport
    from dplace.graph_io.optimise import OptimizeMode
    from dplace.graph_io.session import OptLevel
    from dplace.lowering import Progress
    from dplace.policies.policy import Answer
    from dplace.problem import Problem
    from dplace.report.answer import PlaceAnswer
    from dplace.report.graph_answer import GraphAnswer
    from dplace.report.model_summary import ModelSummary

__all__ = [
    "compare",
    "doctor",
    "finetune",
    "generate",
    "inspect",
    "launch_lines",
    "place",
    "pretrain",
    "profile",
    "profile_links",
    "run",
    "run_ranks",
    "shipped_policies",
    "simulate",
]


@overload
def place(
    model: str | Path | onnx.ModelProto,
    *,
    cluster: str | Cluster,
    out: Path | str | None = None,
    policy: str = "auto",
    objective: str = "latency",
    evaluations: int | None = None,
    seed: int = 0,
    comm_order: str = "best",
    dims: Mapping[str, int] | None = None,
    pins: Sequence[str | tuple[str, str]] = (),
    optimize: Literal["auto", "native", "portable", "none"] = "auto",
    opt_level: OptLevel = "all",
    format: None = None,
    machine: None = None,
    profiles: Sequence[str | Path] = (),
    weights: str = "auto",
    weight_home: str = "host",
    placement: Callable[[Problem], NDArray[np.int32]] | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> PlaceAnswer: ...


@overload
def place(
    model: str | Path | onnx.ModelProto,
    *,
    cluster: str | Cluster,
    out: Path | str | None = None,
    policy: str = "auto",
    objective: str = "latency",
    evaluations: int | None = None,
    seed: int = 0,
    comm_order: str = "best",
    dims: Mapping[str, int] | None = None,
    pins: Sequence[str | tuple[str, str]] = (),
    optimize: Literal["auto", "native", "portable", "none"] = "auto",
    opt_level: OptLevel = "all",
    format: str | None = None,
    machine: str | None = None,
    profiles: Sequence[str | Path] = (),
    weights: str = "auto",
    weight_home: str = "host",
    placement: Callable[[Problem], NDArray[np.int32]] | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> PlaceAnswer | GraphAnswer: ...


def place(
    model: str | Path | onnx.ModelProto,
    *,
    cluster: str | Cluster,
    out: Path | str | None = None,
    policy: str = "auto",
    objective: str = "latency",
    evaluations: int | None = None,
    seed: int = 0,
    comm_order: str = "best",
    dims: Mapping[str, int] | None = None,
    pins: Sequence[str | tuple[str, str]] = (),
    optimize: Literal["auto", "native", "portable", "none"] = "auto",
    opt_level: OptLevel = "all",
    format: str | None = None,
    machine: str | None = None,
    profiles: Sequence[str | Path] = (),
    weights: str = "auto",
    weight_home: str = "host",
    placement: Callable[[Problem], NDArray[np.int32]] | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> PlaceAnswer | GraphAnswer:
    """Decide which device runs each op of a model, and write the plan.

    A graph with given costs gets a placement and a timeline in place of a plan, and so does a
    model that is judged by the rules of another system: the answer is a GraphAnswer then. Give
    ``format`` or ``machine``, so that type checkers know.

    Args:
        model: A path, ``-`` for standard input, or a model in memory. A file of costs, such as
            JSON of ours or of dnn-partitioning, is told from an ONNX model by its content.
        cluster: Such as ``2xCPU`` or ``4xV100@nvlink``, or a YAML file; ``file`` for the devices
            that a cost graph describes.
        out: The plan folder; None writes nothing.
        objective: ``latency`` or ``throughput``.
        evaluations: How many placements to simulate; None takes a number that fits the model.
        comm_order: In which order transfers go: ``fifo``, ``random``, ``tic``, ``tac``,
            ``critical-path``, ``best`` for the best of them, or ``searched`` for that improved.
        dims: Sizes of dynamic dimensions to plan for; others are taken as 1.
        pins: ``PATTERN=DEVICE``, by names of the original model.
        optimize: Which graph is placed, see ``dplace.graph_io.optimise``; ``auto`` is ``native``
            where the cluster's device kind is on this machine, else ``portable``.
        opt_level: onnxruntime's level that the whole model is optimised at.
        format: The format of a cost graph; None tells it by the content.
        machine: The rules to judge by; None takes ``native`` for a model, and for a cost graph
            those of its format.
        profiles: Files of measured times (``dplace profile``) to look at before those in the
            user's data folder.
        weights: ``resident`` keeps all weights on the devices that read them; ``stream`` sends all
            that may be sent for each request, into room of a fixed size; ``auto`` streams what does
            not fit, and only then.
        weight_home: Where streamed weights lie: a device, or ``host``.
        placement: Decides instead of a policy: from a Problem to the device of each op.
        progress: Is told how a search gets on, several times a second.

    Raises:
        InputError: The model, the cluster, a dimension or a pin cannot be used.
        MemoryLimitError: No placement fits.
        PlanError: ``out`` cannot be written.
        UsageError: Options that do not go together.
    """
    from dplace.plan.folder import check_target

    goal, rules = checked_objective(objective), checked_machine(machine)
    folder = Path(out) if out is not None else None
    if folder is not None:
        check_target(folder)
    if is_graph(model, format):
        options = {
            "--dim": bool(dims),
            "--profile": bool(profiles),
            "--optimize": optimize != "auto",
            "--weights": weights == "stream",
            "--weight-home": weight_home != "host",
        }
        for option, is_given in options.items():
            if not is_given:
                continue
            raise UsageError(f"{option}: {model} is a cost graph, which has its costs already")
        return _place_graph(
            cast("str | Path", model),
            lambda problem: _decide(
                problem, policy, evaluations, seed, comm_order, placement, progress
            ),
            cluster=cluster,
            folder=folder,
            objective=goal,
            format=format,
            machine=rules,
            pins=pins,
        )
    with model_problem(
        model,
        cluster=cluster,
        dims=dims or {},
        pins=pins,
        optimize=optimize,
        opt_level=opt_level,
        objective=goal,
        machine=rules or "native",
        profiles=profiles,
    ) as made:
        made, answer = place_with_weights(
            made,
            lambda problem: _decide(
                problem, policy, evaluations, seed, comm_order, placement, progress
            ),
            lambda problem, chosen: _decide(
                problem, policy, None, seed, comm_order, lambda _: chosen, None
            ),
            weights=weights,
            home=weight_home,
            is_free=placement is None and policy == "auto",
        )
        if made.problem.machine != "native":
            return graph_answer(made.problem, answer, out=folder, warnings=made.warnings)
        return plan_answer(made, answer, folder)


def _place_graph(
    path: str | Path,
    decide: Callable[[Problem], Answer],
    *,
    cluster: str | Cluster,
    folder: Path | None,
    objective: str,
    format: str | None,
    machine: str | None,
    pins: Sequence[str | tuple[str, str]],
) -> GraphAnswer:
    from dplace.graph_io.cost_graphs import read_cost_graph

    source = read_cost_graph(path, format)
    problem = graph_problem(source, cluster, machine=machine, objective=objective, pins=pins)
    return graph_answer(problem, decide(problem), source=source, out=folder)


def _decide(
    problem: Problem,
    policy: str,
    evaluations: int | None,
    seed: int,
    comm_order: str,
    placement: Callable[[Problem], NDArray[np.int32]] | None,
    progress: Callable[[Progress], None] | None,
) -> Answer:
    from dplace.policies import policy as deciding

    if placement is not None:
        return deciding.answer_for(
            problem, placement(problem), policy="given", comm_order=comm_order, seed=seed
        )
    return deciding.place(
        problem,
        policy,
        seed=seed,
        evaluations=evaluations,
        comm_order=comm_order,
        progress=progress,
    )


def inspect(
    model: str | Path | onnx.ModelProto,
    *,
    dims: Mapping[str, int] | None = None,
    optimize: OptimizeMode = "none",
    opt_level: OptLevel = "all",
) -> ModelSummary:
    """Say what is in a model that matters when it is placed.

    Raises:
        InputError: The model or a dimension cannot be used.
    """
    from dplace.graph_io.read import read_model
    from dplace.graph_io.summary import summarise

    source = read_model(model)
    with tempfile.TemporaryDirectory(prefix="dplace-") as scratch:
        _, placeable, sizes, warnings = prepare(
            source, mode=optimize, opt_level=opt_level, dims=dims or {}, scratch=Path(scratch)
        )
        return summarise(
            placeable,
            source,
            label=source.name if not isinstance(model, str | Path) else str(model),
            optimize=optimize,
            dims=sizes,
            warnings=tuple(warnings),
        )


def generate(
    family: str,
    *,
    out: Path,
    count: int | None = None,
    seed: int,
    size: float = 1.0,
    split: Literal["train", "test", "all"] | None = None,
) -> Iterator[Path]:
    """Write models of a family and yield the path of each.

    Without ``count`` it is one model, or every model of the split.

    Raises:
        InputError: An unknown family or split, or a count or size that cannot be.
    """
    from dplace.graph_io.families import write_family

    return write_family(family, out, count=count, seed=seed, size=size, split=split)


def doctor() -> DoctorReport:
    """Look at what this machine can do for dplace."""
    from dplace.examination import examine

    return examine()
