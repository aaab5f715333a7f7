"""``dplace place``: from a model and a cluster to a plan."""

from typing import TYPE_CHECKING

import typer

from dplace.commands.options import (
    Cluster,
    CommOrder,
    Dim,
    Evaluations,
    Format,
    Json,
    Machine,
    Model,
    Objective,
    Optimize,
    OptLevel,
    Out,
    Pin,
    Policy,
    Profile,
    Seed,
    WeightHome,
    Weights,
    check_model,
    parse_dims,
    parse_pins,
)
from dplace.commands.terminal import (
    INTERRUPTED,
    progress_bar,
    warn,
    write_json,
    write_table,
)

if TYPE_CHECKING:
    from dplace.lowering import Progress

__all__ = ["place"]


def place(
    model: Model,
    cluster: Cluster,
    out: Out = None,
    policy: Policy = "auto",
    objective: Objective = "latency",
    evaluations: Evaluations = None,
    seed: Seed = 0,
    comm_order: CommOrder = "best",
    dim: Dim = None,
    pin: Pin = None,
    optimize: Optimize = "auto",
    opt_level: OptLevel = "all",
    profile: Profile = None,
    format: Format = None,
    machine: Machine = None,
    weights: Weights = "auto",
    weight_home: WeightHome = "host",
    json: Json = False,
) -> None:
    """Decide which device runs each op of a model, and write the plan.

    Example: dplace place model.onnx --cluster 2xCPU -o plan

    A graph with given costs (docs/cost-graph-format.md) gets a placement and a timeline instead.

    Example: dplace place graph.json --cluster file -o answer

    A model larger than the devices' memory runs too: weights that do not fit come from the host.

    Example: dplace place large.onnx --cluster 2xCPU-1GB -o plan

    Ctrl-C ends the search, not the command: the best so far is written, and the exit code is 130.
    """
    source, dims, pins = check_model(model), parse_dims(dim), parse_pins(pin)
    import dplace.api

    with progress_bar() as show:
        answer = dplace.api.place(
            source,
            cluster=cluster,
            out=out,
            policy=policy,
            objective=objective,
            evaluations=evaluations,
            seed=seed,
            comm_order=comm_order,
            dims=dims,
            pins=pins,
            optimize=optimize,
            opt_level=opt_level,
            format=format,
            machine=machine,
            profiles=profile or (),
            weights=weights,
            weight_home=weight_home,
            progress=None if show is None else lambda now: show(*shown(now)),
        )
    warn(answer.warnings)
    if json:
        write_json(answer.as_json())
    else:
        from dplace.report.answer_table import answer_table

        write_table(answer_table(answer))
    if answer.is_interrupted:
        raise typer.Exit(INTERRUPTED)


def shown(progress: "Progress") -> tuple[int, int, str]:
    """Return how far a search is, of how much, and the best so far."""
    from dplace.report.plain import time_text

    best = time_text(progress.best_s)
    return progress.evaluations, progress.expected, f"searching, best of this walk {best}"
