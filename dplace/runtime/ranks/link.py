"""The two threads of a link: one sends what is ready by priority, one takes what comes."""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from dplace.plan.records import HOST
from dplace.runtime.copies import copy_from
from dplace.runtime.devices import RunDevice
from dplace.runtime.events import RunEvent
from dplace.runtime.ranks.message import Buffer, Header, Kind, Message
from dplace.runtime.ranks.payload import decode, goes_directly, messages_of, order_of
from dplace.runtime.ranks.weights import begun
from dplace.runtime.ranks.wire import Wire
from dplace.runtime.values import Held, to_python

__all__ = ["FIRST", "LAST", "Ends", "Parcel", "Receiver", "Sender"]

FIRST, LAST = -(2**31), 2**31
"""Priorities of orders, which go before all values, and of what ends a link."""
FLUSH_S = 0.1


class Ends(NamedTuple):
    """What both threads of this rank's links know and tell."""

    names: tuple[str, ...]
    """Of each rank its device."""
    value_names: tuple[str, ...]
    """Of each value, by its number."""
    session: Callable[[], Any]
    """Gives any onnxruntime session; sequences are read through one."""
    record: Callable[[RunEvent], None]
    """Is told of each value that was sent or received."""
    failed: Callable[[int, BaseException], None]
    """Is told of an error on the link to or from a rank."""
    device: RunDevice
    """This rank's."""
    from_host: frozenset[int]
    """Streamed weights whose home is the host."""


class Parcel(NamedTuple):
    """A value that is ready to be sent."""

    value: int
    request: int
    held: Held
    from_file: Callable[[], Message] | None = None
    """Makes the message of what is not in memory, in place of ``held``."""


