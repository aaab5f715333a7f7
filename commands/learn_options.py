"""What ``pretrain`` and ``finetune`` have in common: options, how they show and end."""

import os
import shlex
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from dplace.commands.terminal import (
    INTERRUPTED,
    progress_bar,
    say,
    warn,
    write_json,
    write_table,
)

if TYPE_CHECKING:
    from dplace.report.learning import LearnAnswer

__all__ = [
    "Device",
    "Imitate",
    "Logdir",
    "Overwrite",
    "PolicyOut",
    "as_typed",
    "first_progress_bar",
    "show",
]

PolicyOut = Annotated[
    Path,
    typer.Option(
        "--out",
        "-o",
        metavar="POLICY",
        show_default=False,
        help="Where the policy goes: a folder, or a file NAME.safetensors.",
    ),
]
Imitate = Annotated[
    int | None,
    typer.Option(
        "--imitate",
        metavar="N",
        min=0,
        show_default=False,
        help="Updates of a first stage, which imitates the placements that search finds.",
    ),
]
Logdir = Annotated[
    Path | None,
    typer.Option(
        "--logdir", metavar="DIR", show_default=False, help="A folder for TensorBoard's files."
    ),
]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Train anew where there is a policy already.")
]
Device = Annotated[
    Literal["cpu", "cuda"], typer.Option("--device", help="Where the network computes.")
]


def as_typed() -> str:
    """Return the command, to be told by the policy that it makes."""
    return shlex.join(["dplace", *sys.argv[1:]])


def first_progress_bar() -> AbstractContextManager[Callable[[int, int, str], None] | None]:
    """Return a progress bar, in the first of the processes that torchrun started."""
    return nullcontext() if os.environ.get("RANK", "0") != "0" else progress_bar()


def show(answer: "LearnAnswer", *, json: bool) -> None:
    """Write how a training went, and leave if it was interrupted."""
    if answer.rank:
        raise typer.Exit(INTERRUPTED if answer.is_interrupted else 0)
    warn(answer.warnings)
    if json:
        write_json(answer.as_json())
    elif not answer.is_interrupted:
        from dplace.report.learning_table import learn_table

        write_table(learn_table(answer))
    if answer.is_interrupted:
        say(
            f"{answer.out}: kept after step {answer.steps_done} of {answer.steps}; the same "
            "command, without --overwrite, goes on from there"
        )
        raise typer.Exit(INTERRUPTED)
