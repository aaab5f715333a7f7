"""The road of one model as functions: place, simulate, run, inspect, generate, doctor.

This is the roof: the only module beside the command line that knows all rooms. Whatever takes
long to import is imported by the function that needs it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from dplace.errors import InputError, UsageError

if TYPE_CHECKING:
    import numpy as np
    import onnx
    from numpy.typing import NDArray

    from dplace.cluster import Cluster
    from dplace.doctor import DoctorReport
    from dplace.graph_io.build import PlaceableModel
    from dplace.graph_io.model import Model
    from dplace.graph_io.optimise import OptimisedModel, OptimizeMode
    from dplace.graph_io.session import OptLevel
    from dplace.plan.program import PartValues
    from dplace.plan.records import Plan
    from dplace.policies.policy import Answer
    from dplace.problem import Problem
    from dplace.report.answer import PlaceAnswer, SimulateAnswer
    from dplace.report.model_summary import ModelSummary
    from dplace.runtime.report import RunReport

__all__ = ["doctor", "generate", "inspect", "place", "run", "simulate"]

_CPU = "CPUExecutionProvider"


def place(
    model: str | Path | onnx.ModelProto,
    *,
    cluster: str | Cluster,
    out: Path | str | None = None,
    policy: str = "auto",
    objective: str = "latency",
    evaluations: int | None = None,
    seed: int = 0,
    dims: Mapping[str, int] | None = None,
    pins: Sequence[str | tuple[str, str]] = (),
    optimize: Literal["auto", "native", "portable", "none"] = "auto",
    opt_level: OptLevel = "all",
    placement: Callable[[Problem], NDArray[np.int32]] | None = None,
) -> PlaceAnswer:
    """Decide which device runs each op of a model, and write the plan.

    Args:
        model: A path, ``-`` for standard input, or a model in memory.
        cluster: Such as ``2xCPU`` or ``4xV100@nvlink``, or a YAML file.
        out: The plan folder; None writes nothing.
        evaluations: How many placements to simulate; None takes a number that fits the model.
        dims: Sizes of dynamic dimensions to plan for; others are taken as 1.
        pins: ``PATTERN=DEVICE``, by names of the original model.
        optimize: Which graph is placed, see ``dplace.graph_io.optimise``; ``auto`` is ``native``
            where the cluster's device kind is on this machine, else ``portable``.
        opt_level: onnxruntime's level that the whole model is optimised at.
        placement: Decides instead of a policy: from a Problem to the device of each op.

    Raises:
        InputError: The model, the cluster, a dimension or a pin cannot be used.
        MemoryLimitError: No placement fits.
        PlanError: ``out`` cannot be written.
    """
    from dplace.graph_io.read import read_model
    from dplace.plan.folder import check_target
    from dplace.profiles import read_cluster

    if objective != "latency":
        raise UsageError(f"--objective {objective}: expected latency")
    folder = Path(out) if out is not None else None
    if folder is not None:
        check_target(folder)
    hardware = read_cluster(cluster) if isinstance(cluster, str) else cluster
    source = read_model(model)
    mode = _mode(optimize, hardware)
    with tempfile.TemporaryDirectory(prefix="dplace-") as scratch:
        optimised, placeable, sizes, warnings = _prepare(
            source,
            mode=mode,
            opt_level=opt_level,
            dims=dims or {},
            scratch=Path(scratch),
            provider=hardware.devices[0].provider if mode == "native" else _CPU,
        )
        problem = _problem(placeable, optimised, hardware, pins)
        answer = _decide(problem, policy, evaluations, seed, placement)
        return _plan(placeable, optimised, problem, answer, folder, dims=sizes, warnings=warnings)


def _mode(
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
    if providers == {_CPU}:
        return True
    from dplace.runtime.devices import working_providers

    return working_providers().get(providers.pop()) == "works"


def _prepare(
    source: Model,
    *,
    mode: OptimizeMode,
    opt_level: OptLevel,
    dims: Mapping[str, int],
    scratch: Path,
    provider: str = _CPU,
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


def _problem(
    placeable: PlaceableModel,
    optimised: OptimisedModel,
    cluster: Cluster,
    pins: Sequence[str | tuple[str, str]],
) -> Problem:
    import numpy as np

    from dplace.graph_io.pins import resolve_pins
    from dplace.problem import Problem
    from dplace.profiles import modelled_seconds

    seconds = modelled_seconds(placeable.graph, cluster)
    pairs = [_pin_pair(pin) if isinstance(pin, str) else pin for pin in pins]
    return Problem(
        graph=placeable.graph,
        cluster=cluster,
        seconds=seconds,
        measured=np.zeros(seconds.shape, dtype=bool),
        pins=resolve_pins(
            pairs, original=optimised.original.ir.graph, placeable=placeable, cluster=cluster
        ),
    )


def _pin_pair(pin: str) -> tuple[str, str]:
    pattern, separator, device = pin.rpartition("=")
    if not separator or not pattern or not device:
        raise InputError(f"--pin {pin}: expected PATTERN=DEVICE")
    return pattern, device


def _decide(
    problem: Problem,
    policy: str,
    evaluations: int | None,
    seed: int,
    placement: Callable[[Problem], NDArray[np.int32]] | None,
) -> Answer:
    from dplace.policies import policy as policies

    if placement is not None:
        return policies.answer_for(problem, placement(problem), policy="given")
    return policies.place(problem, policy, seed=seed, evaluations=evaluations)


def _plan(
    placeable: PlaceableModel,
    optimised: OptimisedModel,
    problem: Problem,
    answer: Answer,
    folder: Path | None,
    *,
    dims: dict[str, int],
    warnings: Sequence[str],
) -> PlaceAnswer:
    """Turn an answer into a plan; write it if ``folder`` is given."""
    from dplace.graph_io.planning import make_plan
    from dplace.report.answer import PlaceAnswer
    from dplace.runtime.fingerprint import runtime_fingerprint

    lowered = answer.lowered
    provider = problem.cluster.devices[0].provider
    plan, crossing = make_plan(
        placeable,
        optimised,
        problem,
        lowered,
        answer.timeline,
        policy=answer.policy,
        bound_s=answer.bound_s,
        best_single_device_s=answer.best_single_device_s,
        dims=dims,
        runtime=runtime_fingerprint(provider) if optimised.mode == "native" else {},
    )
    if folder is not None:
        plan = _write(plan, placeable, problem, answer, crossing, folder)
    return PlaceAnswer(
        plan=plan,
        out=folder,
        transfers=lowered.num_transfers,
        transfer_bytes=int(problem.graph.value_bytes[lowered.transfer_value].sum()),
        scores=answer.scores,
        evaluations=answer.evaluations,
        warnings=tuple(warnings),
    )


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

    from dplace.graph_io.export import write_parts
    from dplace.plan.folder import new_folder
    from dplace.plan.write import write_json_file, write_placement, write_plan_file
    from dplace.report.trace import chrome_trace

    with new_folder(folder) as work:
        parts = write_parts(placeable, answer.lowered, crossing, plan.parts, work)
        plan = dataclasses.replace(plan, parts=parts)
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


def simulate(plan: Path | str) -> SimulateAnswer:
    """Predict anew how long a plan takes, from its folder alone.

    Raises:
        PlanError: The folder is no plan, or is broken.
    """
    from dplace.plan.read import read_plan
    from dplace.plan.replay import replay_plan
    from dplace.report.answer import SimulateAnswer

    folder = Path(plan)
    record = read_plan(folder, verify=False)
    makespan_s, devices = replay_plan(record)
    sends = [step for device in record.devices for step in device.program if step.action == "send"]
    return SimulateAnswer(
        folder=folder,
        plan=record,
        makespan_s=makespan_s,
        devices=devices,
        transfers=len(sends),
        transfer_bytes=sum(step.size_bytes for step in sends),
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
        _, placeable, sizes, warnings = _prepare(
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


def run(plan: Path | str, **options: Any) -> RunReport:
    """Run a plan, time it, and compare it with the whole model; see ``dplace.runtime.report``."""
    from dplace.runtime.report import run_plan

    return run_plan(Path(plan), **options)


def generate(family: str, *, out: Path, count: int, seed: int, size: float = 1.0) -> Iterator[Path]:
    """Write ``count`` models of a family and yield the path of each.

    Raises:
        InputError: An unknown family, or a count or size that cannot be.
    """
    from dplace.graph_io.families import write_family

    return write_family(family, out, count=count, seed=seed, size=size)


def doctor() -> DoctorReport:
    """Look at what this machine can do for dplace."""
    from dplace.doctor import examine

    return examine()
