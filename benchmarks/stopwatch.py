"""Times of calls that take turns, so that a busy machine is busy for all of them."""

import statistics
import time
from collections.abc import Callable, Mapping

__all__ = ["median_ratio", "take_turns"]


def take_turns(
    calls: Mapping[str, Callable[[], object]], *, rounds: int, warmup: int = 3
) -> dict[str, list[float]]:
    """Return the seconds of every call, round by round: A B, A B, ...

    Args:
        calls: What to time, by name.
        rounds: How often each is timed.
        warmup: How often each is called before.
    """
    for _ in range(warmup):
        for call in calls.values():
            call()
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            seconds[name].append(time.perf_counter() - start)
    return seconds


def median_ratio(top: list[float], bottom: list[float]) -> float:
    """Return the median of the ratios of the same round."""
    return statistics.median(a / b for a, b in zip(top, bottom, strict=True))
