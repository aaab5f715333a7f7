"""What messages cost on the links between two ranks, by size, as a plan's values will find them.

A message is more than its bytes: a header goes first, the target makes room and asks for the rest,
and gloo's threads hand over to ours. On a fast network that is most of a small value's time, so
what a plain connection carries would promise too much.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence

import numpy as np

from dplace.runtime.ranks.cores import yield_to_others
from dplace.runtime.ranks.gathering import Gathering
from dplace.runtime.ranks.message import Buffer, Header, Kind, Message
from dplace.runtime.ranks.watch import Link
from dplace.runtime.ranks.wire import Wire, join_ranks, leave_ranks, make_wires

__all__ = ["SIZES", "message_times"]

SIZES = tuple(4**exponent for exponent in range(7, 13))
"""Bytes of a message: 16 kB to 16 MB, each four times the one before it."""
SECONDS = 0.4
"""That the messages of one size take together, about."""
MIN_COUNT, MAX_COUNT = 3, 40
LONGEST_S = 2.0
"""Larger messages than take so long are left out."""
FLOAT = 1
DONE = "message-times/done"
LINKS: tuple[Link, Link] = ((1, 0), (0, 1))


def message_times(gathering: Gathering) -> dict[Link, list[tuple[int, float]]]:
    """Return of each direction the sizes in bytes, and the seconds of one message among others.

    Both ranks call it, through ``Gathering.do``; each gets the times of both directions, and the
    watch is closed.

    Args:
        gathering: Of two ranks.

    Raises:
        RuntimeError: The connection broke.
    """
    rank, watch, store = gathering.launch.rank, gathering.watch, gathering.store
    yield_to_others()
    has_joined = join_ranks(gathering.launch, store.store, gathering.timeout_s, with_nccl=False)
    wires = make_wires(
        LINKS,
        rank,
        gathering.timeout_s,
        direct=(),
        given=watch.given,
        delivered=watch.delivered,
    )
    for link in LINKS:  # one direction after the other
        if rank == link[0]:
            _send(wires[link])
        else:
            store.set(_key(link), json.dumps(_receive(wires[link])))
    for link in LINKS:
        store.wait([_key(link)], gathering.timeout_s)
    found = {link: _read(store.get(_key(link))) for link in LINKS}
    if has_joined:
        leave_ranks()
    # The store goes with rank 0, which therefore is the last to leave.
    if rank == 0:
        store.wait([DONE], gathering.timeout_s)
    watch.close()
    if rank == 1:
        store.set(DONE, "")
    return found


def _read(text: bytes) -> list[tuple[int, float]]:
    return [(int(size), float(seconds)) for size, seconds in json.loads(text)]


def _key(link: Link) -> str:
    return f"message-times/{link[0]}"


def _send(wire: Wire) -> None:
    """Send messages of one size after another, for as long as they do not take too long."""
    for size in SIZES:
        payload = np.ones(size, dtype=np.uint8).data
        begun_s = time.perf_counter()
        count, is_last = 0, False
        while not is_last:
            count += 1
            spent_s = time.perf_counter() - begun_s
            is_last = count > MIN_COUNT and (spent_s > SECONDS or count > MAX_COUNT)
            header = Header(
                kind=Kind.TENSOR,
                request=int(is_last),
                element_type=FLOAT,
                shape=(size // 4,),
                size_bytes=size,
            )
            wire.send(Message(header=header, payload=payload))
        each_s = (time.perf_counter() - begun_s) / count
        if size == SIZES[-1] or each_s * SIZES[1] / SIZES[0] > LONGEST_S:
            break
    wire.send(Message(header=Header(kind=Kind.BYE)))


def _receive(wire: Wire) -> Sequence[tuple[int, float]]:
    """Return size and seconds of a message of each size that comes."""
    return list(_received(wire))


def _received(wire: Wire) -> Iterator[tuple[int, float]]:
    def room_for(header: Header) -> tuple[None, Buffer]:
        return None, np.empty(header.size_bytes, dtype=np.uint8).data

    times: list[float] = []
    while (message := wire.receive(room_for)[0]).header.kind is not Kind.BYE:
        times.append(time.perf_counter())
        if message.header.request:
            # The first says when it all began; those after it leave one behind the other.
            yield message.header.size_bytes, (times[-1] - times[0]) / (len(times) - 1)
            times = []
