"""``dplace place``: from a model and a cluster to a plan."""

from dplace.commands.options import (
    Cluster,
    Dim,
    Evaluations,
    Json,
    Model,
    Objective,
    Optimize,
    OptLevel,
    Out,
    Pin,
    Policy,
    Seed,
    check_model,
    parse_dims,
    parse_pins,
)
from dplace.commands.terminal import warn, write_json, write_table

__all__ = ["place"]


def place(
    model: Model,
    cluster: Cluster,
    out: Out = None,
    policy: Policy = "auto",
    objective: Objective = "latency",
    evaluations: Evaluations = None,
    seed: Seed = 0,
    dim: Dim = None,
    pin: Pin = None,
    optimize: Optimize = "auto",
    opt_level: OptLevel = "all",
    json: Json = False,
) -> None:
    """Decide which device runs each op of a model, and write the plan.

    Example: dplace place model.onnx --cluster 2xCPU -o plan
    """
    source, dims, pins = check_model(model), parse_dims(dim), parse_pins(pin)
    import dplace.api

    answer = dplace.api.place(
        source,
        cluster=cluster,
        out=out,
        policy=policy,
        objective=objective,
        evaluations=evaluations,
        seed=seed,
        dims=dims,
        pins=pins,
        optimize=optimize,
        opt_level=opt_level,
    )
    warn(answer.warnings)
    if json:
        write_json(answer.as_json())
    else:
        from dplace.report.table import place_table

        write_table(place_table(answer))
