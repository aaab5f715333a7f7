"""What the workers of a session ran, and when."""

from collections.abc import Callable, Sequence

from dplace.runtime.events import RunEvent
from dplace.runtime.worker import Worker

__all__ = ["Recording"]


class Recording:
    """Collects the logs that workers write while they are told to."""

    def __init__(self, workers: Sequence[Worker]) -> None:
        self._workers = workers
        self._first = 0

    def start(self, number: Callable[[], int]) -> None:
        """Begin with an empty log.

        Args:
            number: Gives the next request's number away; the one after it becomes number 0.
        """
        for worker in self._workers:
            worker.log = []
        # Only now, so that all of each request that counts is in the logs.
        self._first = number() + 1

    def take(self) -> list[RunEvent]:
        """Return what is in the logs, in the order of starts, and empty them."""
        events: list[RunEvent] = []
        for worker in self._workers:
            log = worker.log
            if log is None:
                continue
            entries = log[:]
            del log[: len(entries)]  # a worker may have added to it meanwhile
            events.extend(
                RunEvent(
                    kind="run" if task.is_part else "copy",
                    subject=task.subject,
                    device=worker.device.name,
                    peer=task.peer,
                    start_s=start_s,
                    end_s=end_s,
                    request=number - self._first,
                )
                for number, task, start_s, end_s in entries
                if number >= self._first
            )
        return sorted(events, key=lambda event: event.start_s)

    def stop(self) -> list[RunEvent]:
        """Return what is in the logs, and let the workers write no more."""
        events = self.take()
        for worker in self._workers:
            worker.log = None
        return events
