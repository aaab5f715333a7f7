"""What a rank has: values that came or that its parts made, and orders of other ranks."""

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dplace.runtime.values import Held

__all__ = ["Inbox", "Key"]

Key = tuple[int, int]
"""Number of the request, number of the value."""


class Inbox:
    """Filled by the receivers, emptied by the thread that computes."""

    def __init__(self, check: Callable[[], None]) -> None:
        """Make an empty one.

        Args:
            check: Raises when the run is over; ``wake`` has to be called then.
        """
        self._check = check
        self._changed = threading.Condition()
        self._values: dict[Key, Held] = {}
        self._uses: dict[Key, int] = {}
        self._orders: dict[int, deque[dict[str, Any]]] = {}

    def put(self, key: Key, held: Held) -> None:
        """Add a value; it may come before its request is expected."""
        with self._changed:
            self._values[key] = held
            self._changed.notify_all()

    def keep(self, request: int, values: Sequence[int], held: Sequence[Held]) -> None:
        """Add what a part of this rank made, as far as it is taken here."""
        with self._changed:
            for value, one in zip(values, held, strict=True):
                if (request, value) in self._uses:
                    self._values[request, value] = one

    def put_order(self, source: int, content: dict[str, Any]) -> None:
        """Add an order, or an answer, of another rank."""
        with self._changed:
            self._orders.setdefault(source, deque()).append(content)
            self._changed.notify_all()

    def wake(self) -> None:
        """Let whoever waits look whether the run is over."""
        with self._changed:
            self._changed.notify_all()

    def expect(self, request: int, uses: Mapping[int, int]) -> None:
        """Say how often each value of a request will be taken."""
        with self._changed:
            self._uses.update({(request, value): number for value, number in uses.items()})

    def take(self, request: int, values: Sequence[int]) -> list[Held]:
        """Return values when all are there; the last use of each lets it go."""
        keys = [(request, value) for value in values]
        with self._changed:
            while not all(key in self._values for key in keys):
                self._check()
                self._changed.wait()
            self._check()
            found = [self._values[key] for key in keys]
            for key in keys:
                self._uses[key] -= 1
                if not self._uses[key]:
                    del self._values[key], self._uses[key]
        return found

    def order(self, source: int) -> dict[str, Any]:
        """Return the next order of a rank when it is there."""
        with self._changed:
            while not self._orders.get(source):
                self._check()
                self._changed.wait()
            return self._orders[source].popleft()
