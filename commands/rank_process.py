"""How a process ends that a launcher has started as one of several: at once, and with its code."""

import atexit
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from dplace.commands.terminal import INTERRUPTED, say
from dplace.errors import DplaceError

if TYPE_CHECKING:
    from dplace.runtime.ranks.verdict import Verdict

__all__ = ["ends_at_once", "leave"]


def leave(verdict: "Verdict", is_unsaid: bool) -> None:
    """End the process, whatever its threads are in."""
    if is_unsaid:
        interrupted = verdict.exit_code == INTERRUPTED
        say("interrupted" if interrupted else f"error: {verdict.message}")
    _end(verdict.exit_code)


@contextmanager
def ends_at_once() -> Iterator[None]:
    """Let nothing outlive what is done in this context, but for what ends with the process.

    A thread that still waits for a lost rank cannot be ended, and would abort the process if it
    came out of native code while the interpreter goes away. Besides, torch takes a second for that.
    """
    code = 0
    try:
        yield
    except BaseException as error:
        code = _exit_code(error)
        raise
    finally:
        atexit.register(_end, code)


def _exit_code(error: BaseException) -> int:
    if isinstance(error, DplaceError):
        return error.exit_code
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED
    return error.code if isinstance(error, SystemExit) and isinstance(error.code, int) else 1


def _end(code: int) -> None:
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    os._exit(code)
