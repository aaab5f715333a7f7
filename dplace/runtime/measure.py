"""How long a plan takes: the same request again and again, one at a time."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from dplace.runtime.placed_session import DeviceUsage
from dplace.runtime.values import Value

__all__ = ["Measured", "Measurement", "measure"]


class Measured(Protocol):
    """What is timed: a PlacedSession, or what stands for one where there are several processes."""

    def run(
        self, output_names: Sequence[str] | None, input_feed: Mapping[str, Value], /
    ) -> list[Value]: ...

    def usage(self) -> tuple[DeviceUsage, ...]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """Latencies of a session, and what its devices did meanwhile."""

    latencies_s: tuple[float, ...]
    """Of each timed run, in order."""
    devices: tuple[DeviceUsage, ...]
    """Calls and busy time per run, on average."""
    outputs: tuple[Value, ...]
    """Of the last run."""

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


def measure(
    session: Measured, feeds: Mapping[str, Value], *, warmup: int, repeat: int
) -> Measurement:
    """Run ``session`` and time it, as its caller sees it.

    Args:
        warmup: Runs before that are not timed.
        repeat: Runs that are timed; at least 1.
    """
    for _ in range(warmup):
        session.run(None, feeds)
    before = session.usage()
    latencies_s: list[float] = []
    outputs: Sequence[Value] = ()
    for _ in range(repeat):
        started_s = time.perf_counter()
        outputs = session.run(None, feeds)
        latencies_s.append(time.perf_counter() - started_s)
    return Measurement(
        latencies_s=tuple(latencies_s),
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
    )
