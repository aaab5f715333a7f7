"""Latency of dnn-partitioning: all ops of an accelerator are one block, which runs whole.

Tarnawski et al., "Efficient algorithms for device placement of DNN graph operators", NeurIPS 2020,
problem of single-sample latency with one subgraph a device. docs/machine-models.md has the rules.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dplace.problem import Problem
from dplace.simulator.compiled import kernel
from dplace.simulator.loads import host_times
from dplace.simulator.op_tables import OpTables, tabulate_ops
from dplace.simulator.tables import Records, Tables

__all__ = ["BlockSearch", "make_block_search", "simulate_blocks"]

Int = NDArray[np.int32]
Float = NDArray[np.float64]

BLOCK = np.dtype(
    [
        ("ready", np.float64),  # when everything that it reads from outside is there
        ("length", np.float64),
        ("missing", np.int32),  # values read from outside that are not there yet
        ("num_ops", np.int32),
        ("seen", np.int32),  # scratch: the value that was counted last as read
    ],
    align=True,
)


class BlockSearch(NamedTuple):
    """Graph, costs and the state of a pass. A block for each device, then one for each op."""

    op_tables: OpTables
    is_host: NDArray[np.bool_]
    host_s: Float
    """Shape ``(num_values * num_devices,)``."""
    blocks: Records
    """BLOCK, shape ``(num_devices + num_ops,)``."""
    block_of: Int
    """Shape ``(num_ops,)``."""
    offsets: Int
    members: Int
    """Ops of each device's block; compressed by device."""
    stack: Int
    end: Float
    """Shape ``(num_ops,)``: when each op's values are there; ``inf`` where that is never."""


def make_block_search(problem: Problem, tables: Tables) -> BlockSearch:
    """Return the arrays of a problem; those of ``tables`` are shared."""
    num_ops, num = problem.num_ops, problem.num_devices
    return BlockSearch(
        op_tables=tabulate_ops(problem, "independent", tables),
        is_host=problem.is_host,
        host_s=host_times(problem).ravel(),
        blocks=np.zeros(num + num_ops, dtype=BLOCK),
        block_of=np.zeros(num_ops, dtype=np.int32),
        offsets=np.zeros(num + 2, dtype=np.int32),
        members=np.zeros(num_ops, dtype=np.int32),
        stack=np.zeros(num + num_ops, dtype=np.int32),
        end=np.zeros(num_ops),
    )


@kernel
def simulate_blocks(search: BlockSearch, placement: Int) -> float:
    """Run a placement and return its makespan, ``inf`` where blocks wait in a circle."""
    tables, blocks, block_of = search.op_tables, search.blocks, search.block_of
    offsets, members, stack = search.offsets, search.members, search.stack
    num_ops, num = len(placement), tables.num_devices
    for device in range(num + 2):
        offsets[device] = 0
    for index in range(num + num_ops):
        block = blocks[index]
        block["ready"] = 0.0
        block["length"] = 0.0
        block["missing"] = 0
        block["num_ops"] = 0
        block["seen"] = -1
    for op in range(num_ops):
        device = placement[op]
        index = num + op if search.is_host[device] else device
        block_of[op] = index
        blocks[index]["num_ops"] += 1
        blocks[index]["length"] += tables.seconds[op * num + device]
        search.end[op] = np.inf
        if index == device:
            offsets[device + 2] += 1
    for device in range(num):
        offsets[device + 2] += offsets[device + 1]
    for op in range(num_ops):
        if block_of[op] < num:
            members[offsets[block_of[op] + 1]] = op
            offsets[block_of[op] + 1] += 1
    for op in range(num_ops):
        source = block_of[op]
        for slot in range(tables.ops[op]["outputs"], tables.ops[op + 1]["outputs"]):
            value = tables.output_values[slot]
            is_away = False
            first, last = tables.values[value]["consumers"], tables.values[value + 1]["consumers"]
            for edge in range(first, last):
                target = block_of[tables.consumer_ops[edge]]
                if target == source:
                    continue
                is_away = True
                if blocks[target]["seen"] != value:
                    blocks[target]["seen"] = value
                    blocks[target]["missing"] += 1
                    if target < num:
                        blocks[target]["length"] += search.host_s[value * num + target]
            if is_away and source < num:
                blocks[source]["length"] += search.host_s[value * num + source]
    depth = 0
    for index in range(num + num_ops):
        blocks[index]["seen"] = -1
        if blocks[index]["num_ops"] > 0 and blocks[index]["missing"] == 0:
            stack[depth] = index
            depth += 1
    ran = 0
    makespan = 0.0
    while depth > 0:
        depth -= 1
        index = stack[depth]
        end = blocks[index]["ready"] + blocks[index]["length"]
        makespan = max(makespan, end)
        if index < num:
            begin, stop = offsets[index], offsets[index + 1]
        else:
            begin, stop = 0, 1
        for at in range(begin, stop):
            op = members[at] if index < num else index - num
            search.end[op] = end
            ran += 1
            for slot in range(tables.ops[op]["outputs"], tables.ops[op + 1]["outputs"]):
                value = tables.output_values[slot]
                first = tables.values[value]["consumers"]
                for edge in range(first, tables.values[value + 1]["consumers"]):
                    other = block_of[tables.consumer_ops[edge]]
                    if other == index or blocks[other]["seen"] == value:
                        continue
                    blocks[other]["seen"] = value
                    blocks[other]["ready"] = max(blocks[other]["ready"], end)
                    blocks[other]["missing"] -= 1
                    if blocks[other]["missing"] == 0:
                        stack[depth] = other
                        depth += 1
    return makespan if ran == num_ops else np.inf
