"""How evenly iterations run: idle time, spread, and how long devices wait for the last one.

An iteration is one request, from the caller's call to its return.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from dplace.runtime.events import RunEvent

__all__ = ["DeviceSpread", "Iteration", "Spread", "Stragglers", "iteration_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """A time over iterations, in seconds."""

    min_s: float
    median_s: float
    p90_s: float
    """Nine of ten iterations do not exceed it."""
    max_s: float
    relative_deviation: float
    """Standard deviation over the mean; 0 where the mean is 0."""

    @classmethod
    def of(cls, seconds: Sequence[float]) -> "Spread":
        """Return the spread of at least one time.

        >>> Spread.of([1.0, 3.0])
        Spread(min_s=1.0, median_s=2.0, p90_s=2.8, max_s=3.0, relative_deviation=0.5)
        """
        mean_s = float(np.mean(seconds))
        return cls(
            min_s=min(seconds),
            median_s=float(np.median(seconds)),
            p90_s=float(np.percentile(seconds, 90)),
            max_s=max(seconds),
            relative_deviation=float(np.std(seconds)) / mean_s if mean_s > 0 else 0.0,
        )

    def as_json(self) -> dict[str, float]:
        """Return the figures by the names that ``latency_s`` has them under."""
        return {
            "min": self.min_s,
            "median": self.median_s,
            "p90": self.p90_s,
            "max": self.max_s,
            "relative_deviation": self.relative_deviation,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Iteration:
    """What the devices did in one iteration; tuples have an entry for each device of the plan."""

    start_s: float
    """When the caller called, by ``time.perf_counter``."""
    end_s: float
    """When the outputs were there."""
    busy_s: tuple[float, ...]
    """Time in parts and in copies out of the device's memory."""
    done_s: tuple[float | None, ...]
    """From the start to the end of the device's last part or copy; None where it had none."""

    @property
    def latency_s(self) -> float:
        """Return how long it took."""
        return self.end_s - self.start_s


def iteration_of(
    events: Iterable[RunEvent], devices: Sequence[str], start_s: float, end_s: float
) -> Iteration:
    """Return what ``devices`` did between two times, from the events of that request alone."""
    busy_s = dict.fromkeys(devices, 0.0)
    done_s: dict[str, float | None] = dict.fromkeys(devices)
    for event in events:
        if event.kind in ("run", "copy"):
            busy_s[event.device] += event.end_s - event.start_s
            done_s[event.device] = max(done_s[event.device] or 0.0, event.end_s - start_s)
    return Iteration(
        start_s=start_s,
        end_s=end_s,
        busy_s=tuple(busy_s.values()),
        done_s=tuple(done_s.values()),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceSpread:
    """A device over all iterations."""

    busy_s: float
    """In parts and copies, the mean of an iteration."""
    idle_s: float
    """The rest of the iteration, in the mean: waiting, and what calls cost outside of parts."""
    idle_share: float
    """Idle time over the time of all iterations, 0 to 1."""
    done_s: Spread | None
    """From the start of an iteration to the end of the device's last part; None without parts."""
    waits_s: float
    """From there to the end of the last part on any device, in the mean."""

    @classmethod
    def of(cls, iterations: Sequence[Iteration], device: int) -> "DeviceSpread":
        """Return the spread of the device of that index."""
        total_s = sum(one.latency_s for one in iterations)
        busy_s = sum(one.busy_s[device] for one in iterations)
        idle_s = max(total_s - busy_s, 0.0)  # a rounding may make it less
        ends = [(one, done) for one in iterations if (done := one.done_s[device]) is not None]
        waits_s = [max(filter(None, one.done_s)) - done for one, done in ends]
        return cls(
            busy_s=busy_s / len(iterations),
            idle_s=idle_s / len(iterations),
            idle_share=idle_s / total_s if total_s > 0 else 0.0,
            done_s=Spread.of([done for _, done in ends]) if ends else None,
            waits_s=float(np.mean(waits_s)) if ends else 0.0,
        )

    def as_json(self) -> dict[str, object]:
        """Return the figures but for the busy time."""
        return {
            "idle_s": self.idle_s,
            "idle_share": self.idle_share,
            "done_s": None if self.done_s is None else self.done_s.as_json(),
            "waits_s": self.waits_s,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Stragglers:
    """The straggler effect: how long devices wait for the last one, over the iteration's time.

    Of an iteration it is the longest time that a device waits at its end for the others, divided by
    the time of the iteration, after Hashemi, Jyothi, Campbell: Communication Scheduling as a
    First-Class Citizen in Distributed Machine Learning Systems, 2018. There workers train on data
    of their own; here devices work on one request, so those that the plan lets end early wait too.
    """

    mean: float
    max: float

    @classmethod
    def of(cls, iterations: Sequence[Iteration]) -> "Stragglers":
        """Return the effect over all iterations, 0 where no two devices work."""
        effects: list[float] = []
        for one in iterations:
            done_s = [done for done in one.done_s if done is not None]
            longest_s = max(done_s) - min(done_s) if done_s else 0.0
            effects.append(longest_s / one.latency_s if one.latency_s > 0 else 0.0)
        return cls(mean=float(np.mean(effects)), max=max(effects))
