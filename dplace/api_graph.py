"""Graphs with given costs, from a file to a placement and its timeline: part of the roof.

Nothing is split here. A model that is judged by another system's rules goes this way too once it
is a problem.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast, get_args

from dplace.api_model import interruption, pin_pair
from dplace.errors import UsageError

if TYPE_CHECKING:
    from dplace.cluster import Cluster
    from dplace.graph_io.cost_graphs import CostGraph
    from dplace.policies.policy import Answer
    from dplace.problem import Machine, Objective, Problem
    from dplace.report.graph_answer import GraphAnswer

__all__ = [
    "checked_machine",
    "checked_objective",
    "graph_answer",
    "graph_problem",
    "is_graph",
    "simulate_graph",
]

FILE_CLUSTER = "file"
"""What ``--cluster`` is where the devices are those that the file describes."""


def checked_machine(name: str | None) -> Machine | None:
    """Return the name of a machine model; None stays None.

    Raises:
        UsageError: There is no such model.
    """
    from dplace.problem import Machine

    if name is not None and name not in get_args(Machine):
        raise UsageError(f"--machine {name}: expected one of {', '.join(get_args(Machine))}")
    return cast("Machine | None", name)


def checked_objective(name: str) -> Objective:
    """Return the name of an objective.

    Raises:
        UsageError: There is no such objective.
    """
    from dplace.problem import Objective

    if name not in get_args(Objective):
        raise UsageError(f"--objective {name}: expected one of {', '.join(get_args(Objective))}")
    return cast("Objective", name)


def is_graph(model: object, format: str | None) -> bool:
    """Return whether what was given is a graph with given costs."""
    from dplace.graph_io.cost_graphs import is_cost_graph

    if not isinstance(model, str | Path):
        return False
    return format is not None or is_cost_graph(model)


def graph_problem(
    source: CostGraph,
    cluster: str | Cluster,
    *,
    machine: str | None,
    objective: str,
    pins: Sequence[str | tuple[str, str]] = (),
) -> Problem:
    """Return the problem of placing a cost graph on a cluster; ``file`` is the file's own.

    Raises:
        UsageError: The file has no cluster, or no times for this one.
        InputError: A pin matches nothing or contradicts another.
        ClusterError: The cluster cannot be used.
    """
    from dplace.graph_io.cost_graphs import cost_problem
    from dplace.profiles import read_cluster

    hardware: Cluster | None
    if isinstance(cluster, str):
        hardware = None if cluster.strip().lower() == FILE_CLUSTER else read_cluster(cluster)
    else:
        hardware = cluster
    return cost_problem(
        source,
        hardware,
        machine=checked_machine(machine),
        objective=checked_objective(objective),
        pins=[pin_pair(pin) if isinstance(pin, str) else pin for pin in pins],
    )


def graph_answer(
    problem: Problem,
    answer: Answer,
    *,
    source: CostGraph | None = None,
    out: Path | None = None,
    warnings: Sequence[str] = (),
) -> GraphAnswer:
    """Turn what a policy decided into an answer; write it if ``out`` is given.

    Args:
        problem: What was placed.
        answer: The decision.
        source: The cost graph that the problem is of; None if it is of a model.
        out: The folder for placement and timeline.
        warnings: What was assumed.

    Raises:
        PlanError: ``out`` cannot be written.
    """
    import numpy as np

    from dplace.plan.records import PlannedDevice
    from dplace.report.graph_answer import GraphAnswer

    graph, timeline, lowered = problem.graph, answer.timeline, answer.lowered
    counts = np.bincount(answer.placement, minlength=problem.num_devices)
    placement = dict(zip(graph.op_names, answer.placement.tolist(), strict=True))
    if out is not None:
        _write(problem, answer, placement, out)
    return GraphAnswer(
        graph=graph.name,
        format="onnx" if source is None else source.format,
        machine=problem.machine,
        objective=problem.objective,
        cluster=problem.cluster.spec,
        policy=answer.policy,
        unit="ms" if source is None else source.unit,
        unit_s=1e-3 if source is None else source.unit_s,
        makespan_s=answer.objective_s,
        bound_s=answer.bound_s,
        best_single_device_s=answer.best_single_device_s,
        placement=placement,
        devices=tuple(
            PlannedDevice(
                name=device.name,
                kind=device.kind,
                provider=device.provider,
                index=device.index,
                host=device.host,
                memory_bytes=device.memory_bytes,
                call_overhead_s=device.call_overhead_s,
                single_call_overhead_s=device.single_call_overhead_s,
                num_ops=int(counts[index]),
                weight_bytes=int(timeline.weight_bytes[index]),
                peak_bytes=int(timeline.peak_bytes[index]),
                busy_s=float(timeline.busy_s[index]),
                program=(),
            )
            for index, device in enumerate(problem.cluster.devices)
        ),
        transfers=lowered.num_transfers,
        transfer_bytes=int(graph.value_bytes[lowered.transfer_value].sum()),
        scores=answer.scores,
        comm_order=answer.comm_order,
        order_scores=answer.order_scores,
        evaluations=answer.evaluations,
        out=out,
        warnings=(
            *warnings,
            *(() if source is None else source.warnings),
            *interruption(answer),
        ),
        is_interrupted=answer.is_interrupted,
    )


def _write(problem: Problem, answer: Answer, placement: dict[str, int], out: Path) -> None:
    from dplace.plan.answer_folder import write_answer
    from dplace.report.trace import chrome_trace

    trace = chrome_trace(
        graph=problem.graph,
        cluster=problem.cluster,
        lowered=answer.lowered,
        timeline=answer.timeline,
    )
    write_answer(out, placement, trace)


def simulate_graph(
    graph: str | Path,
    *,
    placement: str | Path | None,
    cluster: str | Cluster | None,
    format: str | None,
    machine: str | None,
    objective: str,
) -> GraphAnswer:
    """Predict what a placement of a cost graph comes to.

    Raises:
        UsageError: No placement or no cluster is given.
        InputError: The graph or the placement cannot be used.
        MemoryLimitError: The placement does not fit.
    """
    from dplace.graph_io.cost_graphs import read_cost_graph
    from dplace.plan.answer_folder import read_placement
    from dplace.policies.policy import answer_for

    if placement is None or cluster is None:
        missing = "--placement FILE" if placement is None else "--cluster"
        raise UsageError(
            f"simulate {graph}: a cost graph needs {missing}; give --placement placement.json and "
            "--cluster, such as file or 4xV100"
        )
    source = read_cost_graph(graph, format)
    problem = graph_problem(source, cluster, machine=machine, objective=objective)
    devices = read_placement(Path(placement), source.graph)
    return graph_answer(problem, answer_for(problem, devices, policy="given"), source=source)
