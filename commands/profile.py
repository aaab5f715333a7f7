"""``dplace profile``: measure what ops and hand-overs cost on this machine."""

from pathlib import Path
from typing import Annotated

import typer

from dplace.commands.options import (
    Dim,
    Inputs,
    Json,
    Optimize,
    OptLevel,
    Seed,
    check_model,
    parse_dims,
)
from dplace.commands.terminal import say, warn, write_json, write_table
from dplace.errors import UsageError

__all__ = ["profile"]

Models = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="MODEL...",
        show_default=False,
        help="ONNX models to measure; - reads one from standard input.",
    ),
]
DeviceKind = Annotated[
    str, typer.Option("--device", metavar="KIND", help="The kind of device to measure on.")
]
OutFile = Annotated[
    Path | None,
    typer.Option(
        "--out",
        "-o",
        metavar="FILE",
        show_default=False,
        help="File to write; without it, the measurements are stored in the user's data folder, "
        "where place finds them.",
    ),
]
Limit = Annotated[
    float,
    typer.Option(
        "--limit", metavar="SECONDS", min=0.0, help="How long to measure a model at most."
    ),
]
Links = Annotated[
    bool,
    typer.Option(
        "--links",
        help="Measure what parts cost beside their ops, and handing values from device to device.",
    ),
]
Listen = Annotated[
    str | None,
    typer.Option(
        "--listen",
        metavar="ADDRESS:PORT",
        show_default=False,
        help="With --links: wait here for another machine that measures the network.",
    ),
]
Connect = Annotated[
    str | None,
    typer.Option(
        "--connect",
        metavar="ADDRESS:PORT",
        show_default=False,
        help="With --links: measure the network to the machine that listens there.",
    ),
]


OF_MODELS = ("dim", "optimize", "opt_level", "inputs", "seed", "limit")
"""Parameters that say how a model is measured."""


def profile(
    context: typer.Context,
    models: Models = None,
    device: DeviceKind = "CPU",
    dim: Dim = None,
    optimize: Optimize = "auto",
    opt_level: OptLevel = "all",
    inputs: Inputs = None,
    seed: Seed = 0,
    limit: Limit = 20.0,
    links: Links = False,
    listen: Listen = None,
    connect: Connect = None,
    out: OutFile = None,
    json: Json = False,
) -> None:
    """Measure what the ops of models take on this machine, for place to go by.

    Example: dplace profile model.onnx --dim batch=8

    Equal ops are measured once. What is stored is used by place and compare for every op of the
    same type, attributes and sizes, on the same kind of device; docs/profile-format.md says how.

    Example: dplace profile --links
    """
    sources, dims = [check_model(model) for model in models or ()], parse_dims(dim)
    if links and sources:
        raise UsageError("--links and MODEL: give one of them")
    if links:
        for name in OF_MODELS:
            source = context.get_parameter_source(name)
            if source is not None and source.name != "DEFAULT":
                option = "--" + name.replace("_", "-")
                raise UsageError(f"--links and {option}: {option} says how a MODEL is measured")
    elif listen is not None or connect is not None:
        raise UsageError("--listen and --connect go with --links")
    elif not sources:
        raise UsageError("expected a MODEL to measure, or --links")
    import dplace.api

    if links:
        report = dplace.api.profile_links(
            device=device, out=out, listen=listen, connect=connect, progress=say
        )
    else:
        report = dplace.api.profile(
            sources,
            device=device,
            out=out,
            dims=dims,
            optimize=optimize,
            opt_level=opt_level,
            inputs=inputs,
            seed=seed,
            limit_s=limit,
        )
    warn(report.warnings)
    if json:
        write_json(report.as_json())
    elif report.models or report.links:
        from dplace.report.profile_table import profile_table

        write_table(profile_table(report))
