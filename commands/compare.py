"""``dplace compare``: policies side by side, on models and on cost graphs."""

from typing import Annotated, Literal

import typer

from dplace.commands.options import (
    Cluster,
    Dim,
    Evaluations,
    Format,
    Json,
    Machine,
    Objective,
    Optimize,
    OptLevel,
    Pin,
    Profile,
    check_model,
    parse_dims,
    parse_pins,
)
from dplace.commands.terminal import progress_bar, say, warn, write, write_json, write_table
from dplace.errors import UsageError

__all__ = ["compare"]

Models = Annotated[
    list[str],
    typer.Argument(
        metavar="MODEL...",
        show_default=False,
        help="ONNX models or graphs with given costs; - reads one from standard input.",
    ),
]
Policies = Annotated[
    str,
    typer.Option(
        "--policies",
        metavar="A,B,...",
        help="The policies, joined by commas; all for every one there is.",
    ),
]
Seeds = Annotated[
    int,
    typer.Option(
        "--seeds",
        metavar="K",
        min=1,
        help="Decide K times, with seeds 0 to K-1; the best and the mean are shown.",
    ),
]
CommOrder = Annotated[
    Literal["best", "fifo", "random", "tic", "tac", "critical-path", "searched", "all"],
    typer.Option(
        "--comm-order",
        help="In which order transfers go, as in dplace place; all has a row for each order, on "
        "one placement.",
    ),
]
Jobs = Annotated[
    int | None,
    typer.Option(
        "--jobs",
        metavar="N",
        min=1,
        show_default=False,
        help="How many models at once; without it, one for each core.",
    ),
]
Csv = Annotated[bool, typer.Option("--csv", help="Print CSV in place of the table.")]


def compare(
    models: Models,
    cluster: Cluster,
    policies: Policies = "single,heft,m-etf,auto",
    objective: Objective = "latency",
    machine: Machine = None,
    format: Format = None,
    evaluations: Evaluations = None,
    seeds: Seeds = 1,
    comm_order: CommOrder = "best",
    dim: Dim = None,
    pin: Pin = None,
    optimize: Optimize = "auto",
    opt_level: OptLevel = "all",
    profile: Profile = None,
    jobs: Jobs = None,
    json: Json = False,
    csv: Csv = False,
) -> None:
    """Compare policies on models, or on graphs with given costs: one row for each of them.

    Example: dplace compare a.onnx b.onnx --cluster 4xV100 --policies heft,auto

    Best and Mean are makespans, or bottlenecks of a stream, over the seeds; Gap is how far the
    best is above the lower bound, Speed how often it goes into the time of the best single device;
    Sent, Bytes and Peak are its transfers and the memory of its fullest device; Evals and s are
    what a decision took. A model that fails is named, and the command ends with 1.

    Example: dplace compare a.onnx --cluster 2xV100 --comm-order all

    Then Rate is how many results a second come at the best makespan, Straggling the longest time
    that a device waits for others at its end, as a share of the makespan.
    """
    sources, dims, pins = [check_model(model) for model in models], parse_dims(dim), parse_pins(pin)
    names = [name.strip() for name in policies.split(",") if name.strip()]
    if json and csv:
        raise UsageError("--json and --csv: give one of them")
    import dplace.api

    with progress_bar() as progress:
        comparison = dplace.api.compare(
            sources,
            cluster=cluster,
            policies=names,
            objective=objective,
            machine=machine,
            format=format,
            evaluations=evaluations,
            seeds=seeds,
            comm_order=comm_order,
            dims=dims,
            pins=pins,
            optimize=optimize,
            opt_level=opt_level,
            profiles=profile or (),
            jobs=jobs,
            progress=progress,
        )
    warn(comparison.warnings)
    for model in comparison.models:
        if model.error is not None:
            say(f"error: {model.model}: {model.error.removeprefix(f'{model.model}: ')}")
    if json:
        write_json(comparison.as_json())
    elif csv:
        write(comparison.as_csv())
    else:
        from dplace.report.comparison_table import comparison_table

        write_table(comparison_table(comparison))
    if comparison.exit_code:
        raise typer.Exit(comparison.exit_code)
