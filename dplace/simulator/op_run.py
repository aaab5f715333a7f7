"""The state of a pass op by op, and its queues of ops by ready time."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dplace.simulator.bit_queue import BitQueues, make_bit_queues
from dplace.simulator.compiled import merged
from dplace.simulator.op_tables import OpTables
from dplace.simulator.tables import TRANSFER, Records

__all__ = ["OpRun", "make_op_run", "pop_known", "push_known"]

Float = NDArray[np.float64]
Keys = NDArray[np.int64]

OP_STATE = np.dtype(
    [
        ("ready", np.float64),
        ("start", np.float64),
        ("end", np.float64),
        ("missing", np.int32),
        ("device", np.int32),
        ("position", np.int32),
    ],
    align=True,
)
DEVICE_STATE = np.dtype(
    [
        ("event", np.float64),  # when its next event is
        ("free", np.float64),  # when it can take an op
        ("running", np.int32),  # the op that runs, or -1
        ("num_known", np.int32),
        ("num_urgent", np.int32),
        ("urgency", np.int32),  # scratch: the most urgent reader here of a value
    ],
    align=True,
)
KNOWN = np.dtype([("ready", np.float64), ("op", np.int32)], align=True)
SENDING = np.dtype([("key", np.int64), ("to", np.int32)], align=True)


class OpRun(NamedTuple):
    """One pass: its state while it lasts, then its result, until the next pass uses it."""

    ops: Records
    """OP_STATE, shape ``(num_ops,)``."""
    devices: Records
    """DEVICE_STATE, shape ``(num_devices,)``."""
    known: Records
    """Heaps of KNOWN, one a device: ops that go by ready time, or are not ready yet."""
    urgent: BitQueues
    """A queue a device of ops that are ready, by position in the order of priority."""
    channel_free: Float
    arrival: Float
    """Scratch: when each value of an op arrives at each device."""
    sending: Records
    """Scratch: SENDING, what an op sends, sorted."""
    transfers: Records
    """TRANSFER of ``tables.py``, the first ``totals[0]`` in use."""
    totals: Keys


def make_op_run(tables: OpTables) -> OpRun:
    """Return room for a pass; ``simulate_ops`` can fill it again and again."""
    num_ops, num = len(tables.ops) - 1, tables.num_devices
    num_edges = len(tables.consumer_ops)
    fan_out = np.diff(tables.values["consumers"])[tables.output_values]
    reach = np.concatenate([[0], np.cumsum(fan_out)])[tables.ops["outputs"]]
    most_values = int(np.diff(tables.ops["outputs"]).max(initial=0))
    most_sent = max(1, int(np.diff(reach).max(initial=0)))
    return OpRun(
        ops=np.zeros(num_ops, dtype=OP_STATE),
        devices=np.zeros(num, dtype=DEVICE_STATE),
        known=np.zeros(num_ops * num, dtype=KNOWN),
        urgent=make_bit_queues(num, num_ops),
        channel_free=np.zeros(num * (num + 1)),
        arrival=np.zeros(max(1, most_values * num)),
        sending=np.zeros(most_sent, dtype=SENDING),
        transfers=np.zeros(num_edges, dtype=TRANSFER),
        totals=np.zeros(1, dtype=np.int64),
    )


@merged
def push_known(known: Records, base: int, size: int, ready_s: float, op: int) -> None:
    """Add an op to a heap, the earliest first, then the lower index."""
    child = size
    while child > 0:
        parent = (child - 1) >> 1
        above = known[base + parent]
        if above["ready"] < ready_s or (above["ready"] == ready_s and above["op"] < op):
            break
        known[base + child]["ready"] = above["ready"]
        known[base + child]["op"] = above["op"]
        child = parent
    known[base + child]["ready"] = ready_s
    known[base + child]["op"] = op


@merged
def pop_known(known: Records, base: int, size: int) -> int:
    """Remove the first op of a heap and return it."""
    top = known[base]["op"]
    last = size - 1
    ready_s = known[base + last]["ready"]
    op = known[base + last]["op"]
    parent = 0
    while True:
        child = 2 * parent + 1
        if child >= last:
            break
        below = known[base + child]
        if child + 1 < last:
            right = known[base + child + 1]
            if right["ready"] < below["ready"] or (
                right["ready"] == below["ready"] and right["op"] < below["op"]
            ):
                child += 1
                below = right
        if ready_s < below["ready"] or (ready_s == below["ready"] and op < below["op"]):
            break
        known[base + parent]["ready"] = below["ready"]
        known[base + parent]["op"] = below["op"]
        parent = child
    known[base + parent]["ready"] = ready_s
    known[base + parent]["op"] = op
    return int(top)
