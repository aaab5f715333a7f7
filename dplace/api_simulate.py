"""Predictions of what is placed already, from a plan or from a placement: part of the roof."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, overload

from dplace.api_graph import is_graph, simulate_graph
from dplace.errors import UsageError

if TYPE_CHECKING:
    from dplace.cluster import Cluster
    from dplace.report.answer import SimulateAnswer
    from dplace.report.graph_answer import GraphAnswer

__all__ = ["simulate"]


@overload
def simulate(
    plan: Path | str,
    *,
    placement: None = None,
    cluster: str | Cluster | None = None,
    objective: str = "latency",
    format: str | None = None,
    machine: str | None = None,
) -> SimulateAnswer: ...


@overload
def simulate(
    plan: Path | str,
    *,
    placement: Path | str | None,
    cluster: str | Cluster | None = None,
    objective: str = "latency",
    format: str | None = None,
    machine: str | None = None,
) -> SimulateAnswer | GraphAnswer: ...


def simulate(
    plan: Path | str,
    *,
    placement: Path | str | None = None,
    cluster: str | Cluster | None = None,
    objective: str = "latency",
    format: str | None = None,
    machine: str | None = None,
) -> SimulateAnswer | GraphAnswer:
    """Predict anew how long a plan takes, from its folder alone, or a placement of a cost graph.

    Args:
        plan: A plan folder; a cost graph, with the options below.
        placement: The device index of each op, as ``place`` writes it: a file or its folder.
        cluster: As for ``place``.
        objective: What the figure is of.
        format: The format of a cost graph; None tells it by the content.
        machine: The rules to judge by; None takes those of the format.

    Raises:
        PlanError: The folder is no plan, or is broken.
        InputError: The graph or the placement cannot be used.
        MemoryLimitError: The placement does not fit.
        UsageError: Options that do not go together.
    """
    options = {"--placement": placement, "--cluster": cluster, "--machine": machine}
    if placement is not None or is_graph(plan, format):
        return simulate_graph(
            plan,
            placement=placement,
            cluster=cluster,
            objective=objective,
            format=format,
            machine=machine,
        )
    for option, given in options.items():
        if given is not None:
            raise UsageError(
                f"{option} is for cost graphs; a plan says itself where it runs, and is judged as "
                "it will run"
            )
    from dplace.plan.folder import PLACEMENT_FILE, PLAN_FILE
    from dplace.plan.read import read_plan
    from dplace.plan.replay import replay_plan
    from dplace.report.answer import SimulateAnswer

    folder = Path(plan)
    is_plan = (folder / PLAN_FILE).exists() or (folder / "parts").exists()
    if (folder / PLACEMENT_FILE).is_file() and not is_plan:
        raise UsageError(
            f"{folder}: holds a placement and no plan; give its graph as well: dplace simulate "
            f"GRAPH --placement {folder} --cluster CLUSTER"
        )
    record = read_plan(folder, verify=False)
    times = replay_plan(record)
    sends = [step for device in record.devices for step in device.program if step.action == "send"]
    return SimulateAnswer(
        folder=folder,
        plan=record,
        makespan_s=times.makespan_s,
        bottleneck_s=times.bottleneck_s,
        devices=times.devices,
        transfers=len(sends),
        transfer_bytes=sum(step.size_bytes for step in sends),
    )
