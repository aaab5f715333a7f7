"""``dplace inspect``: what is in a model that matters when it is placed."""

from typing import Annotated, Literal

import typer

from dplace.commands.options import Dim, Json, Model, OptLevel, check_model, parse_dims
from dplace.commands.terminal import warn, write_json, write_table

__all__ = ["inspect_model"]

OptimizeFirst = Annotated[
    Literal["none", "native", "portable"],
    typer.Option("--optimize", help="What to do to the model first, as place would."),
]
Top = Annotated[
    int,
    typer.Option("--top", metavar="N", min=1, help="How many op types and lines the table shows."),
]


def inspect_model(
    model: Model,
    dim: Dim = None,
    optimize: OptimizeFirst = "none",
    opt_level: OptLevel = "all",
    top: Top = 10,
    json: Json = False,
) -> None:
    """Show a model's ops, their work and what cannot be cut.

    Example: dplace inspect model.onnx --dim batch=8
    """
    source, dims = check_model(model), parse_dims(dim)
    import dplace.api

    summary = dplace.api.inspect(source, dims=dims, optimize=optimize, opt_level=opt_level)
    warn(summary.warnings)
    if json:
        write_json(summary.as_json())
    else:
        from dplace.report.model_table import model_table

        write_table(model_table(summary, top=top))
