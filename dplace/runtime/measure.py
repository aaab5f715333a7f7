"""How long a plan takes: the same request again and again, one at a time."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from dplace.runtime.events import RunEvent
from dplace.runtime.placed_session import DeviceUsage
from dplace.runtime.spread import DeviceSpread, Iteration, Spread, Stragglers, iteration_of
from dplace.runtime.values import Value

__all__ = ["Measured", "Measurement", "measure"]


class Measured(Protocol):
    """What is timed: a PlacedSession, or what stands for one where there are several processes."""

    def run(
        self, output_names: Sequence[str] | None, input_feed: Mapping[str, Value], /
    ) -> list[Value]: ...

    def usage(self) -> tuple[DeviceUsage, ...]: ...

    def start_recording(self) -> None: ...

    def take_events(self) -> list[RunEvent]: ...

    def stop_recording(self) -> list[RunEvent]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """Latencies of a session, and what its devices did meanwhile."""

    latencies_s: tuple[float, ...]
    """Of each timed run, in order."""
    devices: tuple[DeviceUsage, ...]
    """Calls and busy time per run, on average."""
    outputs: tuple[Value, ...]
    """Of the last run."""
    iterations: tuple[Iteration, ...]
    """Of each timed run, in order."""
    events: tuple[RunEvent, ...] = ()
    """Of the run number ``median_run``, where they were asked for."""

    @property
    def min_s(self) -> float:
        """Return the shortest latency."""
        return min(self.latencies_s)

    @property
    def median_s(self) -> float:
        """Return the median latency."""
        return float(np.median(self.latencies_s))

    @property
    def p90_s(self) -> float:
        """Return the latency that nine of ten runs do not exceed."""
        return float(np.percentile(self.latencies_s, 90))

    @property
    def spread(self) -> Spread:
        """Return the spread of the latency."""
        return Spread.of(self.latencies_s)

    @property
    def device_spreads(self) -> tuple[DeviceSpread, ...]:
        """Return what each device did over all runs, in the plan's order."""
        return tuple(DeviceSpread.of(self.iterations, index) for index in range(len(self.devices)))

    @property
    def stragglers(self) -> Stragglers:
        """Return how long devices waited for the last one."""
        return Stragglers.of(self.iterations)

    @property
    def median_run(self) -> int:
        """Return which run took the median latency, from 0: of two the quicker one, or earlier."""
        return median_index(self.latencies_s)


def median_index(numbers: Sequence[float]) -> int:
    """Return where the median is: of two in the middle the smaller, of equal ones the first.

    >>> median_index([5.0, 1.0, 3.0, 2.0])
    3
    """
    order = sorted(range(len(numbers)), key=lambda index: numbers[index])
    return order[(len(numbers) - 1) // 2]


def measure(
    session: Measured,
    feeds: Mapping[str, Value],
    *,
    warmup: int,
    repeat: int,
    keep_events: bool = False,
) -> Measurement:
    """Run ``session`` and time it, as its caller sees it.

    Args:
        warmup: Runs before that are not timed.
        repeat: Runs that are timed; at least 1.
        keep_events: Return what happened in the median run.
    """
    for _ in range(warmup):
        session.run(None, feeds)
    before = session.usage()
    names = [device.name for device in before]
    iterations: list[Iteration] = []
    kept: list[list[RunEvent]] = []
    outputs: Sequence[Value] = ()
    session.start_recording()
    for _ in range(repeat):
        started_s = time.perf_counter()
        outputs = session.run(None, feeds)
        ended_s = time.perf_counter()
        events = session.take_events()
        iterations.append(iteration_of(events, names, started_s, ended_s))
        if keep_events:
            kept.append(events)
    session.stop_recording()
    latencies_s = tuple(iteration.latency_s for iteration in iterations)
    return Measurement(
        latencies_s=latencies_s,
        devices=tuple(
            DeviceUsage(
                name=now.name,
                parts=now.parts,
                calls=(now.calls - then.calls) // repeat,
                busy_s=(now.busy_s - then.busy_s) / repeat,
            )
            for now, then in zip(session.usage(), before, strict=True)
        ),
        outputs=tuple(outputs),
        iterations=tuple(iterations),
        events=tuple(kept[median_index(latencies_s)]) if keep_events else (),
    )
