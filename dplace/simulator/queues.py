"""Transfers that wait for their link by priority, and weights that wait for room, compiled.

A *move* is a transfer of a value to a device, from another device or from the host. Each link has
a queue. When its channels are free, of all moves that are ready there the one of smallest
(priority, ready number) starts, and holds the channels until it ends. Ready numbers count up as
moves become ready.

Streamed weights are ready at time 0. To each device they go one after another, in the order of
``weights``: the next one may start when the one before it has arrived and the device has room for
it. Before that it takes no part in its link's queue, so what else is ready there goes first. It
takes its room from the start of its move until the last that reads it on the device has ended.
From the host they go once the caller's inputs, which are copied first, are on the device.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dplace.simulator.compiled import inlined, inner
from dplace.simulator.heap import pop_arrival, pop_key, push_arrival, push_key
from dplace.simulator.tables import ARRIVAL, Records

__all__ = ["HOST", "MOVE", "Queues", "clear", "enqueue", "make_queues", "release", "settle"]

Int = NDArray[np.int32]
Keys = NDArray[np.int64]

HOST = -1
"""The source of what comes from the host."""

MOVE = np.dtype(
    [
        ("seconds", np.float64),  # on its link or its copy from the host
        ("start", np.float64),
        ("end", np.float64),
        ("bytes", np.int64),
        ("value", np.int32),
        ("source", np.int32),
        ("target", np.int32),
        ("priority", np.int32),
        ("readers", np.int32),  # of a weight: ops or parts on the target that read it
        ("left", np.int32),  # those of them that have not ended
    ],
    align=True,
)
LINE = np.dtype([("waiting", np.int32), ("size", np.int32)], align=True)
"""The queue of a pair of devices: the base of its heap, and how many wait in it."""
BUFFER = np.dtype(
    [
        ("bytes", np.int64),
        ("room", np.int64),  # what of that is free
        ("next", np.int32),  # place in ``weights`` of the next one to go there
        ("end", np.int32),  # where the row of the device ends there
        ("is_coming", np.int32),  # whether one is on its way
    ],
    align=True,
)


class Queues(NamedTuple):
    """The moves of a placement, and how far they have come in one pass."""

    moves: Records
    """MOVE, shape ``(num_moves,)``."""
    links: Records
    """LINK, shape ``(num_devices, num_devices)``, for the channels."""
    channel_free: NDArray[np.float64]
    lines: Records
    """LINE, shape ``(num_devices, num_devices)``, from row to column."""
    waiting: Keys
    """Heaps of ``(priority << 32) + ready number``, one for each pair of devices."""
    ready_moves: Int
    """Move of each ready number, weights not counted."""
    weights: Int
    """Moves of streamed weights by target, in the order in which they go."""
    buffers: Records
    """BUFFER, shape ``(num_devices,)``."""
    flights: Records
    """A heap of ARRIVAL: moves on their way, by their end."""
    sent: Int
    """Moves in the order in which they started."""
    totals: Keys
    """Shape ``(4,)``: moves that became ready, that started, that are on their way; and 1 where
    something has changed since it was last looked at what can start."""


def make_queues(
    moves: Records, weights: Int, links: Records, buffer_bytes: NDArray[np.int64]
) -> Queues:
    """Return queues for a pass; ``clear`` makes them ready for another one.

    Args:
        moves: MOVE; those of values that are made, of weights, and of the caller's inputs.
        weights: Of ``moves``, those of streamed weights, by target and in the order to go.
        links: LINK, shape ``(num_devices, num_devices)``.
        buffer_bytes: Shape ``(num_devices,)``: room for streamed weights.
    """
    num, num_devices = len(moves), len(links)
    is_queued = moves["source"] != HOST
    is_queued[weights] = False
    lines = np.zeros((num_devices, num_devices), dtype=LINE)
    counts = np.zeros((num_devices, num_devices), dtype=np.int32)
    np.add.at(counts, (moves["source"][is_queued], moves["target"][is_queued]), 1)
    lines["waiting"] = (np.cumsum(counts) - counts.ravel()).reshape(counts.shape)
    buffers = np.zeros(num_devices, dtype=BUFFER)
    buffers["bytes"] = buffer_bytes
    buffers["end"] = np.cumsum(np.bincount(moves["target"][weights], minlength=num_devices))
    return Queues(
        moves=moves,
        links=links,
        channel_free=np.zeros(num_devices * (num_devices + 1)),
        lines=lines,
        waiting=np.zeros(num, dtype=np.int64),
        ready_moves=np.zeros(num, dtype=np.int32),
        weights=np.array(weights, dtype=np.int32),
        buffers=buffers,
        flights=np.zeros(num, dtype=ARRIVAL),
        sent=np.zeros(num, dtype=np.int32),
        totals=np.zeros(4, dtype=np.int64),
    )


@inlined
def clear(queues: Queues) -> None:
    """Set the state to that before anything has happened."""
    for channel in range(len(queues.channel_free)):
        queues.channel_free[channel] = 0.0
    first = 0
    num = len(queues.buffers)
    for index in range(num):
        buffer = queues.buffers[index]
        buffer["room"] = buffer["bytes"]
        buffer["next"] = first
        buffer["is_coming"] = 0
        first = buffer["end"]
        for target in range(num):
            queues.lines[index, target]["size"] = 0
    for index in range(len(queues.moves)):
        move = queues.moves[index]
        move["left"] = move["readers"]
    queues.totals[0] = 0
    queues.totals[1] = 0
    queues.totals[2] = 0
    queues.totals[3] = 1


@inlined
def enqueue(index: int, queues: Queues) -> None:
    """Let a move, whose value was just made, wait for its link."""
    move, number = queues.moves[index], queues.totals[0]
    queues.totals[0] += 1
    queues.totals[3] = 1
    queues.ready_moves[number] = index
    line = queues.lines[move["source"], move["target"]]
    # Weights are ready before all others: their numbers come first.
    key = (np.int64(move["priority"]) << 32) + len(queues.moves) + number
    push_key(queues.waiting, line["waiting"], line["size"], key)
    line["size"] += 1


@inlined
def release(row: int, offsets: Int, items: Int, queues: Queues) -> None:
    """Note that a reader of the weights that ``items`` has in its row has ended."""
    for slot in range(offsets[row], offsets[row + 1]):
        move = queues.moves[items[slot]]
        move["left"] -= 1
        if move["left"] == 0:
            queues.buffers[move["target"]]["room"] += move["bytes"]
            queues.totals[3] = 1


@inlined
def _next_weight(target: int, queues: Queues) -> int:
    """Return the move of the weight that may start next to ``target``, or -1."""
    buffer = queues.buffers[target]
    if buffer["next"] == buffer["end"] or buffer["is_coming"] != 0:
        return -1
    index = queues.weights[buffer["next"]]
    return index if queues.moves[index]["bytes"] <= buffer["room"] else -1


@inner
def _next_move(now: float, queues: Queues) -> int:
    """Return the move to start next, or -1 where none can; those from the host come first.

    A waiting one is taken out of its queue.
    """
    num = len(queues.buffers)
    best, best_source, best_target = -1, -1, -1
    best_key = np.int64(2**63 - 1)
    for target in range(num):
        weight = _next_weight(target, queues)
        home = -2
        if weight >= 0:
            home = queues.moves[weight]["source"]
        if home == -1:
            return int(weight)
        for source in range(num):
            line = queues.lines[source, target]
            if line["size"] == 0 and home != source:
                continue
            link = queues.links[source, target]
            first, second = link["channel_a"], link["channel_b"]
            if first >= 0 and queues.channel_free[first] > now:
                continue
            if second >= 0 and queues.channel_free[second] > now:
                continue
            if line["size"] > 0:
                key = queues.waiting[line["waiting"]]
                if key < best_key:
                    best_key, best_source, best_target = key, source, target
            if home == source:
                key = (np.int64(queues.moves[weight]["priority"]) << 32) + weight
                if key < best_key:
                    best_key, best_source, best = key, -1, weight
    if best_source >= 0:
        line = queues.lines[best_source, best_target]
        pop_key(queues.waiting, line["waiting"], line["size"])
        line["size"] -= 1
        best = queues.ready_moves[(best_key & 0xFFFFFFFF) - len(queues.moves)]
    return int(best)


@inlined
def _start(now: float, index: int, devices: Records, pending: Records, queues: Queues) -> None:
    """Start a move and expect it at its target."""
    move = queues.moves[index]
    source, target = move["source"], move["target"]
    device = devices[target]
    start = now
    if source < 0:
        start = max(now, device["copied"])
    end = start + move["seconds"]
    if source < 0:
        device["copied"] = end
    else:
        link = queues.links[source, target]
        if link["channel_a"] >= 0:
            queues.channel_free[link["channel_a"]] = end
        if link["channel_b"] >= 0:
            queues.channel_free[link["channel_b"]] = end
    if move["readers"] > 0:
        buffer = queues.buffers[target]
        buffer["room"] -= move["bytes"]
        buffer["next"] += 1
        buffer["is_coming"] = 1
    move["start"] = start
    move["end"] = end
    queues.sent[queues.totals[1]] = index
    queues.totals[1] += 1
    push_arrival(queues.flights, 0, queues.totals[2], end, index)
    queues.totals[2] += 1
    push_arrival(pending, device["pending"], device["pending_size"], end, move["value"])
    device["pending_size"] += 1


@inlined
def settle(now: float, devices: Records, pending: Records, queues: Queues) -> None:
    """Let all moves end whose time has come, and start all that can."""
    while True:
        while queues.totals[2] > 0 and queues.flights[0]["time"] <= now:
            move = queues.moves[pop_arrival(queues.flights, 0, queues.totals[2])]
            queues.totals[2] -= 1
            queues.totals[3] = 1
            if move["readers"] > 0:
                queues.buffers[move["target"]]["is_coming"] = 0
        if queues.totals[3] == 0:
            break
        queues.totals[3] = 0
        while True:
            index = _next_move(now, queues)
            if index < 0:
                break
            _start(now, index, devices, pending, queues)
