"""From a process that a launcher started to ranks that know each other, and out again."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Self, TypeVar

from dplace.errors import DplaceError
from dplace.runtime.ranks.interface import choose_interface
from dplace.runtime.ranks.launch import Launch
from dplace.runtime.ranks.store import no_answer, open_store
from dplace.runtime.ranks.verdict import verdict_of
from dplace.runtime.ranks.watch import Leave, Watch

__all__ = ["TERMINATED", "Gathering", "on_thread"]

TERMINATED = 143
"""What a shell reports for a tool that SIGTERM ended: 128 + 15."""
GRACE_S = 1.0
"""How long a rank that is told to end waits to hear that another one is lost, which is why."""

Made = TypeVar("Made")


class Gathering:
    """The ranks of a run, as a context: whatever ends it here, ends it on all ranks.

    Nothing that may block in native code runs on the thread that enters, so that Ctrl-C and the
    verdict of another rank reach it at any time.
    """

    def __init__(self, launch: Launch, *, timeout_s: float, leave: Leave | None = None) -> None:
        """Connect with the store and start to watch.

        Args:
            timeout_s: How long an address may not answer, a rank be silent, a link carry nothing.
            leave: Ends the process where it does not end by itself; None in a program of others.

        Raises:
            DeviceLostError: Nobody answers at the address.
            InputError: The port is in use.
        """
        self.launch = launch
        self.timeout_s = timeout_s
        choose_interface(launch.address)
        found = on_thread(lambda: open_store(launch, timeout_s, clients=3), timeout_s)
        if found is None:  # torch keeps no time where a host drops what is sent to it
            raise no_answer(launch, timeout_s)
        self.store, *others = found
        """For one thread at a time."""
        self.watch = Watch(launch, others, timeout_s=timeout_s, leave=leave)
        self._handlers: dict[int, object] = {}
        self._writing: int | None = None
        self._is_ending = False
        self._leaves = leave is not None

    def do(self, work: Callable[[], Made]) -> Made:
        """Return what ``work`` returns, done on a thread; raise if the run ends meanwhile."""
        found = on_thread(work, None, self.watch)
        assert found is not None
        return found

    def tell(self, error: BaseException) -> None:
        """Let all ranks end for this error, unless there was another reason before."""
        if not _is_terminated(error):
            self.watch.tell(verdict_of(error, self.launch.rank))
        elif self.watch.wait_for_verdict(GRACE_S) is None:
            self._lose_this()

    def __enter__(self) -> Self:
        # What a launcher does to the other ranks when one has ended; a program of others has its
        # own way with signals.
        if self._leaves and threading.current_thread() is threading.main_thread():
            self._handlers[signal.SIGTERM] = signal.signal(signal.SIGTERM, self._terminate)
            reading, self._writing = os.pipe()
            os.set_blocking(self._writing, False)
            signal.set_wakeup_fd(self._writing, warn_on_full_buffer=False)
            threading.Thread(target=self._hear, args=(reading,), daemon=True).start()
        return self

    def _hear(self, pipe: int) -> None:
        """Hear of signals while the main thread, which has to handle them, is in a part."""
        while number := os.read(pipe, 1):
            if number[0] == signal.SIGINT:
                self.tell(KeyboardInterrupt())
            elif number[0] == signal.SIGTERM and not self.watch.wait_for_verdict(2 * GRACE_S):
                self._lose_this()
        os.close(pipe)

    def _lose_this(self) -> None:
        self.watch.lost(self.launch.rank, "it was told to end (SIGTERM)")

    def _terminate(self, _number: int, _frame: FrameType | None) -> None:
        if not self._is_ending:
            sys.exit(TERMINATED)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._is_ending = True
        if self._leaves and error is not None and self._handlers:
            # The way out is short from here, and must not be left half-way.
            self._handlers[signal.SIGINT] = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            if error is not None:
                self._end(error)
        finally:
            self.watch.close()
            if self._writing is not None:
                signal.set_wakeup_fd(-1)
                os.close(self._writing)
            if error is None:
                for number, handler in self._handlers.items():
                    signal.signal(number, handler)  # type: ignore[arg-type]  # as it was given

    def _end(self, error: BaseException) -> None:
        """Tell all of an error; raise the run's verdict in its place where that is another."""
        watch = self.watch
        watch.see_out()
        self.tell(error)
        watch.linger()
        verdict = watch.verdict
        if _is_terminated(error) and verdict is not None and verdict.lost == self.launch.rank:
            return
        if verdict != verdict_of(error, self.launch.rank):
            watch.check()


def _is_terminated(error: BaseException) -> bool:
    return isinstance(error, SystemExit) and error.code == TERMINATED


def on_thread(
    work: Callable[[], Made], limit_s: float | None, watch: Watch | None = None
) -> Made | None:
    """Return what ``work`` returns, without this thread being in native code meanwhile.

    So Ctrl-C is heard.

    Args:
        limit_s: How long to wait for it; then None is returned.
        watch: Raises when the run ends meanwhile.
    """
    found: list[Made] = []
    errors: list[BaseException] = []
    done = threading.Event()

    def run() -> None:
        try:
            found.append(work())
        except BaseException as error:
            errors.append(error)
        done.set()

    threading.Thread(target=run, name="dplace start", daemon=True).start()
    if watch is not None:
        watch.on_verdict(done.set)
    if not done.wait(limit_s):
        return None
    if watch is not None:
        if errors and not isinstance(errors[0], DplaceError):
            # A broken connection is named by the watch, which knows whose it was.
            watch.wait_for_verdict(GRACE_S)
        watch.check()
    if errors:
        raise errors[0]
    return found[0]
