"""Measure what calls and hand-overs cost between CPU devices of one process.

Two chains of convolutions run side by side, a device each, through the very PlacedSession that
plans run in: once as one part each, once cut into a part for each step, and once such that each
step of a chain reads what the other chain has just made. What cutting adds is the overhead of a
call, what crossing adds besides is the hand-over; over several sizes of values the latter is
fitted as ``latency + bytes / bandwidth``.

Both devices are busy meanwhile, as in a plan: threads of one Python process wait for each other
when their parts end, which makes a call several times as long as on one device alone.
"""

import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dplace.errors import InputError
from dplace.profiles.catalogue import DeviceKind
from dplace.profiles.line_fit import fit_line
from dplace.profiles.link_plans import Chains, Layout, chains_plan
from dplace.profiles.machine import date_now, setting_here
from dplace.profiles.measure import empty_call_s, plain_call
from dplace.profiles.probe import SpeedProbe, undisturbed
from dplace.profiles.store import LinkCosts
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
LEAST_ROUNDS = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class _Costs:
    """What was measured with values of one size, in seconds."""

    size_bytes: int
    call_s: float
    hand_over_s: float


def measure_links(kind: DeviceKind, *, limit_s: float = 20.0) -> tuple[LinkCosts, tuple[str, ...]]:
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
    found = [_measured(shape, limit_s / len(SHAPES)) for shape in SHAPES]
    sizes = np.array([costs.size_bytes for costs in found], dtype=np.float64)
    line = fit_line(sizes, np.array([costs.hand_over_s for costs in found]))
    single_s, request_s = _request_costs(limit_s / len(SHAPES))
    costs = LinkCosts(
        setting=setting_here(kind),
        date=date_now(),
        call_overhead_s=max(float(np.median([costs.call_s for costs in found])), 0.0),
        single_call_overhead_s=single_s,
        request_s=request_s,
        latency_s=line.intercept,
        bytes_per_s=1 / line.slope,
        relative_error=line.relative_error,
        sizes_bytes=tuple(costs.size_bytes for costs in found),
        between="devices",
    )
    return costs, ()


def _measured(shape: tuple[int, int, int], limit_s: float) -> _Costs:
    """Measure the layouts with values of one size, by turns."""
    chains = Chains(channels=shape[0], side=shape[1], kernel=shape[2], steps=STEPS)
    feeds = {"x": np.full((1, shape[0], shape[1], shape[1]), 0.5, np.float32)}
    layouts: tuple[tuple[str, Layout, bool], ...] = (
        ("one", "single", False),
        ("whole", "whole", False),
        ("cut", "cut", False),
        ("crossed_one", "single", True),
        ("crossed", "cut", True),
    )
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="dplace-")))
        calls: dict[str, Callable[[], object]] = {}
        for name, layout, crosses in layouts:
            plan = chains_plan(chains, layout, crosses=crosses, folder=folder / name)
            session = stack.enter_context(PlacedSession(plan))
            calls[name] = lambda run=session.run: run(None, feeds)  # type: ignore[misc]
        times = _by_turns(calls, limit_s)
    return _Costs(
        size_bytes=chains.value_bytes,
        call_s=_typical(times["cut"] - times["whole"]) / (STEPS - 1),
        hand_over_s=_typical(
            times["crossed"] - times["crossed_one"] / 2 - (times["cut"] - times["one"] / 2)
        )
        / (STEPS - 1),
    )


def _request_costs(limit_s: float) -> tuple[float, float]:
    """Return what a request costs beside its ops, and beside that on a device's own thread."""
    chains = Chains(channels=SHAPES[0][0], side=SHAPES[0][1], kernel=1, steps=STEPS)
    feeds = {"x": np.full((1, chains.channels, chains.side, chains.side), 0.5, np.float32)}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="dplace-")))
        calls: dict[str, Callable[[], object]] = {}
        for layout in ("single", "away"):
            plan = chains_plan(chains, layout, crosses=False, folder=folder / layout)
            session = stack.enter_context(PlacedSession(plan))
            calls[layout] = lambda run=session.run: run(None, feeds)  # type: ignore[misc]
        part = next((folder / "single" / "parts").glob("*.onnx"))
        calls["plain"] = plain_call(part, feeds)
        times = _by_turns(calls, limit_s)
    beside_s = _typical(times["single"] - times["plain"])
    return (
        max(beside_s, 0.0) + empty_call_s(),
        max(_typical(times["away"] - times["single"]), 0.0),
    )


def _typical(differences: NDArray[np.float64]) -> float:
    return float(np.median(differences))


def _by_turns(
    calls: Mapping[str, Callable[[], object]], limit_s: float
) -> dict[str, NDArray[np.float64]]:
    """Return the seconds of each call, round by round, of undisturbed rounds."""
    probe = SpeedProbe()
    times: dict[str, list[float]] = {name: [] for name in calls}
    probes: list[float] = [probe.take()]
    started_s = time.perf_counter()
    rounds = 0
    while rounds < LEAST_ROUNDS or time.perf_counter() - started_s < limit_s:
        for name, call in calls.items():
            call()  # what the others' weights pushed out of the caches comes back
            found = []
            for _ in range(2):
                begun_s = time.perf_counter()
                call()
                found.append(time.perf_counter() - begun_s)
            times[name].append(min(found))
        probes.append(probe.take())
        rounds += 1
    ends = np.stack([probes[:-1], probes[1:]], axis=1)
    kept = undisturbed(ends)
    return {name: np.array(seconds)[kept] for name, seconds in times.items()}
