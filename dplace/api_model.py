"""From an ONNX model to a problem and, once that is decided, to a plan: part of the roof."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from dplace.errors import InputError, UsageError

if TYPE_CHECKING:
    import onnx

    from dplace.cluster import Cluster
    from dplace.graph_io.build import PlaceableModel
    from dplace.graph_io.model import Model
    from dplace.graph_io.optimise import OptimisedModel, OptimizeMode
    from dplace.graph_io.session import OptLevel
    from dplace.plan.program import PartValues
    from dplace.plan.records import Plan
    from dplace.policies.policy import Answer
    from dplace.problem import Machine, Objective, Problem
    from dplace.profiles.costs import Costs
    from dplace.report.answer import PlaceAnswer

__all__ = [
    "CPU",
    "ModelProblem",
    "model_problem",
    "optimise_mode",
    "pin_pair",
    "plan_answer",
    "prepare",
]

CPU = "CPUExecutionProvider"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ModelProblem:
    """A model on its way to a plan."""

    problem: Problem
    placeable: PlaceableModel
    optimised: OptimisedModel
    dims: dict[str, int]
    """Size that each dynamic dimension is planned for."""
    measured_share: float
    """Fraction of the time on one device that is measured, not modelled."""
    warnings: tuple[str, ...]
    """Sentences on what was assumed, one for each thing."""


def optimise_mode(
    optimize: Literal["auto", "native", "portable", "none"], cluster: Cluster
) -> OptimizeMode:
    """Return how to optimise: ``native`` if every device is of one kind that is here."""
    match optimize:
        case "portable" | "none":
            return optimize
        case "auto":
            return "native" if _is_here(cluster) else "portable"
        case "native":
            if _is_here(cluster):
                return optimize
            kinds = ", ".join(sorted({device.kind for device in cluster.devices}))
            raise UsageError(
                f"--optimize native: needs one device kind that is on this machine, got {kinds}; "
                "use --optimize portable"
            )
    raise UsageError(f"--optimize {optimize}: expected auto, native, portable or none")


def _is_here(cluster: Cluster) -> bool:
    providers = {device.provider for device in cluster.devices}
    if len(providers) != 1 or len({device.kind for device in cluster.devices}) != 1:
        return False
    if providers == {CPU}:
        return True
    from dplace.runtime.devices import working_providers

    return working_providers().get(providers.pop()) == "works"


def prepare(
    source: Model,
    *,
    mode: OptimizeMode,
    opt_level: OptLevel,
    dims: Mapping[str, int],
    scratch: Path,
    provider: str = CPU,
) -> tuple[OptimisedModel, PlaceableModel, dict[str, int], list[str]]:
    """Optimise a model, observe its values and build its op graph."""
    from dplace.graph_io.build import build_op_graph
    from dplace.graph_io.clones import is_random
    from dplace.graph_io.fusion import fused_groups
    from dplace.graph_io.observe import observe
    from dplace.graph_io.optimise import optimise
    from dplace.graph_io.skeleton import check_dims

    sizes, unbound = check_dims(source, dims)
    optimised = optimise(source, mode=mode, opt_level=opt_level, provider=provider, scratch=scratch)
    observed = observe(optimised.model, sizes)
    fused = fused_groups(optimised, scratch) if mode == "portable" else ()
    placeable = build_op_graph(optimised.model, observed, fused)
    warnings = list(optimised.notes)
    if unbound:
        warnings.append(
            f"dynamic dimensions taken as 1: {', '.join(unbound)}; give --dim NAME=N for others"
        )
    if placeable.unknown_types:
        warnings.append(
            f"no work rule for {', '.join(placeable.unknown_types)}: their cost is a default"
        )
    if observed.unsized:
        shown = ", ".join(observed.unsized[:3])
        warnings.append(f"size unknown of {len(observed.unsized)} values ({shown}): taken as small")
    random_ops = [node for node in optimised.model.ir.graph if is_random(node)]
    if random_ops:
        kinds = ", ".join(sorted({node.op_type for node in random_ops}))
        warnings.append(
            f"random ops without a seed ({kinds}) draw other numbers in parts than in the whole"
        )
    return optimised, placeable, sizes, warnings


@contextmanager
def model_problem(
    model: str | Path | onnx.ModelProto,
    *,
    cluster: str | Cluster,
    dims: Mapping[str, int],
    pins: Sequence[str | tuple[str, str]],
    optimize: Literal["auto", "native", "portable", "none"],
    opt_level: OptLevel,
    objective: Objective = "latency",
    machine: Machine = "native",
    profiles: Sequence[str | Path] = (),
) -> Iterator[ModelProblem]:
    """Yield the problem of placing a model; what lies on disk for it goes with the context.

    Args:
        profiles: Files of measured times to look at before those in the user's data folder.

    Raises:
        InputError: The model, the cluster, a dimension or a pin cannot be used.
        UsageError: The cluster is ``file``, or ``optimize`` asks for devices that are not here.
    """
    from dplace.graph_io.read import read_model
    from dplace.profiles import read_cluster
    from dplace.profiles.costs import known_costs

    if cluster == "file":
        raise UsageError("--cluster file: only a cost graph describes devices; name a cluster")
    hardware = read_cluster(cluster) if isinstance(cluster, str) else cluster
    source = read_model(model)
    mode = optimise_mode(optimize, hardware)
    with tempfile.TemporaryDirectory(prefix="dplace-") as scratch:
        optimised, placeable, sizes, warnings = prepare(
            source,
            mode=mode,
            opt_level=opt_level,
            dims=dims,
            scratch=Path(scratch),
            provider=hardware.devices[0].provider if mode == "native" else CPU,
        )
        files = [Path(file) for file in profiles]
        costs = known_costs(placeable, optimised, hardware, files=files, dims=sizes)
        yield ModelProblem(
            problem=_problem(placeable, optimised, costs, pins, objective, machine),
            placeable=placeable,
            optimised=optimised,
            dims=sizes,
            measured_share=costs.share,
            warnings=(*warnings, *costs.warnings),
        )


def _problem(
    placeable: PlaceableModel,
    optimised: OptimisedModel,
    costs: Costs,
    pins: Sequence[str | tuple[str, str]],
    objective: Objective,
    machine: Machine,
) -> Problem:
    from dplace.graph_io.pins import resolve_pins
    from dplace.problem import Problem

    cluster = costs.cluster
    pairs = [pin_pair(pin) if isinstance(pin, str) else pin for pin in pins]
    return Problem(
        graph=placeable.graph,
        cluster=cluster,
        seconds=costs.seconds,
        measured=costs.measured,
        pins=resolve_pins(
            pairs, original=optimised.original.ir.graph, placeable=placeable, cluster=cluster
        ),
        objective=objective,
        machine=machine,
    )


def pin_pair(pin: str) -> tuple[str, str]:
    """Return the pattern and the device of a pin.

    Raises:
        InputError: It is not of the form ``PATTERN=DEVICE``.
    """
    pattern, separator, device = pin.rpartition("=")
    if not separator or not pattern or not device:
        raise InputError(f"--pin {pin}: expected PATTERN=DEVICE")
    return pattern, device


def plan_answer(made: ModelProblem, answer: Answer, folder: Path | None) -> PlaceAnswer:
    """Turn what a policy decided into a plan; write it if ``folder`` is given.

    Raises:
        PlanError: ``folder`` cannot be written.
    """
    from dplace.graph_io.planning import make_plan
    from dplace.report.answer import PlaceAnswer
    from dplace.runtime.fingerprint import runtime_fingerprint

    problem, optimised = made.problem, made.optimised
    lowered = answer.lowered
    provider = problem.cluster.devices[0].provider
    plan, crossing = make_plan(
        made.placeable,
        optimised,
        problem,
        lowered,
        answer.timeline,
        policy=answer.policy,
        comm_order=answer.comm_order,
        bound_s=answer.bound_s,
        best_single_device_s=answer.best_single_device_s,
        dims=made.dims,
        runtime=runtime_fingerprint(provider) if optimised.mode == "native" else {},
    )
    if folder is not None:
        plan = _write(plan, made.placeable, problem, answer, crossing, folder)
    return PlaceAnswer(
        plan=plan,
        out=folder,
        transfers=lowered.num_transfers,
        transfer_bytes=int(problem.graph.value_bytes[lowered.transfer_value].sum()),
        scores=answer.scores,
        order_scores=answer.order_scores,
        evaluations=answer.evaluations,
        measured_share=made.measured_share,
        warnings=(*made.warnings, *interruption(answer)),
        is_interrupted=answer.is_interrupted,
    )


def interruption(answer: Answer) -> tuple[str, ...]:
    """Return a warning if the search was broken off."""
    if not answer.is_interrupted:
        return ()
    sentence = (
        f"the search was interrupted after {answer.evaluations} evaluations; this is the best that "
        "it had found"
    )
    return (sentence,)


def _write(
    plan: Plan,
    placeable: PlaceableModel,
    problem: Problem,
    answer: Answer,
    crossing: list[PartValues],
    folder: Path,
) -> Plan:
    """Write the plan folder and return the plan with the digests of its files."""
    import dataclasses

    from dplace.graph_io.export import write_parts, write_streamed
    from dplace.plan.folder import new_folder
    from dplace.plan.write import write_json_file, write_placement, write_plan_file
    from dplace.report.trace import chrome_trace

    with new_folder(folder) as work:
        parts = write_parts(placeable, answer.lowered, crossing, plan.parts, work)
        streamed = write_streamed(placeable, plan.streamed, work)
        plan = dataclasses.replace(plan, parts=parts, streamed=streamed)
        write_plan_file(plan, work)
        write_placement(problem, answer.placement, work)
        trace = chrome_trace(
            graph=problem.graph,
            cluster=problem.cluster,
            lowered=answer.lowered,
            timeline=answer.timeline,
            part_names=[part.name for part in parts],
        )
        write_json_file(trace, work / "timeline.json")
    return plan
