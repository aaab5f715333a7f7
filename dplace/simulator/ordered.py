"""One pass that forms parts as ``online.py`` does, while transfers go by priority.

What differs is how values travel: ``queues.py`` has the rules. When a waiting transfer will arrive
is not known before it starts, for others may overtake it, so devices know of those on their way
only. A device that has decided to wait for one of these does not think again before it arrives:
so it never starts a part later than what it reads is there, and the parts alone, with the
priorities, give the same times (``replay.py``).

A streamed weight is on its home from the beginning, if that is a device.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dplace.simulator.compiled import inlined, kernel
from dplace.simulator.forming import admit_first, holds_back, outgoing, receive, start_part
from dplace.simulator.heap import pop_key, push_arrival
from dplace.simulator.queues import Queues, clear, enqueue, release, settle
from dplace.simulator.run import Run, arrive, reset, take_joined
from dplace.simulator.tables import Tables

__all__ = ["Streams", "simulate_ordered"]

Int = NDArray[np.int32]


class Streams(NamedTuple):
    """Where the values of a placement come from and go to, beside ``Queues``."""

    move_offsets: Int
    """Shape ``(num_values + 1,)``: moves of each value, in ascending order of their targets."""
    resident: Int
    """Streamed weights that ops on their home read."""
    resident_on: Int
    """The homes of those."""
    read_offsets: Int
    """Shape ``(num_ops + 1,)``."""
    read_moves: Int
    """Moves that bring the weights that each op reads, compressed by op."""
    hold_until: NDArray[np.float64]
    """Scratch of shape ``(num_devices,)``: when what a device waits for arrives."""


@inlined
def _take_residents(tables: Tables, run: Run, streams: Streams) -> None:
    """Note which streamed weights are on the devices that read them."""
    for slot in range(len(streams.resident)):
        index = streams.resident_on[slot]
        count = arrive(
            streams.resident[slot],
            index,
            0,
            tables.values,
            tables.consumer_ops,
            run.ops,
            tables.successor_ops,
            run.stack,
            run.joined,
        )
        take_joined(count, index, run.ops, run.devices, tables.seconds, run.closure, run.joined)


@inlined
def _copy_inputs(tables: Tables, run: Run, queues: Queues, streams: Streams) -> None:
    """Send the graph's inputs on their way, as ``copy_inputs`` does, and note it."""
    for slot in range(len(tables.host_values)):
        value = tables.host_values[slot]
        for move in range(streams.move_offsets[value], streams.move_offsets[value + 1]):
            record = queues.moves[move]
            device = run.devices[record["target"]]
            record["start"] = device["copied"]
            device["copied"] += record["seconds"]
            record["end"] = device["copied"]
            push_arrival(
                run.pending, device["pending"], device["pending_size"], record["end"], value
            )
            device["pending_size"] += 1


@inlined
def _finish_part(
    now: float, index: int, tables: Tables, run: Run, queues: Queues, streams: Streams
) -> None:
    """Queue what the part that has run on device ``index`` made, and free weights it has read."""
    parts, part_ops, ops = run.parts, run.part_ops, run.ops
    part = run.devices[index]["part"]
    for slot in range(parts[part]["ops"], parts[part + 1]["ops"]):
        release(part_ops[slot], streams.read_offsets, streams.read_moves, queues)
    queued = outgoing(now, index, tables, run)
    while queued > 0:
        key = pop_key(run.queue, 0, queued)
        queued -= 1
        value, target = key & 0xFFFFFFFF, ops[run.order[key >> 32]]["device"]
        move = streams.move_offsets[value]
        while queues.moves[move]["target"] != target:
            move += 1
        enqueue(move, queues)


@inlined
def _start_op(now: float, index: int, tables: Tables, run: Run) -> None:
    """Start the most urgent op of the closure of device ``index`` as a part of its own."""
    device = run.devices[index]
    first = pop_key(run.closure, device["closure"], device["closure_size"])
    device["closure_size"] -= 1
    op, part = run.order[first], run.totals[0]
    run.totals[0] += 1
    slot = run.parts[part]["ops"] if part > 0 else 0
    run.parts[part]["ops"] = slot
    end = now + (device["overhead"] + tables.seconds[op, index])
    mark = run.ops[op]
    mark["part"] = part
    mark["start"] = now + device["overhead"]
    mark["end"] = end
    run.part_ops[slot] = op
    run.parts[part]["device"] = index
    run.parts[part]["start"] = now
    run.parts[part]["end"] = end
    run.parts[part + 1]["ops"] = slot + 1
    device["part"] = part


@kernel
def simulate_ordered(
    tables: Tables,
    placement: Int,
    order: Int,
    cut_gain: float,
    patience: float,
    urgent_only: bool,
    slice_work: float,
    one_by_one: bool,
    run: Run,
    queues: Queues,
    streams: Streams,
) -> None:
    """Fill ``run`` and ``queues`` with what ``placement`` runs as: parts, moves and their times.

    ``run.transfers`` stays empty: moves are in ``queues``. Where not all ops have run, weights that
    wait for room and ops that read them wait for each other; the makespan is ``inf`` then.

    Args:
        tables: Graph and costs.
        placement: Shape ``(num_ops,)``: a device for each op.
        order: Shape ``(num_ops,)``: ops by priority, in a topological order.
        cut_gain: These four are as in ``online.simulate``.
        patience: See there.
        urgent_only: See there.
        slice_work: See there.
        one_by_one: Whether each op is a part of its own; the four do not count then.
        run: From ``make_run`` for the same tables.
        queues: Of the moves of ``placement``.
        streams: Of the same.
    """
    reset(tables, placement, order, run)
    clear(queues)
    admit_first(tables, run)
    _take_residents(tables, run, streams)
    _copy_inputs(tables, run, queues, streams)
    devices, parts, pending, hold_until = run.devices, run.parts, run.pending, streams.hold_until
    for index in range(len(devices)):
        hold_until[index] = 0.0
    now = 0.0
    while now < np.inf:
        for index in range(len(devices)):
            part = devices[index]["part"]
            if part >= 0 and parts[part]["end"] <= now:
                _finish_part(now, index, tables, run, queues, streams)
        settle(now, devices, pending, queues)
        soon = np.inf
        for index in range(len(devices)):
            device = devices[index]
            if device["part"] < 0:
                receive(now, index, tables, run)
                if device["closure_size"] > 0 and hold_until[index] <= now:
                    if one_by_one:
                        _start_op(now, index, tables, run)
                    elif holds_back(now, index, patience, tables, run):
                        hold_until[index] = pending[device["pending"]]["time"]
                    else:
                        start_part(now, index, cut_gain, urgent_only, slice_work, tables, run)
            if device["part"] >= 0:
                soon = min(soon, parts[device["part"]]["end"])
            elif device["pending_size"] > 0:
                soon = min(soon, pending[device["pending"]]["time"])
        if queues.totals[2] > 0:
            soon = min(soon, queues.flights[0]["time"])
        now = soon
    num_run = parts[run.totals[0]]["ops"] if run.totals[0] > 0 else 0
    if num_run < len(tables.seconds):
        run.makespan[0] = np.inf
