"""The cases of the suite for the CPU, and what becomes of them; as a program, a share of them.

    python -m tests.onnx_backend.cases dplace 0 2 0

runs the first of two shares from its first case on, and prints a JSON line for each case before
it starts and after it ended, so that whoever reads knows which one a crash is due to.
"""

import atexit
import contextlib
import functools
import gc
import io
import json
import os
import shutil
import sys
import tempfile
import unittest
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import onnx.backend.test

from tests.onnx_backend.backends import BACKENDS

__all__ = ["PASSED", "case_names", "run_case", "run_cases"]

PASSED = "passed"


@functools.cache
def cases(backend: str) -> dict[str, Callable[..., Any]]:
    """Return the CPU cases by name, in order, each bound to a backend."""
    # Some cases are made by ops that numpy warns about; that is none of ours.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        suite = onnx.backend.test.BackendTest(BACKENDS[backend], __name__)
        found = {
            name: getattr(group, name)
            for group in suite.test_cases.values()
            for name in dir(group)
            if name.startswith("test_") and name.endswith("_cpu")
        }
    return dict(sorted(found.items()))


def case_names() -> list[str]:
    """Return the names of all CPU cases, in order."""
    return list(cases("plain"))


@functools.cache
def move_onnx_home() -> None:
    """Let the suite write into a folder of its own, in place of one in the user's home."""
    folder = tempfile.mkdtemp(prefix="dplace-onnx-home-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.environ["ONNX_HOME"] = folder


def run_case(backend: str, name: str) -> str:
    """Return ``passed``, or in a line why not."""
    move_onnx_home()
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            cases(backend)[name](unittest.TestCase())
    except unittest.SkipTest as skipped:
        return f"skipped: {skipped}"
    except Exception as error:  # any error is a verdict
        reason = " ".join(str(error).split())
        return f"{type(error).__name__}: {reason[:400]}"
    finally:
        gc.collect(0)
    return PASSED


def run_cases(backend: str, names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield each case with its verdict."""
    for name in names:
        yield name, run_case(backend, name)


def main() -> None:
    """Run the share of the cases that the command line says."""
    backend, (share, shares, done) = sys.argv[1], map(int, sys.argv[2:])
    out = os.fdopen(os.dup(1), "w")
    for name in case_names()[share::shares][done:]:
        print(json.dumps([name, None]), file=out, flush=True)
        print(json.dumps([name, run_case(backend, name)]), file=out, flush=True)


if __name__ == "__main__":
    main()
