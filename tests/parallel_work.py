"""Work for other processes, which find it by its module."""

import os
import time
from collections.abc import Callable

__all__ = ["end_at_zero", "half"]


def half(number: int, step: Callable[[str], None]) -> float:
    """Return half of a number, the later the smaller it is; negative ones are a bug."""
    step(f"halving {number}")
    if number < 0:
        raise ValueError(f"{number} is negative")
    time.sleep(0.2 / (1 + number))
    return number / 2


def end_at_zero(number: int, step: Callable[[str], None]) -> float:
    """Return 1 over a number; at 0 the process goes."""
    if number == 0:
        os._exit(7)
    return 1 / number
