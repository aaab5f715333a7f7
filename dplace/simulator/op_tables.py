"""A Problem as the flat arrays that the op-by-op simulator reads, and the rules of its machines."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dplace.problem import Machine, Problem
from dplace.simulator.tables import (
    PLACETO_BUS_S,
    PLACETO_DEVICE_S,
    Records,
    Tables,
    machine_links,
)

__all__ = [
    "ALL_AT_ONCE",
    "PER_DEVICE",
    "PER_READER",
    "TWO_STEPS",
    "UNLIMITED",
    "OpTables",
    "tabulate_ops",
]

Int = NDArray[np.int32]
Float = NDArray[np.float64]

PER_DEVICE, PER_READER, ALL_AT_ONCE, UNLIMITED, TWO_STEPS = range(5)
"""How values are sent: once to each device, once for each reader, once for all devices, to each
reader without waiting for anything, or once to each device by a port of the sender and then one
of the receiver."""

OP = np.dtype([("outputs", np.int32), ("missing", np.int32)], align=True)
"""Offset into output_values; values made by ops that the op reads."""


class OpTables(NamedTuple):
    """Graph, costs, links and rules. Offsets have a last entry that ends the last row."""

    ops: Records
    """OP, shape ``(num_ops + 1,)``."""
    values: Records
    """VALUE of ``tables.py``, shape ``(num_values + 1,)``."""
    output_values: Int
    consumer_ops: Int
    seconds: Float
    """Shape ``(num_ops * num_devices,)``, by op."""
    pair_s: Float
    """Given times for each pair of devices, shape ``(num_values * num_devices**2,)``, or empty."""
    links: Records
    """LINK of ``tables.py``, shape ``(num_devices**2,)``, by source."""
    send: int
    is_urgent_first: bool
    """Whether devices go by priority; by ready time otherwise."""
    after_op_s: float
    after_send_s: float
    num_devices: int


def tabulate_ops(problem: Problem, machine: Machine, tables: Tables) -> OpTables:
    """Return the arrays and the rules of a machine that takes ops one by one.

    Args:
        problem: Graph, costs and cluster.
        machine: ``native``, ``placeto``, ``baechi``, ``moirai`` or ``independent``.
        tables: Of the same problem; arrays that hold the same here are shared, not copied.
    """
    graph, given = problem.graph, problem.transfer_s
    made = graph.value_producer[graph.input_values] >= 0
    readers = np.repeat(np.arange(graph.num_ops), np.diff(graph.input_offsets))
    ops = np.zeros(graph.num_ops + 1, dtype=OP)
    ops["outputs"] = graph.output_offsets
    ops["missing"][:-1] = np.bincount(readers[made], minlength=graph.num_ops)
    values, pair_s = tables.values, np.zeros(0)
    if given is not None:
        values = values.copy()
        values["transfer_s"][:-1] = given[:, 0, 0] if given.shape[1] == 1 else 0.0
        if given.shape[1] > 1:
            pair_s = np.array(given, dtype=np.float64, order="C").ravel()
    links = tables.links if machine == problem.machine else machine_links(problem, machine)
    sends = {
        "native": PER_DEVICE,
        "moirai": PER_READER,
        "placeto": ALL_AT_ONCE,
        "independent": UNLIMITED,
        "baechi": TWO_STEPS,
    }
    is_placeto = machine == "placeto"
    return OpTables(
        ops=ops,
        values=values,
        output_values=tables.output_values,
        consumer_ops=tables.consumer_ops,
        seconds=tables.seconds.ravel(),
        pair_s=pair_s,
        links=links.ravel(),
        send=sends[machine],
        is_urgent_first=machine in ("native", "moirai"),
        after_op_s=PLACETO_DEVICE_S if is_placeto else 0.0,
        after_send_s=PLACETO_BUS_S if is_placeto else 0.0,
        num_devices=problem.num_devices,
    )