class Sender:
    """Sends over one link: of all that is ready, what has the smallest priority."""

    def __init__(self, wire: Wire, ends: Ends) -> None:
        """Start the thread."""
        self._wire = wire
        self._ends = ends
        self._tickets = itertools.count()
        self._heap: list[tuple[int, int, Parcel | Message]] = []
        self._is_sending = False
        self._ahead: tuple[Parcel, Message] | None = None
        """What was read already of a weight that is still in the heap."""
        self._changed = threading.Condition()
        self._thread = threading.Thread(
            target=self._live, name=f"dplace to {ends.names[wire.link[1]]}", daemon=True
        )
        self._thread.start()

    def put(self, item: Parcel | Message, priority: int) -> None:
        """Add what is ready now; equal priorities go in the order they are added."""
        with self._changed:
            heapq.heappush(self._heap, (priority, next(self._tickets), item))
            self._changed.notify_all()

    def flush(self) -> None:
        """Wait until all that was put has left, or the link is over."""
        with self._changed:
            while (self._heap or self._is_sending) and self._thread.is_alive():
                self._changed.wait(FLUSH_S)

    def finish(self) -> None:
        """Send what is left, then end the link."""
        self.put(Message(header=Header(kind=Kind.BYE)), LAST)

    def join(self, seconds: float) -> bool:
        """Return whether the thread ends within so many seconds."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _live(self) -> None:
        target = self._wire.link[1]
        try:
            while self._send(self._next()):
                pass
        # torch's errors of connections are plain RuntimeErrors; Ctrl-C on another rank comes as
        # KeyboardInterrupt to whoever waits.
        except BaseException as error:
            self._ends.failed(target, error)

    def _next(self) -> Parcel | Message:
        with self._changed:
            self._is_sending = False
            self._changed.notify_all()
            while not self._heap:
                self._changed.wait()
            self._is_sending = True
            return heapq.heappop(self._heap)[2]

    # A method of its own, so that a thread at rest has no name left for a value.
    def _send(self, item: Parcel | Message) -> bool:
        """Send one thing; return whether more may follow."""
        if isinstance(item, Message):
            self._wire.send(item)
            return item.header.kind is not Kind.BYE
        ends, (source, target) = self._ends, self._wire.link
        started_s = time.perf_counter()
        messages = self._messages(item)
        for message in messages:
            self._wire.send(message, self._read_ahead)
        ends.record(
            RunEvent(
                kind="send",
                subject=ends.value_names[item.value],
                device=ends.names[source] if item.from_file is None else HOST,
                peer=ends.names[target],
                start_s=started_s,
                end_s=time.perf_counter(),
                request=item.request,
                size_bytes=sum(message.header.size_bytes for message in messages),
            )
        )
        return True

    def _read_ahead(self) -> None:
        """Read the beginning of what would be sent next, if that comes from a file."""
        if self._ahead is not None:
            return
        with self._changed:
            item = self._heap[0][2] if self._heap else None
        if isinstance(item, Parcel) and item.from_file is not None:
            self._ahead = item, begun(item.from_file())

    def _messages(self, item: Parcel) -> list[Message]:
        if item.from_file is not None:
            if self._ahead is None or self._ahead[0] is not item:
                return [item.from_file()]
            (_, message), self._ahead = self._ahead, None
            return [message]
        ends, held = self._ends, item.held
        if not (ends.device.is_cpu or (self._wire.is_direct and goes_directly(held))):
            held = copy_from(None)(held)
        return messages_of(held, value=item.value, request=item.request, session=ends.session())


class Receiver:
    """Takes what comes over one link, at once, so that it never keeps the sender waiting."""

    def __init__(
        self,
        wire: Wire,
        ends: Ends,
        *,
        deliver: Callable[[int, int, Held], None],
        order: Callable[[int, dict[str, Any]], None],
        asked: Callable[[int, int, int], None],
        room_for: Callable[[Header], tuple[Held, Buffer]],
    ) -> None:
        """Start the thread.

        Args:
            deliver: Is given request, number and value.
            order: Is given the rank and the content of an order.
            asked: Is given the rank, the request and the number of a weight that it has room for.
            room_for: Makes what a payload is received into, and the value that it is then.
        """
        self._wire = wire
        self._ends = ends
        self._deliver = deliver
        self._order = order
        self._asked = asked
        self._room_for = room_for
        self._thread = threading.Thread(
            target=self._live, name=f"dplace from {ends.names[wire.link[0]]}", daemon=True
        )
        self._thread.start()

    def join(self, seconds: float) -> bool:
        """Return whether the thread ends within so many seconds."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _live(self) -> None:
        source = self._wire.link[0]
        try:
            while self._receive(source):
                pass
        except BaseException as error:
            self._ends.failed(source, error)

    def _receive(self, source: int) -> bool:
        """Take one value or order; return whether more may follow."""
        ends, started_s = self._ends, 0.0

        def room(header: Header) -> tuple[Held, Any]:
            nonlocal started_s
            started_s = started_s or time.perf_counter()
            return self._room_for(header)

        message, room_made = self._wire.receive(room)
        header = message.header
        if header.kind is Kind.BYE:
            return False
        if header.kind is Kind.ORDER:
            self._order(source, order_of(message.payload))
            return True
        if header.kind is Kind.ASK:
            self._asked(source, header.request, header.value)
            return True
        size = header.size_bytes
        held = decode(header, room_made, message.payload)
        if header.kind is Kind.SEQUENCE:
            held = []
            for _ in range(header.shape[0]):
                element, made = self._wire.receive(room)
                size += element.header.size_bytes
                held.append(to_python(decode(element.header, made, element.payload)))
        ends.record(
            RunEvent(
                kind="receive",
                subject=ends.value_names[header.value],
                device=ends.names[self._wire.link[1]],
                peer=HOST if header.value in ends.from_host else ends.names[source],
                start_s=started_s,
                end_s=time.perf_counter(),
                request=header.request,
                size_bytes=size,
            )
        )
        self._deliver(header.request, header.value, held)
        return True
