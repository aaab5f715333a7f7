"""``dplace run``: a plan on the devices it was made for."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from dplace.commands.options import Dim, Inputs, Json, PlanFolder, Seed, check_model, parse_dims
from dplace.commands.terminal import warn, write_json, write_table
from dplace.errors import DplaceError

__all__ = ["run"]

Repeat = Annotated[int, typer.Option("--repeat", metavar="N", min=1, help="Runs that are timed.")]
Warmup = Annotated[
    int, typer.Option("--warmup", metavar="N", min=0, help="Runs before that are not timed.")
]
Check = Annotated[
    str | None,
    typer.Option(
        "--check",
        metavar="MODEL",
        show_default=False,
        help="Run this model whole, in one session, and compare the outputs; the exit code is 1 "
        "if they differ by more than is allowed.",
    ),
]
Atol = Annotated[
    float | None,
    typer.Option(
        "--atol",
        min=0.0,
        show_default=False,
        help="How far a number may be off. Without --atol and --rtol: not at all if the plan is "
        "exact, else by the numbers' type and size.",
    ),
]
Rtol = Annotated[
    float | None,
    typer.Option(
        "--rtol",
        min=0.0,
        show_default=False,
        help="How far a number may be off besides, as a fraction of it.",
    ),
]
SaveOutputs = Annotated[
    Path | None,
    typer.Option(
        "--save-outputs",
        metavar="FILE",
        show_default=False,
        help="An .npz file to write the outputs to.",
    ),
]
Trace = Annotated[
    Path | None,
    typer.Option(
        "--trace",
        metavar="FILE",
        show_default=False,
        help="Draw the run that took the median time, beside what was predicted, in this file: a "
        "Chrome trace, which ui.perfetto.dev opens.",
    ),
]
AllowCpu = Annotated[
    bool,
    typer.Option("--allow-cpu", help="Let the CPU stand in for devices that are not here."),
]


def run(
    plan: PlanFolder,
    inputs: Inputs = None,
    dim: Dim = None,
    repeat: Repeat = 10,
    warmup: Warmup = 2,
    check: Check = None,
    atol: Atol = None,
    rtol: Rtol = None,
    save_outputs: SaveOutputs = None,
    trace: Trace = None,
    seed: Seed = 0,
    allow_cpu: AllowCpu = False,
    json: Json = False,
) -> None:
    """Run a plan, time it, and compare it with the whole model.

    Example: dplace run plan --check model.onnx
    """
    dims = parse_dims(dim)
    whole = sys.stdin.buffer.read() if check and check_model(check) == "-" else check
    import dplace.api

    report = dplace.api.run(
        plan,
        inputs=inputs,
        dims=dims,
        repeat=repeat,
        warmup=warmup,
        check=Path(whole) if isinstance(whole, str) else whole,
        atol=atol,
        rtol=rtol,
        save_outputs=save_outputs,
        trace=trace,
        seed=seed,
        allow_cpu=allow_cpu,
    )
    warn(report.warnings)
    if json:
        write_json(report.as_json())
    else:
        from dplace.report.run_table import run_table

        write_table(run_table(report))
    if report.failure is not None:
        raise DplaceError(report.failure)
