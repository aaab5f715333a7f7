"""Time calls that take turns, on cores whose speed changes meanwhile.

Differences of calls of one round are wanted, each of a few microseconds in milliseconds. So the
rounds that count are those during which both cores had the same speed from start to end and no
other process had one of them; what they took is brought to the best speed that was seen.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dplace.profiles.probe import WAITING, SpeedProbe, await_rest, waited_s
from dplace.profiles.timing import pinned, settle
from dplace.runtime.devices import usable_cores

__all__ = ["Rounds", "Turns", "even_rounds", "num_even"]

LEAST_ROUNDS = 15
EVEN = 1.1
"""How many times as slow as the fastest one the slowest probe of an even round may be."""
FEWEST = 10
"""Even rounds to keep at least: if there are fewer, the most even ones."""
LONGER = 4
"""How many times as long as asked for calls take turns while there are fewer than that."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rounds:
    """What calls took, round by round."""

    seconds: Mapping[str, NDArray[np.float64]]
    """By name, shape ``(num_rounds,)``."""
    probes_s: NDArray[np.float64]
    """Shape ``(num_rounds, num_probes)``: what a probe took on each core between the calls."""
    waited: NDArray[np.float64]
    """Shape ``(num_rounds,)``: fraction of the time that threads waited for a core."""

    @property
    def kept(self) -> NDArray[np.intp]:
        """Return the rounds that count."""
        return even_rounds(self.probes_s, self.waited)

    def at_speed(self, best_s: float) -> dict[str, NDArray[np.float64]]:
        """Return the seconds of the even rounds, as if a probe took ``best_s``."""
        kept = self.kept
        factor = best_s / self.probes_s[kept].mean(axis=1)
        return {name: found[kept] * factor for name, found in self.seconds.items()}


class Turns:
    """Lets calls take turns, with probes between."""

    def __init__(self) -> None:
        self._probe = SpeedProbe()
        self._cores = usable_cores()[:2]
        self._all: list[float] = []
        self.was_disturbed = False
        """Whether some calls had too few rounds that count, so that uneven ones had to do."""

    def take(
        self, calls: Mapping[str, Callable[[], float]], limit_s: float, *, least: int = LEAST_ROUNDS
    ) -> Rounds:
        """Return what each call says that it took, round by round until the time is up.

        Before each round it waits for other processes to come to rest, as long as there is time.
        Each call goes a few times before it counts: what the others' weights pushed out of the
        caches comes back.
        """
        rows: list[list[float]] = []
        probes: list[list[float]] = []
        waits: list[float] = []
        started_s = time.perf_counter()

        def is_over() -> bool:
            passed_s = time.perf_counter() - started_s
            if len(rows) < least or passed_s < limit_s:
                return False
            return passed_s > LONGER * limit_s or num_even(np.array(probes), np.array(waits)) >= (
                min(least, FEWEST)
            )

        while not is_over():
            passed_s = time.perf_counter() - started_s
            await_rest((LONGER - 1) * limit_s - passed_s)
            begun_s, waiting_s = time.perf_counter(), waited_s()
            row: list[float] = []
            found = self._probed()
            for call in calls.values():
                settle(call)
                row.append(call())
                found += self._probed()
            rows.append(row)
            probes.append(found)
            waits.append((waited_s() - waiting_s) / (time.perf_counter() - begun_s))
        even = num_even(np.array(probes), np.array(waits))
        self.was_disturbed |= even < min(least, FEWEST)
        table = np.array(rows)
        return Rounds(
            seconds={name: table[:, column] for column, name in enumerate(calls)},
            probes_s=np.array(probes),
            waited=np.array(waits),
        )

    @property
    def best_s(self) -> float:
        """Return what a probe takes when a core is at its best, of all probes so far."""
        return float(np.quantile(self._all, 0.03))

    def _probed(self) -> list[float]:
        found: list[float] = []
        for core in self._cores:
            with pinned(core):
                found.append(self._probe.take())
        self._all += found
        return found


def even_rounds(
    probes_s: NDArray[np.float64], waited: NDArray[np.float64] | None = None
) -> NDArray[np.intp]:
    """Return the indices of the rounds during which all cores had one speed, in order.

    Args:
        probes_s: Shape ``(num_rounds, num_probes)``.
        waited: Shape ``(num_rounds,)``: fraction of the time that threads waited for a core; what
            they do in the best round is their own doing.

    >>> even_rounds(np.array([[1.0, 1.0], [1.0, 1.5], [1.5, 1.52]] * 10))[:4].tolist()
    [0, 2, 3, 5]
    """
    unevenness = _unevenness(probes_s, waited)
    kept = np.flatnonzero(unevenness <= EVEN)
    if len(kept) < FEWEST:
        kept = np.sort(np.argsort(unevenness, kind="stable")[:FEWEST])
    return kept


def num_even(probes_s: NDArray[np.float64], waited: NDArray[np.float64]) -> int:
    """Return how many rounds are even; arguments as for ``even_rounds``."""
    return int((_unevenness(probes_s, waited) <= EVEN).sum())


def _unevenness(
    probes_s: NDArray[np.float64], waited: NDArray[np.float64] | None
) -> NDArray[np.float64]:
    unevenness: NDArray[np.float64] = probes_s.max(axis=1) / probes_s.min(axis=1)
    return unevenness if waited is None else unevenness + WAITING * (waited - waited.min())
