"""Measure what hand-overs cost between CPU devices of one process, and calls (``calls.py``).

Two chains of convolutions run side by side, a device each, through the very PlacedSession that
plans run in: once as one part, once cut into a part for each step, and both again such that each
step of a chain reads what the other chain has just made. What crossing adds to what cutting costs
is the hand-over; over several sizes of values it is fitted as ``latency + bytes / bandwidth``.

Both devices are busy meanwhile, as in a plan: threads of one Python process wait for each other
when their parts end.
"""

import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dplace.errors import InputError
from dplace.profiles.calls import measure_calls
from dplace.profiles.catalogue import DeviceKind
from dplace.profiles.line_fit import fit_line
from dplace.profiles.link_plans import Chains, Joins, Layout, chains_plan
from dplace.profiles.machine import date_now, setting_here
from dplace.profiles.probe import BUSY
from dplace.profiles.store import LinkCosts
from dplace.profiles.timing import timed
from dplace.profiles.turns import Rounds, Turns
from dplace.runtime.devices import usable_cores
from dplace.runtime.placed_session import PlacedSession

__all__ = ["measure_links"]

SHAPES: tuple[tuple[int, int, int], ...] = (
    (16, 14, 3),
    (32, 28, 1),
    (64, 28, 1),
    (64, 40, 1),
    (64, 56, 1),
    (64, 80, 1),
)
"""Channels, height and width, and kernel of the convolutions: 13 kB to 1.6 MB a value."""
STEPS = 12


def measure_links(kind: DeviceKind, *, limit_s: float = 45.0) -> tuple[LinkCosts, tuple[str, ...]]:
    """Return the costs of calls and hand-overs of two CPU devices, and warnings.

    Args:
        limit_s: Seconds that it takes.

    Raises:
        InputError: It is no CPU, or there is but one core.
    """
    if kind.provider != "CPUExecutionProvider":
        raise InputError(
            f"--links --device {kind.name}: only hand-overs between CPU devices are measured; "
            "describe other links in a cluster file"
        )
    if len(usable_cores()) < 2:
        raise InputError("--links: needs two cores, and this process may use one")
    turns = Turns()
    calls = measure_calls(turns, limit_s / 2)
    found = [_rounds(shape, turns, limit_s / 2 / len(SHAPES)) for shape in SHAPES]
    sizes = [_chains(shape).value_bytes for shape in SHAPES]
    seconds = [_hand_over_s(rounds, turns) for rounds in found]
    line = fit_line(np.array(sizes, dtype=np.float64), np.array(seconds))
    costs = LinkCosts(
        setting=setting_here(kind),
        date=date_now(),
        calls=calls,
        latency_s=line.intercept,
        bytes_per_s=1 / line.slope,
        relative_error=line.relative_error,
        sizes_bytes=tuple(sizes),
        between="devices",
        probe_s=turns.best_s,
    )
    return costs, (f"--links: {BUSY}",) if turns.was_disturbed else ()


def _chains(shape: tuple[int, int, int]) -> Chains:
    return Chains(channels=shape[0], side=shape[1], kernel=shape[2], steps=STEPS)


def _rounds(shape: tuple[int, int, int], turns: Turns, limit_s: float) -> Rounds:
    """Time the layouts with values of one size."""
    feeds = {"x": np.full((1, shape[0], shape[1], shape[1]), 0.5, np.float32)}
    layouts: tuple[tuple[str, Layout, Joins], ...] = (
        ("one", "single", "none"),
        ("cut", "cut", "none"),
        ("crossed one", "single", "across"),
        ("crossed", "cut", "across"),
    )
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="dplace-")))

        def opened(name: str, layout: Layout, joins: Joins) -> Callable[[], float]:
            plan = chains_plan(_chains(shape), layout, joins, folder / name)
            session = stack.enter_context(PlacedSession(plan))
            return lambda: timed(lambda: session.run(None, feeds))

        return turns.take({layout[0]: opened(*layout) for layout in layouts}, limit_s)


def _hand_over_s(rounds: Rounds, turns: Turns) -> float:
    times = rounds.at_speed(turns.best_s)
    # Both chains are of equal work, so each device's is half of that of one device.
    crossed: NDArray[np.float64] = times["crossed"] - times["crossed one"] / 2
    cut: NDArray[np.float64] = times["cut"] - times["one"] / 2
    return float(np.median(crossed - cut)) / (STEPS - 1)
