"""One pass that cuts a placement into parts and puts them on the clock.

A session call runs whole, so ops run in *parts*: a part's inputs must all be on the device before
it starts and its outputs appear together when it ends. Parts are formed while the clock runs,
out of what is known at that moment, so they cannot wait for each other in a circle.

When a device is free, its *closure* is every op whose inputs are on the device or come from other
ops of the closure. A part is a prefix of the closure in priority order, and ends early

- after an op whose value another device waits for,
- before an op, if a value that is known to arrive until then unlocks one of higher priority, or
- after work of ``slice_work`` calls, if an op of higher priority still waits for something,

if the closure still holds more work than ``cut_gain`` calls cost. A free device waits up to
``patience`` times the cost of a call for a value on its way that unlocks an op. Transfers are
queued when the part that makes their value ends, the most urgent first, and occupy their
channels in that order. Ties go to the lower index, so equal inputs give equal timelines.
"""

import numpy as np
from numpy.typing import NDArray

from dplace.simulator.compiled import inlined, kernel
from dplace.simulator.forming import (
    admit_first,
    copy_inputs,
    holds_back,
    outgoing,
    receive,
    start_part,
)
from dplace.simulator.heap import pop_key
from dplace.simulator.run import Run, reset, transfer
from dplace.simulator.tables import Tables

__all__ = ["simulate"]

Int = NDArray[np.int32]


@inlined
def _finish_part(now: float, index: int, tables: Tables, run: Run) -> None:
    """Send what the part that has run on device ``index`` made: to the host, to other devices."""
    queued = outgoing(now, index, tables, run)
    while queued > 0:
        key = pop_key(run.queue, 0, queued)
        queued -= 1
        value = key & 0xFFFFFFFF
        transfer(
            now,
            value,
            index,
            run.ops[run.order[key >> 32]]["device"],
            tables.values[value],
            tables.links,
            run.devices,
            run.channel_free,
            run.pending,
            run.transfers[run.totals[1]],
        )
        run.totals[1] += 1


@kernel
def simulate(
    tables: Tables,
    placement: Int,
    order: Int,
    cut_gain: float,
    patience: float,
    urgent_only: bool,
    slice_work: float,
    run: Run,
) -> None:
    """Fill ``run`` with what ``placement`` runs as: parts, transfers and their times.

    Args:
        tables: Graph and costs.
        placement: Shape ``(num_ops,)``: a device for each op.
        order: Shape ``(num_ops,)``: ops by priority, in a topological order.
        cut_gain: A part ends early only if that frees more work than so many calls cost.
        patience: How many calls' cost a free device waits for a value that is on its way.
        urgent_only: Whether a value is waited for only if an op that reads it elsewhere has a
            higher priority than the next op of the part.
        slice_work: After work of so many calls a part ends if an op of higher priority on its
            device still waits for something.
        run: From ``make_run`` for the same tables.
    """
    reset(tables, placement, order, run)
    admit_first(tables, run)
    copy_inputs(tables, run)
    devices, parts, pending = run.devices, run.parts, run.pending
    now = 0.0
    while now < np.inf:
        for index in range(len(devices)):
            part = devices[index]["part"]
            if part >= 0 and parts[part]["end"] <= now:
                _finish_part(now, index, tables, run)
        soon = np.inf
        for index in range(len(devices)):
            device = devices[index]
            if device["part"] < 0:
                receive(now, index, tables, run)
                if device["closure_size"] > 0 and not holds_back(now, index, patience, tables, run):
                    start_part(now, index, cut_gain, urgent_only, slice_work, tables, run)
            if device["part"] >= 0:
                soon = min(soon, parts[device["part"]]["end"])
            elif device["pending_size"] > 0:
                soon = min(soon, pending[device["pending"]]["time"])
        now = soon
