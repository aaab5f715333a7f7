"""The command line as its users meet it: arguments in, exit code and both streams out."""

import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from dplace.commands.app import main

__all__ = ["Ended", "interrupted_on_a_terminal", "one_line", "run_here", "start"]


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


def interrupted_on_a_terminal(*arguments: str | Path, pattern: str) -> Ended:
    """Run ``dplace`` with standard error on a terminal, and press Ctrl-C once ``pattern`` shows.

    ``err`` is what showed, without colours and moves of the cursor.
    """
    here, there = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "dplace", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=there,
        text=True,
        start_new_session=True,
    )
    os.close(there)
    shown = ""

    def plain() -> str:
        return re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", shown)

    try:
        while not re.search(pattern, plain()):
            shown += os.read(here, 4096).decode()
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)
        while rest := _rest(here):
            shown += rest
    finally:
        process.kill()
        process.wait()
        os.close(here)
    return Ended(code=process.returncode, out=out, err=plain())


def _rest(terminal: int) -> str:
    try:
        return os.read(terminal, 4096).decode()
    except OSError:  # nobody has the other end any more
        return ""


def one_line(ended: Ended) -> str:
    """Return the one line on standard error; nothing else may have been written at all."""
    lines = ended.err.splitlines()
    assert len(lines) == 1, f"expected one line on standard error, got:\n{ended.err}"
    assert ended.out == ""
    return lines[0]
