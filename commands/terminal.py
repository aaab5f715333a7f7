"""What goes to the terminal: results on standard output, all else on standard error."""

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["INTERRUPTED", "progress_bar", "say", "warn", "write", "write_json", "write_table"]

INTERRUPTED = 130
"""What a shell reports for a tool that Ctrl-C ended: 128 + 2."""
BROKEN_PIPE = 141
"""What a shell reports for a tool that SIGPIPE ended: 128 + 13."""


def write(text: str) -> None:
    """Write a result to standard output, whole.

    Ends the command quietly when nobody reads it any more, as behind ``| head``.

    Raises:
        OSError: Standard output cannot take it, as on a full disk.
    """
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        # What is still buffered would fail again, and loudly, when the interpreter ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            raise typer.Exit(BROKEN_PIPE) from None
        error.filename = "standard output"
        raise


def write_json(value: Mapping[str, object]) -> None:
    """Write one JSON object to standard output, on one line."""
    from dplace.report.json_text import json_text

    write(json_text(value) + "\n")


def write_table(table: "RenderableType") -> None:
    """Write a table to standard output: as wide as the terminal, 80 columns into a pipe."""
    from rich.console import Console

    console = Console(highlight=False, emoji=False, markup=False)
    with console.capture() as capture:
        console.print(table)
    write("".join(f"{line.rstrip()}\n" for line in capture.get().splitlines()))


def say(text: str) -> None:
    """Write one line to standard error, after the program's name."""
    from dplace.report.plain import plain

    if sys.stderr is not None:
        sys.stderr.write(f"dplace: {plain(text)}\n")
        sys.stderr.flush()


def warn(warnings: Sequence[str]) -> None:
    """Write each warning to standard error."""
    for warning in warnings:
        say(f"warning: {warning}")


@contextmanager
def progress_bar() -> Iterator[Callable[[int, int, str], None] | None]:
    """Yield what shows progress on standard error, or None where nobody looks at it."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    # An update of a training may take longer than the half minute that is looked at by default.
    console = Console(stderr=True)
    with Progress(console=console, transient=True, speed_estimate_period=120) as shown:
        bar = shown.add_task("starting", total=None)

        def show(done: int, total: int, doing: str) -> None:
            shown.update(bar, completed=done, total=total or None, description=doing)

        yield show
