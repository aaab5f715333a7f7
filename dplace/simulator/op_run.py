"""The state of a pass op by op, and its queues of ops by ready time."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dplace.simulator.bit_queue import BitQueues, make_bit_queues
from dplace.simulator.op_tables import OpTables
from dplace.simulator.tables import ARRIVAL, TRANSFER, Records

__all__ = ["OpRun", "make_op_run"]

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
SENDING = np.dtype([("key", np.int64), ("to", np.int32)], align=True)


class OpRun(NamedTuple):
    """One pass: its state while it lasts, then its result, until the next pass uses it."""

    ops: Records
    """OP_STATE, shape ``(num_ops,)``."""
    devices: Records
    """DEVICE_STATE, shape ``(num_devices,)``."""
    known: Records
    """Heaps of ARRIVAL of ``tables.py``, one a device: ops and their ready times."""
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
        known=np.zeros(num_ops * num, dtype=ARRIVAL),
        urgent=make_bit_queues(num, num_ops),
        channel_free=np.zeros(num * (num + 1)),
        arrival=np.zeros(max(1, most_values * num)),
        sending=np.zeros(most_sent, dtype=SENDING),
        transfers=np.zeros(num_edges, dtype=TRANSFER),
        totals=np.zeros(1, dtype=np.int64),
    )
