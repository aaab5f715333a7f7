"""Streamed weights between ranks: each target asks for what it has room for, and gets nothing else.

A target asks for its weights one after another, in the order of its receives, each as soon as there
is room: bytes that were asked for and not freed yet never exceed its buffers. A weight's room is
free again when the last part that reads it has run. What fits at the start of a request is not
asked for: its homes can tell as well, and send it at once. Homes answer in the order of priorities,
with all else that goes over the link.

The rank that a weight has its home with keeps it in the device's memory; those of the host are read
from their file when they are sent, piece by piece, by rank 0, which brings its own likewise.
"""

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, count
from queue import PriorityQueue
from typing import NamedTuple

import numpy as np

from dplace.plan.records import StreamedWeight
from dplace.runtime.buffers import Buffers, Piece
from dplace.runtime.ranks.message import PIECE_BYTES, Header, Kind, Message
from dplace.runtime.streams import Homes
from dplace.runtime.values import DTYPES

__all__ = ["Incoming", "LocalWeights", "Stream", "begun", "file_message", "fitting"]


class Stream(NamedTuple):
    """A weight on its way to a rank in a request."""

    value: int
    source: int
    """The rank that it comes from."""
    priority: int
    size_bytes: int


def fitting(streams: Sequence[Stream], room_bytes: int) -> int:
    """Return how many of a target's weights, from the first on, fit into its empty buffers.

    >>> streams = [Stream(value, 0, 0, size) for value, size in enumerate((40, 50, 30, 10))]
    >>> fitting(streams, 100)
    2
    """
    for number, stream in enumerate(streams):
        room_bytes -= stream.size_bytes
        if room_bytes < 0:
            return number
    return len(streams)


class Incoming:
    """The room for weights that are streamed to this rank."""

    def __init__(
        self,
        room_bytes: int,
        weights: Sequence[StreamedWeight],
        *,
        ask: Callable[[Stream, int], None],
        check: Callable[[], None],
    ) -> None:
        """Take the memory.

        Args:
            room_bytes: The buffers of the device.
            weights: All that are streamed to it.
            ask: Asks for a weight of a request.
            check: Raises when the run is over; ``wake`` has to be called then.
        """
        self.buffers = Buffers(room_bytes, [weight.size_bytes for weight in weights])
        self._ask = ask
        self._check = check
        self._changed = threading.Condition()
        self._pieces: dict[tuple[int, int], Piece] = {}
        """By number of the request and of the value."""
        self._request = 0
        self._coming: Sequence[Stream] = ()
        self._next = 0
        self._unasked = 0

    def begin(self, request: int, streams: Sequence[Stream], unasked: int) -> None:
        """Take room for a request's weights, as far as there is any.

        Args:
            request: Its number; the one before has ended.
            streams: In the order in which they come.
            unasked: How many of them come without being asked for.
        """
        with self._changed:
            self._request, self._coming = request, streams
            self._next, self._unasked = 0, unasked
        self._go_on()

    def memory(self, request: int, value: int, size_bytes: int) -> memoryview:
        """Return the memory that a weight goes to; any thread may call it.

        One that was not asked for may come before its request has begun here.
        """
        key = (request, value)
        with self._changed:
            while key not in self._pieces:
                self._check()
                piece = self.buffers.take(size_bytes)
                if piece is not None:
                    self._pieces[key] = piece
                else:
                    self._changed.wait()
            return self._pieces[key].memory

    def free(self, request: int, values: Sequence[int]) -> None:
        """Take back the room of weights that nobody reads any more, and ask for others."""
        with self._changed:
            for value in values:
                self.buffers.give_back(self._pieces.pop((request, value)))
            self._changed.notify_all()
        self._go_on()

    def wake(self) -> None:
        """Let whoever waits look whether the run is over."""
        with self._changed:
            self._changed.notify_all()

    def _go_on(self) -> None:
        """Take room for the next weights and ask for them."""
        asked: list[Stream] = []
        with self._changed:
            while self._next < len(self._coming):
                stream = self._coming[self._next]
                key = (self._request, stream.value)
                if key not in self._pieces:
                    piece = self.buffers.take(stream.size_bytes)
                    if piece is None:
                        break
                    self._pieces[key] = piece
                if self._next >= self._unasked:
                    asked.append(stream)
                self._next += 1
            request = self._request
        for stream in asked:
            self._ask(stream, request)


class LocalWeights:
    """Brings weights of the host to the device of rank 0, in the order of priorities."""

    def __init__(
        self, bring: Callable[[Stream, int], None], failed: Callable[[BaseException], None]
    ) -> None:
        """Start the thread.

        Args:
            bring: Brings a weight of a request.
            failed: Is told of an error.
        """
        self._bring = bring
        self._failed = failed
        self._tickets = count()
        self._queue: PriorityQueue[tuple[float, int, Stream | None, int]] = PriorityQueue()
        self._thread = threading.Thread(target=self._live, name="dplace weights", daemon=True)
        self._thread.start()

    def put(self, stream: Stream, request: int) -> None:
        """Have a weight brought, for which there is room."""
        self._queue.put((stream.priority, next(self._tickets), stream, request))

    def finish(self) -> None:
        """End the thread."""
        self._queue.put((math.inf, next(self._tickets), None, 0))

    def join(self, seconds: float) -> bool:
        """Return whether the thread ends within so many seconds."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _live(self) -> None:
        try:
            while True:
                _, _, stream, request = self._queue.get()
                if stream is None:
                    return
                self._bring(stream, request)
        except BaseException as error:
            self._failed(error)


def file_message(weight: StreamedWeight, value: int, request: int, homes: Homes) -> Message:
    """Return the message that carries a weight from its file."""
    header = Header(
        kind=Kind.TENSOR,
        value=value,
        request=request,
        element_type=DTYPES[weight.type[7:-1]][0],
        shape=weight.shape,
        size_bytes=weight.size_bytes,
    )
    if not header.is_inline:
        return Message(header=header, pieces=_pieces(weight, homes))
    payload = bytearray(weight.size_bytes)
    homes.read(weight, memoryview(payload))
    return Message(header=header, payload=payload)


def begun(message: Message) -> Message:
    """Return a message whose first piece, if it comes in pieces, has been read."""
    if message.pieces is None:
        return message
    return replace(message, pieces=chain([next(message.pieces)], message.pieces))


def _pieces(weight: StreamedWeight, homes: Homes) -> Iterator[memoryview]:
    for first in range(0, weight.size_bytes, PIECE_BYTES):
        # Not a bytearray, which would be filled with zeros before it is read into.
        piece = np.empty(min(PIECE_BYTES, weight.size_bytes - first), dtype=np.uint8).data
        homes.read(weight, piece, first)
        yield piece
        del piece  # its memory is that of the piece after the next
