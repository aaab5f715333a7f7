"""Measure what a call costs beside its ops, and a request beside its calls.

What a call needs besides tensors, such as a session's state, Python's objects and the code of
both, is soon read if it still lies in the caches, and takes three times as long if what ran since
has pushed it out. So the costs are measured with chains of several working sets: what a device
touches in a request, weights and values.
"""

import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dplace.profiles.link_plans import Chains, Layout, chains_plan
from dplace.profiles.measure import empty_call_s
from dplace.profiles.store import CallCosts
from dplace.profiles.timing import timed
from dplace.profiles.turns import Rounds, Turns
from dplace.runtime.placed_session import PlacedSession

__all__ = ["costs_at", "measure_calls"]

SHAPES: tuple[tuple[int, int], ...] = ((16, 14), (64, 14), (128, 14), (256, 7))
"""Channels, height and width of 3 x 3 convolutions: 0.8 to 59 MB a device."""
STEPS = 12
CHAINS = 2
"""On each device."""


def measure_calls(turns: Turns, limit_s: float) -> tuple[CallCosts, ...]:
    """Return the costs for several working sets, the smallest first.

    Args:
        limit_s: Seconds that it takes.
    """
    found = [_rounds(shape, turns, limit_s / len(SHAPES)) for shape in SHAPES]
    return tuple(_costs(shape, rounds, turns) for shape, rounds in zip(SHAPES, found, strict=True))


def costs_at(calls: tuple[CallCosts, ...], working_set_bytes: float) -> CallCosts:
    """Return the costs for a working set, between those measured: linear in its logarithm."""
    sizes = [np.log(max(1, one.working_set_bytes)) for one in calls]

    def between(seconds: list[float]) -> float:
        return float(np.interp(np.log(max(1.0, working_set_bytes)), sizes, seconds))

    return CallCosts(
        working_set_bytes=int(working_set_bytes),
        call_overhead_s=between([one.call_overhead_s for one in calls]),
        single_call_overhead_s=between([one.single_call_overhead_s for one in calls]),
        request_s=between([one.request_s for one in calls]),
    )


def _chains(shape: tuple[int, int]) -> Chains:
    return Chains(channels=shape[0], side=shape[1], kernel=3, steps=STEPS)


def _rounds(shape: tuple[int, int], turns: Turns, limit_s: float) -> Rounds:
    """Time the layouts, and what passes beside the longest part where each device has one."""
    chains = _chains(shape)
    feeds = {"x": np.full((1, shape[0], shape[1], shape[1]), 0.5, np.float32)}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="dplace-")))

        def opened(layout: Layout) -> PlacedSession:
            plan = chains_plan(chains, layout, "within", folder / layout)
            return stack.enter_context(PlacedSession(plan))

        def took_s(session: PlacedSession) -> float:
            return timed(lambda: session.run(None, feeds))

        def beside_s(session: PlacedSession) -> float:
            before = [device.busy_s for device in session.usage()]
            found_s = took_s(session)
            after = [device.busy_s for device in session.usage()]
            return found_s - max(b - a for a, b in zip(before, after, strict=True))

        single, whole, cut = opened("single"), opened("whole"), opened("cut")
        calls: dict[str, Callable[[], float]] = {
            "whole": lambda: took_s(whole),
            "cut": lambda: took_s(cut),
            "beside single": lambda: beside_s(single),
            "beside whole": lambda: beside_s(whole),
        }
        return turns.take(calls, limit_s)


def _costs(shape: tuple[int, int], rounds: Rounds, turns: Turns) -> CallCosts:
    chains = _chains(shape)
    times = rounds.at_speed(turns.best_s)
    parts = CHAINS * STEPS
    call_s = _typical(times["cut"] - times["whole"]) / (parts - 1)
    empty_s = empty_call_s()
    weight_bytes = 4 * chains.channels**2 * chains.kernel**2
    return CallCosts(
        # A step makes a sum and a convolution.
        working_set_bytes=parts * (weight_bytes + 2 * chains.value_bytes),
        call_overhead_s=call_s,
        single_call_overhead_s=_typical(times["beside single"]) + empty_s,
        # The one call of a device costs a call's overhead too.
        request_s=max(_typical(times["beside whole"]) + empty_s - call_s, 0.0),
    )


def _typical(seconds: NDArray[np.float64]) -> float:
    return max(float(np.median(seconds)), 0.0)
