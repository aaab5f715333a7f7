"""What the workers of a session ran, and what its streamers brought, and when."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from dplace.runtime.events import RunEvent
from dplace.runtime.streams import Streamer
from dplace.runtime.worker import Worker

__all__ = ["Recording"]

Entry = TypeVar("Entry")


class Recording:
    """Collects the logs that workers and streamers write while they are told to."""

    def __init__(self, workers: Sequence[Worker], streamers: Sequence[Streamer] = ()) -> None:
        self._workers = workers
        self._streamers = streamers
        self._first = 0

    def start(self, number: Callable[[], int]) -> None:
        """Begin with an empty log.

        Args:
            number: Gives the next request's number away; the one after it becomes number 0.
        """
        for worker in self._workers:
            worker.log = []
        for streamer in self._streamers:
            streamer.log = []
        # Only now, so that all of each request that counts is in the logs.
        self._first = number() + 1

    def take(self) -> list[RunEvent]:
        """Return what is in the logs, in the order of starts, and empty them."""
        events = [*self._run(), *self._brought()]
        return sorted(events, key=lambda event: event.start_s)

    def _run(self) -> Iterator[RunEvent]:
        """Yield the parts and copies that workers did."""
        for worker in self._workers:
            for number, task, start_s, end_s in _emptied(worker.log):
                if number >= self._first:
                    yield RunEvent(
                        kind="run" if task.is_part else "copy",
                        subject=task.subject,
                        device=worker.device.name,
                        peer=task.peer,
                        start_s=start_s,
                        end_s=end_s,
                        request=number - self._first,
                    )

    def _brought(self) -> Iterator[RunEvent]:
        """Yield the weights that streamers brought."""
        for streamer in self._streamers:
            for number, weight, start_s, end_s in _emptied(streamer.log):
                if number >= self._first:
                    yield RunEvent(
                        kind="receive",
                        subject=weight.name,
                        device=streamer.device.name,
                        peer=weight.home,
                        start_s=start_s,
                        end_s=end_s,
                        request=number - self._first,
                        size_bytes=weight.size_bytes,
                    )

    def stop(self) -> list[RunEvent]:
        """Return what is in the logs, and let the workers write no more."""
        events = self.take()
        for worker in self._workers:
            worker.log = None
        for streamer in self._streamers:
            streamer.log = None
        return events


def _emptied(log: list[Entry] | None) -> list[Entry]:
    """Return what is in a log and take it out."""
    if log is None:
        return []
    entries = log[:]
    del log[: len(entries)]  # whoever writes it may have added to it meanwhile
    return entries
