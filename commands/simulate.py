"""``dplace simulate``: what a plan folder, or a placement of a cost graph, is predicted to take."""

from pathlib import Path
from typing import Annotated

import typer

from dplace.commands.options import Format, Json, Machine, Objective
from dplace.commands.terminal import warn, write_json, write_table

__all__ = ["simulate"]

Plan = Annotated[
    Path,
    typer.Argument(
        metavar="PLAN",
        show_default=False,
        help="A folder that dplace place wrote, or a graph with given costs.",
    ),
]
Cluster = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        metavar="CLUSTER",
        show_default=False,
        help="The devices for a graph with given costs; file for those that it describes.",
    ),
]
Placement = Annotated[
    Path | None,
    typer.Option(
        "--placement",
        metavar="FILE",
        show_default=False,
        help="The placement.json of such a graph, {op id: device index}, or its folder.",
    ),
]


def simulate(
    plan: Plan,
    placement: Placement = None,
    cluster: Cluster = None,
    objective: Objective = "latency",
    format: Format = None,
    machine: Machine = None,
    json: Json = False,
) -> None:
    """Predict how long a plan takes, or a placement of a graph with given costs, without running.

    Example: dplace simulate plan

    Example: dplace simulate graph.json --placement answer --cluster file
    """
    import dplace.api

    answer = dplace.api.simulate(
        plan,
        placement=placement,
        cluster=cluster,
        objective=objective,
        format=format,
        machine=machine,
    )
    warn(answer.warnings)
    if json:
        write_json(answer.as_json())
    else:
        from dplace.report.answer_table import answer_table

        write_table(answer_table(answer))
