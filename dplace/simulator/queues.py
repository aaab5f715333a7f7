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
    waiting: Keys
    """Heaps of ``(priority << 32) + ready number``, one for each pair of devices."""
    waiting_base: Int
    """Shape ``(num_devices**2,)``, by source and target, as the next."""
    waiting_size: Int
    ready_moves: Int
    """Move of each ready number, weights not counted."""
    weights: Int
    """Moves of streamed weights by target, in the order in which they go."""
    weights_end: Int
    """Shape ``(num_devices,)``: where the row of each target ends."""
    weights_next: Int
    """Place in ``weights`` of the next one to go to each device."""
    is_coming: Int
    """1 for a device that a weight is on its way to."""
    left: Int
    """Shape ``(num_moves,)``: readers of each weight that have not ended."""
    room: Keys
    """Shape ``(num_devices,)``: bytes for streamed weights that are free on each device."""
    buffer_bytes: Keys
    """Shape ``(num_devices,)``: all of that room."""
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
    pairs = moves["source"].astype(np.int64) * num_devices + moves["target"]
    ends = np.cumsum(np.bincount(pairs[is_queued], minlength=num_devices**2))
    per_target = np.bincount(moves["target"][weights], minlength=num_devices)
    return Queues(
        moves=moves,
        links=links,
        channel_free=np.zeros(num_devices * (num_devices + 1)),
        waiting=np.zeros(num, dtype=np.int64),
        waiting_base=np.concatenate([[0], ends[:-1]]).astype(np.int32),
        waiting_size=np.zeros(num_devices**2, dtype=np.int32),
        ready_moves=np.zeros(num, dtype=np.int32),
        weights=np.array(weights, dtype=np.int32),
        weights_end=np.cumsum(per_target).astype(np.int32),
        weights_next=np.zeros(num_devices, dtype=np.int32),
        is_coming=np.zeros(num_devices, dtype=np.int32),
        left=np.zeros(num, dtype=np.int32),
        room=np.zeros(num_devices, dtype=np.int64),
        buffer_bytes=np.array(buffer_bytes, dtype=np.int64),
        flights=np.zeros(num, dtype=ARRIVAL),
        sent=np.zeros(num, dtype=np.int32),
        totals=np.zeros(4, dtype=np.int64),
    )


@inner
def clear(queues: Queues) -> None:
    """Set the state to that before anything has happened."""
    for channel in range(len(queues.channel_free)):
        queues.channel_free[channel] = 0.0
    for link in range(len(queues.waiting_size)):
        queues.waiting_size[link] = 0
    first = 0
    for device in range(len(queues.room)):
        queues.weights_next[device] = first
        first = queues.weights_end[device]
        queues.is_coming[device] = 0
        queues.room[device] = queues.buffer_bytes[device]
    for move in range(len(queues.left)):
        queues.left[move] = queues.moves[move]["readers"]
    queues.totals[0] = 0
    queues.totals[1] = 0
    queues.totals[2] = 0
    queues.totals[3] = 1


@inner
def enqueue(move: int, queues: Queues) -> None:
    """Let ``move``, whose value was just made, wait for its link."""
    record, number = queues.moves[move], queues.totals[0]
    queues.totals[0] += 1
    queues.totals[3] = 1
    queues.ready_moves[number] = move
    link = record["source"] * len(queues.room) + record["target"]
    # Weights are ready before all others: their numbers come first.
    key = (np.int64(record["priority"]) << 32) + len(queues.moves) + number
    push_key(queues.waiting, queues.waiting_base[link], queues.waiting_size[link], key)
    queues.waiting_size[link] += 1


@inner
def release(row: int, offsets: Int, items: Int, queues: Queues) -> None:
    """Note that a reader of the weights that ``items`` has in its row has ended."""
    for slot in range(offsets[row], offsets[row + 1]):
        move = items[slot]
        queues.left[move] -= 1
        if queues.left[move] == 0:
            record = queues.moves[move]
            queues.room[record["target"]] += record["bytes"]
            queues.totals[3] = 1


@inner
def _next_weight(target: int, queues: Queues) -> int:
    """Return the move of the weight that may start next to ``target``, or -1."""
    place = queues.weights_next[target]
    if place == queues.weights_end[target] or queues.is_coming[target] != 0:
        return -1
    move = queues.weights[place]
    return int(move) if queues.moves[move]["bytes"] <= queues.room[target] else -1


@inner
def _next_move(now: float, queues: Queues) -> int:
    """Return the move to start next, or -1 where none can; those from the host come first.

    A waiting one is taken out of its queue.
    """
    num = len(queues.room)
    best, best_link = -1, -1
    best_key = np.int64(2**63 - 1)
    for target in range(num):
        weight = _next_weight(target, queues)
        if weight >= 0 and queues.moves[weight]["source"] < 0:
            return weight
        for source in range(num):
            link = source * num + target
            is_weight = weight >= 0 and queues.moves[weight]["source"] == source
            if queues.waiting_size[link] == 0 and not is_weight:
                continue
            ends = queues.links[source, target]
            first, second = ends["channel_a"], ends["channel_b"]
            if first >= 0 and queues.channel_free[first] > now:
                continue
            if second >= 0 and queues.channel_free[second] > now:
                continue
            if queues.waiting_size[link] > 0:
                key = queues.waiting[queues.waiting_base[link]]
                if key < best_key:
                    best_key, best_link = key, link
            if is_weight:
                key = (np.int64(queues.moves[weight]["priority"]) << 32) + weight
                if key < best_key:
                    best_key, best, best_link = key, weight, -1
    if best_link >= 0:
        pop_key(queues.waiting, queues.waiting_base[best_link], queues.waiting_size[best_link])
        queues.waiting_size[best_link] -= 1
        best = queues.ready_moves[(best_key & 0xFFFFFFFF) - len(queues.moves)]
    return int(best)


@inner
def _start(now: float, move: int, devices: Records, pending: Records, queues: Queues) -> None:
    """Start a move and expect it at its target."""
    record = queues.moves[move]
    value, source, target = record["value"], record["source"], record["target"]
    device = devices[target]
    start = now if source >= 0 else max(now, device["copied"])
    end = start + record["seconds"]
    if source < 0:
        device["copied"] = end
    else:
        ends = queues.links[source, target]
        if ends["channel_a"] >= 0:
            queues.channel_free[ends["channel_a"]] = end
        if ends["channel_b"] >= 0:
            queues.channel_free[ends["channel_b"]] = end
    if record["readers"] > 0:
        queues.room[target] -= record["bytes"]
        queues.weights_next[target] += 1
        queues.is_coming[target] = 1
    record["start"] = start
    record["end"] = end
    queues.sent[queues.totals[1]] = move
    queues.totals[1] += 1
    push_arrival(queues.flights, 0, queues.totals[2], end, move)
    queues.totals[2] += 1
    push_arrival(pending, device["pending"], device["pending_size"], end, value)
    device["pending_size"] += 1


@inlined
def settle(now: float, devices: Records, pending: Records, queues: Queues) -> None:
    """Let all moves end whose time has come, and start all that can."""
    while True:
        while queues.totals[2] > 0 and queues.flights[0]["time"] <= now:
            move = pop_arrival(queues.flights, 0, queues.totals[2])
            queues.totals[2] -= 1
            queues.totals[3] = 1
            if queues.moves[move]["readers"] > 0:
                queues.is_coming[queues.moves[move]["target"]] = 0
        if queues.totals[3] == 0:
            break
        queues.totals[3] = 0
        while True:
            move = _next_move(now, queues)
            if move < 0:
                break
            _start(now, move, devices, pending, queues)
