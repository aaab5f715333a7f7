"""A device's thread and its queue.

A task is put in its device's queue when all it reads is there and the tasks before it in its
request have run on that device. So a queue holds only what can run at once, workers never wait for
one another, and requests may overlap in any way; the smallest (request, position) goes first.
"""

from __future__ import annotations

import heapq
import os
import threading
import time
from collections.abc import Callable
from queue import SimpleQueue
from typing import TYPE_CHECKING, TypeAlias

from dplace.errors import DeviceLostError, DplaceError
from dplace.runtime.devices import RunDevice
from dplace.runtime.reason import reason
from dplace.runtime.route import Task

if TYPE_CHECKING:
    from dplace.runtime.request import Request

__all__ = ["LogEntry", "Worker", "part_failure"]

Item: TypeAlias = "tuple[int, int, Request, Task]"
"""Number of the request, position of the task; no two tasks of a device have both in common."""

LogEntry: TypeAlias = "tuple[int, Task, float, float]"
"""Number of the request, the task, its start and its end by ``time.perf_counter``, in seconds."""

LOST = ("CUDA failure", "CUDNN failure", "device lost", "unspecified launch failure")


class Worker:
    """Drives a device: its one thread opens the sessions and runs them.

    A device that has all the work needs no thread of its own: callers take turns at it.
    Handing a request to another thread and back costs up to 0.2 ms when the caches are cold.
    """

    def __init__(self, device: RunDevice) -> None:
        self.device = device
        self.busy_s = 0.0
        """Time spent in parts and copies so far; only this worker writes it."""
        self.calls = 0
        """Parts run so far."""
        self.log: list[LogEntry] | None = None
        """What it has run, while that is recorded: all of a request before its caller is told."""
        self._heap: list[Item] = []
        self._inbox: SimpleQueue[Item | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._ident: int | None = None
        self._turn = threading.Lock()

    def start(self, prepare: Callable[[], None], ready: Callable[[Exception | None], None]) -> None:
        """Start the thread.

        Args:
            prepare: What the thread does first, on its core.
            ready: Told, by the thread, how that went; after an error the thread ends.
        """
        self._thread = threading.Thread(
            target=self._live, args=(prepare, ready), name=f"dplace {self.device.name}", daemon=True
        )
        self._thread.start()

    def drive(self, begin: Callable[[], None]) -> None:
        """Do what ``begin`` puts, and all that follows from it, in the caller's thread."""
        with self._turn:
            self._ident = threading.get_ident()
            begin()
            while self._heap:
                self._work(*heapq.heappop(self._heap))

    def put(self, item: Item) -> None:
        """Add a task that can run at once; any thread may."""
        if threading.get_ident() == self._ident:
            heapq.heappush(self._heap, item)
        else:
            self._inbox.put(item)

    def stop(self) -> None:
        """End the thread when it comes to rest."""
        self._inbox.put(None)

    def join(self) -> None:
        """Wait until the thread has ended."""
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def _live(self, prepare: Callable[[], None], ready: Callable[[Exception | None], None]) -> None:
        self._ident = threading.get_ident()
        try:
            if self.device.core is not None:
                os.sched_setaffinity(0, {self.device.core})  # 0 is this thread
            prepare()
        except Exception as error:
            ready(error)
            return
        del prepare
        ready(None)
        del ready
        heap, inbox = self._heap, self._inbox
        while True:
            if heap and inbox.empty():
                self._work(*heapq.heappop(heap))
            elif not self._admit():
                return

    def _admit(self) -> bool:
        """Move one entry from the inbox to the heap; False if it says to stop."""
        item = self._inbox.get()
        if item is None:
            return False
        heapq.heappush(self._heap, item)
        return True

    # A method of its own, so that a thread at rest has no name left for a request's values.
    def _work(self, number: int, _position: int, request: Request, task: Task) -> None:
        """Run one task and tell its request."""
        feeds = request.take(task)
        if feeds is None:
            return  # the request has failed meanwhile
        started_s = time.perf_counter()
        try:
            results = task.work(feeds, request.options)
        # onnxruntime's errors share no base below Exception.
        except Exception as error:
            request.fail(part_failure(task.label, self.device, error), task)
            return
        ended_s = time.perf_counter()
        self.busy_s += ended_s - started_s
        self.calls += task.is_part
        log = self.log
        if log is not None:
            log.append((number, task, started_s, ended_s))
        del feeds
        request.complete(task, results)


def part_failure(label: str, device: RunDevice, error: Exception) -> DplaceError:
    """Return the error that the caller gets to see when a task of a device fails."""
    text = reason(error)
    kind = DplaceError
    if not device.is_cpu and any(mark in text for mark in LOST):
        kind = DeviceLostError
    failure = kind(f"{label} on {device.name}: {text}")
    failure.__cause__ = error
    return failure
