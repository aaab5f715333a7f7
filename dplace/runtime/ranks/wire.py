"""One direction between two ranks, in ``torch.distributed``.

Each has a process group of its own, so a connection and a thread of gloo's: its two ends are used
by one thread each, and a large value that goes one way does not wait for one that comes. gloo takes
sends and receives of one group from several threads as well and keeps them apart by tags, but then
they share one connection and the one thread that reads from it.

Payloads are cut into pieces, all handed over at once, so it costs nothing, and a link that has
stopped in the middle of a large value is told from one that is slow.

Between two CUDA devices, headers go by gloo and payloads by nccl. Not run so far: no GPU was at
hand.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.distributed_c10d import Store

from dplace.runtime.ranks.launch import Launch
from dplace.runtime.ranks.message import (
    HEADER_BYTES,
    INLINE,
    PIECE_BYTES,
    Buffer,
    Header,
    Kind,
    Message,
)
from dplace.runtime.ranks.watch import Link

__all__ = ["Wire", "join_ranks", "leave_ranks", "make_wires"]

FOREVER = timedelta(days=365)
"""Who is lost is found by the watch; a limit of gloo's would break links that are at rest."""

GLOO, BOTH = "gloo", "cpu:gloo,cuda:nccl"


class Wire:
    """One end of a link; one thread may use it."""

    def __init__(
        self,
        link: Link,
        group: dist.ProcessGroup,
        pieces: dict[Link, int],
        *,
        is_direct: bool = False,
    ) -> None:
        """Take an end.

        Args:
            link: Source and target rank.
            group: Of these two alone, for this direction alone.
            pieces: Where to count what the link was given or has delivered.
            is_direct: Whether payloads may go from one GPU's memory into another's.
        """
        self.link = link
        self.is_direct = is_direct
        self._group = group
        self._pieces = pieces
        self._pieces[link] = 0
        self._header = bytearray(HEADER_BYTES)
        self._coming: list[dist.Work] = []
        """The receive of the next header, where it has been posted already."""

    def send(self, message: Message, meanwhile: Callable[[], None] = lambda: None) -> None:
        """Send a message; return when its memory may be written to again.

        Args:
            message: What to send.
            meanwhile: Done while the last of a message that is made in pieces is on its way.

        Raises:
            RuntimeError: The connection broke.
        """
        header = message.header
        header.pack(self._header)
        tensors = [_tensor(self._header)]
        if header.shape_bytes:
            tensors.append(_tensor(header.pack_shape()))
        if message.pieces is not None:
            self._give(tensors)
            self._send_pieces(message.pieces, meanwhile)
            return
        if header.is_inline:
            self._header[INLINE.start : INLINE.start + header.size_bytes] = message.payload
        else:
            tensors += torch.split(_tensor(message.payload), PIECE_BYTES)
        self._give(tensors)
        _settle(message.payload)

    def _send_pieces(self, pieces: Iterator[Buffer], meanwhile: Callable[[], None]) -> None:
        """Send pieces while the next one is made; no more than two are in memory."""
        before: dist.Work | None = None
        for piece in pieces:
            self._pieces[self.link] += 1
            work = dist.isend(_tensor(piece), self.link[1], group=self._group)
            if before is not None:
                _wait(before)
            before = work
            del piece  # its memory serves the one after the next
        meanwhile()
        if before is not None:
            _wait(before)

    def _give(self, tensors: Sequence[Tensor]) -> None:
        self._pieces[self.link] += len(tensors)
        works = [dist.isend(tensor, self.link[1], group=self._group) for tensor in tensors]
        for work in works:
            _wait(work)

    def receive(
        self, room_for: Callable[[Header], tuple[object, Buffer]]
    ) -> tuple[Message, object]:
        """Return the next message, and the value that was made to receive it into.

        Args:
            room_for: Makes the room, which nothing else may be in.

        Raises:
            RuntimeError: The connection broke.
        """
        self._take(self._coming or self._post([_tensor(self._header)]))
        header = Header.unpack(self._header)
        if header.shape_bytes:
            shape = bytearray(header.shape_bytes)
            self._take(self._post([_tensor(shape)]))
            header = header.with_shape(shape)
        value, payload = room_for(header)
        works: list[dist.Work] = []
        if not header.is_inline:
            works = self._post(torch.split(_tensor(payload), PIECE_BYTES))
        elif header.size_bytes:
            first = INLINE.start
            memoryview(payload).cast("B")[:] = self._header[first : first + header.size_bytes]
        # gloo sends nothing before it knows that it is waited for: the next header need not ask.
        is_last = header.kind is Kind.BYE
        self._coming = [] if is_last else self._post([_tensor(self._header)])
        self._take(works)
        _settle(payload)
        return Message(header=header, payload=payload), value

    def _post(self, tensors: Sequence[Tensor]) -> list[dist.Work]:
        """Ask for what comes next."""
        works = [dist.irecv(tensor, self.link[0], group=self._group) for tensor in tensors]
        return [work for work in works if work is not None]  # None only outside of the group

    def _take(self, works: Sequence[dist.Work]) -> None:
        """Wait for what was asked for."""
        for work in works:
            work.wait(FOREVER)
            self._pieces[self.link] += 1


def join_ranks(launch: Launch, store: Store, timeout_s: float, *, with_nccl: bool) -> bool:
    """Connect all ranks; return whether that is for ``leave_ranks`` to undo.

    Raises:
        RuntimeError: A rank cannot be reached.
    """
    if dist.is_initialized():
        return False  # by the program that this is a part of
    dist.init_process_group(
        BOTH if with_nccl else GLOO,
        store=store,
        rank=launch.rank,
        world_size=launch.size,
        timeout=timedelta(seconds=timeout_s),
    )
    return True


def make_wires(
    links: Sequence[Link],
    rank: int,
    timeout_s: float,
    *,
    direct: Collection[Link],
    given: dict[Link, int],
    delivered: dict[Link, int],
) -> Mapping[Link, Wire]:
    """Return this rank's ends of links.

    Args:
        links: In all ranks the same, in the same order.
        direct: Those that go from one GPU's memory into another's.
        given: Where wires out of this rank count.
        delivered: Where wires into this rank count.
    """
    wires: dict[Link, Wire] = {}
    for link in links:
        group = dist.new_group(
            list(link),
            timeout=timedelta(seconds=timeout_s),
            backend=BOTH if link in direct else GLOO,
        )
        if rank in link:
            pieces = given if rank == link[0] else delivered
            wires[link] = Wire(link, group, pieces, is_direct=link in direct)
    return wires


def leave_ranks() -> None:
    """Undo ``join_ranks``; no thread may be using a wire any more."""
    dist.destroy_process_group()


def _tensor(buffer: Buffer) -> Tensor:
    """Return bytes as torch sees them, without a copy."""
    if isinstance(buffer, Tensor):
        return buffer
    return torch.frombuffer(buffer, dtype=torch.uint8)


def _wait(work: dist.Work | None) -> None:
    assert work is not None  # only a rank outside of the group gets None
    work.wait(FOREVER)


def _settle(payload: Buffer) -> None:
    """Wait for a GPU, whose work torch only queues."""
    if isinstance(payload, Tensor) and payload.is_cuda:
        torch.cuda.synchronize(payload.device)
