"""One call of ``run`` on its way through the devices."""

import threading
from collections.abc import Mapping, Sequence
from typing import Any

from dplace.errors import DplaceError
from dplace.runtime.buffers import Piece
from dplace.runtime.route import Route, Task
from dplace.runtime.streams import Streamer
from dplace.runtime.values import Held
from dplace.runtime.worker import Worker

__all__ = ["Request"]


class Request:
    """The values of one request and how far each device has come in it."""

    def __init__(
        self,
        number: int,
        route: Route,
        workers: Sequence[Worker],
        feeds: Mapping[str, tuple[Held, object]],
        options: Any,
        streamers: Sequence[Streamer] = (),
    ) -> None:
        self.options = options
        self.number = number
        self._route = route
        self._workers = workers
        self._lock = threading.Lock()
        self._done = threading.Lock()
        self._done.acquire()
        self._values: list[Held] = [None] * len(route.uses)
        # Workers may read a caller's array after the call was interrupted.
        self._owners: list[object] = []
        for name, slot in (*route.feeds, *route.constants):
            if name in feeds:
                self._values[slot], owner = feeds[name]
                self._owners.append(owner)
        self._uses = list(route.uses)
        self._missing = list(route.missing)
        self._next = [0] * len(route.orders)
        self._open = len(route.tasks)
        self._error: DplaceError | None = None
        self._has_begun = False
        # What follows is for streamed weights only; without them nothing of it is looked at.
        self._streamers = streamers
        self._pieces: dict[int, tuple[Streamer, Piece]] = {}
        """By slot: whose room a weight takes."""
        self._at_work: set[int] = set()
        """Devices that run a task of this request, and so may read weights."""

    def run(self, *, lone: Worker | None) -> list[Held]:
        """Run all tasks and return the values of all slots, None where no longer needed.

        Args:
            lone: The worker of all tasks, to be driven in this thread; None if there are more.

        Raises:
            DplaceError: A part failed.
        """
        if self._open:
            try:
                if lone is not None:
                    lone.drive(self._begin)
                else:
                    self._begin()
                    self._done.acquire()
            except BaseException:
                self.fail(DplaceError("interrupted"))
                raise
        if self._error is not None:
            raise self._error
        return self._values

    def _begin(self) -> None:
        """Put the first task of each device that can start."""
        with self._lock:
            self._has_begun = True
            for order in self._route.orders:
                if order:
                    self._put_if_ready(order[0])

    def take(self, task: Task) -> list[Held] | None:
        """Return what a task reads, or None if the request has failed."""
        values = self._values
        if self._streamers:
            with self._lock:
                if self._error is not None:
                    return None
                self._at_work.add(task.device)
        # Without the lock: nobody writes these values before the task is complete.
        return [values[slot] for slot in task.reads] if self._error is None else None

    def complete(self, task: Task, results: Sequence[Held]) -> None:
        """Store what a task made, drop what nobody needs any more, start what is ready now."""
        route, values, missing = self._route, self._values, self._missing
        with self._lock:
            if self._streamers:
                self._at_work.discard(task.device)
            if self._error is not None:
                self._free_unread()
                return
            self._open -= 1
            if not self._open:
                for slot, value in zip(task.writes, results, strict=True):
                    values[slot] = value
                self._free_unread()
                self._done.release()
                return
            for slot in task.reads:
                self._uses[slot] -= 1
                if not self._uses[slot]:
                    values[slot] = None
                    if slot in self._pieces:
                        self._free(slot)
            for slot, value in zip(task.writes, results, strict=True):
                values[slot] = value
                for reader in route.readers[slot]:
                    missing[reader] -= 1
                    if route.tasks[reader].device != task.device:
                        self._put_if_ready(reader)
            order = route.orders[task.device]
            self._next[task.device] += 1
            if self._next[task.device] < len(order):
                self._put_if_ready(order[self._next[task.device]])

    def supply(self, slot: int, value: Held, streamer: Streamer, piece: Piece) -> bool:
        """Take in a weight and the room that it has; return False if nobody reads it any more."""
        with self._lock:
            if self._error is not None:
                return False
            self._values[slot] = value
            self._pieces[slot] = (streamer, piece)
            for reader in self._route.readers[slot]:
                self._missing[reader] -= 1
                if self._has_begun:
                    self._put_if_ready(reader)
            return True

    @property
    def has_failed(self) -> bool:
        """Return whether the request has ended with an error."""
        return self._error is not None

    def fail(self, error: DplaceError, task: Task | None = None) -> None:
        """End the request with an error; tasks of it that wait in queues are left out.

        Args:
            task: The one that failed, if it was one.
        """
        with self._lock:
            if self._error is None and self._open:
                self._error = error
                self._done.release()
            if task is not None:
                self._at_work.discard(task.device)
            self._free_unread()
        for streamer in self._streamers:
            streamer.wake()

    def _free_unread(self) -> None:
        """Free the weights of devices that run no task of this request; there will be none."""
        for slot, (streamer, _) in list(self._pieces.items()):
            if streamer.number not in self._at_work:
                self._values[slot] = None
                self._free(slot)

    def _free(self, slot: int) -> None:
        streamer, piece = self._pieces.pop(slot)
        streamer.give_back(piece)

    def _put_if_ready(self, number: int) -> None:
        """Queue a task if its values are there and it is next on its device."""
        task = self._route.tasks[number]
        if self._missing[number] == 0 and self._next[task.device] == task.position:
            self._workers[task.device].put((self.number, task.position, self, task))
