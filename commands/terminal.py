"""What goes to the terminal: results on standard output, all else on standard error."""

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from rich.console import RenderableType

    from dplace.lowering import Progress

__all__ = ["INTERRUPTED", "say", "search_progress", "warn", "write", "write_json", "write_table"]

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
def search_progress() -> Iterator["Callable[[Progress], None] | None"]:
    """Yield what shows how a search gets on, or None where nobody looks at standard error.

    One line that is written over: the share of the budget, the best time and the time left.
    """
    if sys.stderr is None or not sys.stderr.isatty():
        yield None
        return
    begun_s = time.monotonic()
    shown_s = begun_s
    first = 0

    def show(progress: "Progress") -> None:
        nonlocal shown_s, first
        from dplace.report.plain import time_text

        now_s = time.monotonic()
        first = first or progress.evaluations
        if now_s - shown_s < 0.1:
            return
        shown_s = now_s
        done = progress.evaluations - first
        left = max(0, progress.expected - progress.evaluations)
        left_s = (now_s - begun_s) * left / max(1, done)
        share = progress.evaluations / max(1, progress.expected)
        best = time_text(progress.best_s)
        line = f"searching {min(share, 1.0):.0%}, best of this walk {best}, {left_s:.0f} s left"
        sys.stderr.write(f"\r\033[K{line}")
        sys.stderr.flush()

    try:
        yield show
    finally:
        sys.stderr.write("\r\033[K")
        sys.stderr.flush()
