"""The command line as its users meet it: arguments in, exit code and both streams out."""

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from dplace.commands.app import main

__all__ = ["Ended", "one_line", "run_here", "start"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str


def run_here(capfd: pytest.CaptureFixture[str], *arguments: str | Path) -> Ended:
    """Run ``dplace`` in this process; what native code writes to the streams counts as well."""
    capfd.readouterr()
    before = sys.argv
    sys.argv = ["dplace", *map(str, arguments)]
    try:
        main()
        code: object = 0
    except SystemExit as leave:
        code = leave.code or 0
    finally:
        sys.argv = before
    captured = capfd.readouterr()
    assert isinstance(code, int)
    return Ended(code=code, out=captured.out, err=captured.err)


def start(
    *arguments: str | Path,
    cwd: Path | None = None,
    given: bytes = b"",
    environment: dict[str, str] | None = None,
    before: Callable[[], None] | None = None,
) -> Ended:
    """Run ``dplace`` in a process of its own.

    Args:
        given: What it reads from standard input.
        environment: Variables to set beside those of this process.
        before: Called in the child before the program starts.
    """
    done = subprocess.run(
        [sys.executable, "-m", "dplace", *map(str, arguments)],
        cwd=cwd,
        input=given,
        env={**os.environ, **(environment or {})},
        capture_output=True,
        preexec_fn=before,
        check=False,
    )
    return Ended(code=done.returncode, out=done.stdout.decode(), err=done.stderr.decode())


def one_line(ended: Ended) -> str:
    """Return the one line on standard error; nothing else may have been written at all."""
    lines = ended.err.splitlines()
    assert len(lines) == 1, f"expected one line on standard error, got:\n{ended.err}"
    assert ended.out == ""
    return lines[0]
