"""``dplace run``: a plan on the devices it was made for."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dplace.commands.options import Dim, Inputs, Json, PlanFolder, Seed, check_model, parse_dims
from dplace.commands.rank_process import ends_at_once, leave
from dplace.commands.terminal import say, warn, write, write_json, write_table
from dplace.errors import DplaceError

if TYPE_CHECKING:
    from dplace.runtime.report import RunReport

__all__ = ["run"]

MAX_TIMEOUT_S = 1e6
"""Eleven days; torch counts milliseconds in 32 bits."""

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
Timeout = Annotated[
    float,
    typer.Option(
        "--timeout",
        metavar="SECONDS",
        min=1.0,
        max=MAX_TIMEOUT_S,
        help="With one process a device: how long a rank may be silent, or a link carry nothing, "
        "before it counts as lost.",
    ),
]
Hosts = Annotated[
    bool,
    typer.Option(
        "--hosts",
        help="Print what to start on each host of the plan, one process a device, and run nothing.",
    ),
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
    timeout: Timeout = 60.0,
    hosts: Hosts = False,
    json: Json = False,
) -> None:
    """Run a plan, time it, and compare it with the whole model.

    Started by torchrun with one process for each device, rank r is device r of the plan, on any
    number of hosts; rank 0 prints.

    Example: dplace run plan --check model.onnx
    """
    dims = parse_dims(dim)
    import dplace.api
    from dplace.runtime.ranks.launch import half_launched, launch_of

    if hosts:
        _print_launch_lines(plan)
        return
    launch = launch_of(os.environ)
    is_first = launch is None or launch.rank == 0
    reads = check is not None and check_model(check) == "-" and is_first
    whole = sys.stdin.buffer.read() if reads else check
    options = {
        "inputs": inputs,
        "dims": dims,
        "repeat": repeat,
        "warmup": warmup,
        "check": Path(whole) if isinstance(whole, str) else whole,
        "atol": atol,
        "rtol": rtol,
        "save_outputs": save_outputs,
        "trace": trace,
        "seed": seed,
        "allow_cpu": allow_cpu,
    }
    if launch is None:
        warn([line] if (line := half_launched(os.environ)) else [])
        _show(dplace.api.run(plan, **options), json=json)
        return
    with ends_at_once():
        report = dplace.api.run_ranks(plan, launch, timeout_s=timeout, leave=leave, **options)
        if report is not None:  # else rank 0 says what there is to say
            _show(report, json=json)


def _show(report: "RunReport", *, json: bool) -> None:
    """Print a report; raise if it is one of outputs that are too far off."""
    warn(report.warnings)
    if json:
        write_json(report.as_json())
    else:
        from dplace.report.run_table import run_table

        write_table(run_table(report))
    if report.failure is not None:
        raise DplaceError(report.failure)


def _print_launch_lines(plan: Path) -> None:
    import dplace.api
    from dplace.runtime.ranks.hosts import PLACEHOLDER

    arguments = [argument for argument in sys.argv[1:] if argument != "--hosts"]
    lines = dplace.api.launch_lines(plan, arguments)
    if len(lines) > 1:
        say(
            f"one line for each host, in the order of the plan's devices; {PLACEHOLDER} stands for "
            "an address of the first host that all others reach"
        )
    write("".join(f"{line}\n" for line in lines))
