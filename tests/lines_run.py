"""Work in lines of Python: the same number on any machine, however busy; seconds are not.

What C does in one line (a slice, ``in`` a list, a call of NumPy) counts as one, however long it
takes.
"""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

__all__ = ["lines_run"]


def lines_run(work: Callable[[], object]) -> int:
    """The lines of Python that `work` runs through, of all it calls but compiled code."""
    lines = 0

    def trace(_frame: FrameType, event: str, _value: Any) -> Callable[..., Any]:
        nonlocal lines
        lines += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return lines
