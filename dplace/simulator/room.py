"""Whether streamed weights fit in the room for them, in which order they may go, and what if not.

Weights go to a device one after another, so an order that brings first what is read last fills the
room with what nobody can use yet. In the order of their first readers in a topological order of
the ops that never happens, as long as at each op the weights that it or later ops read, and that
it or earlier ops have read, fit: take the first op in that order that has not run. All ops before
it have; so of the weights before its own only such are left, and its own find room.
"""

import numpy as np
from numpy.typing import NDArray

from dplace.errors import MemoryLimitError
from dplace.problem import Problem
from dplace.simulator.moves import Moves
from dplace.simulator.streamed import room_bytes, streamed_reads
from dplace.sizes import size_in_words

__all__ = ["check_room", "has_room", "in_order_of_use", "least_room_bytes"]

Int = NDArray[np.int32]
Bytes = NDArray[np.int64]


def least_room_bytes(problem: Problem, placement: Int, order: Int) -> Bytes:
    """Return the room that streamed weights need on each device, shape ``(num_devices,)``.

    With so much they can always be sent in the order in which ``order``, a topological one, reads
    them first, and no pass gets stuck.

    Args:
        problem: The graph; its ``buffer_bytes`` is not looked at.
        placement: Shape ``(num_ops,)``: the device of each op.
        order: Shape ``(num_ops,)``: ops in a topological order.
    """
    return _most_held(problem, placement, order)[0]


def has_room(problem: Problem, placement: Int, order: Int, moves: Moves) -> bool:
    """Return whether streamed weights find room, sent as ``order`` needs them."""
    room = moves.queues.buffers["bytes"]
    records = moves.queues.moves[moves.is_weight]
    sent = np.bincount(records["target"], weights=records["bytes"], minlength=len(room))
    if (sent <= room).all():
        return True
    return bool((least_room_bytes(problem, placement, order) <= room).all())


def check_room(problem: Problem, placement: Int, order: Int) -> None:
    """Make sure that the room on each device is enough for what ``order`` reads at a time.

    Raises:
        MemoryLimitError: Some device has less.
    """
    room = room_bytes(problem, placement)
    needed, worst_op = _most_held(problem, placement, order)
    for device in np.flatnonzero(needed > room):
        graph, op = problem.graph, int(worst_op[device])
        name = problem.cluster.devices[device].name
        mine = [v for v in graph.inputs_of(op).tolist() if v in set(problem.streamed.tolist())]
        largest = max(mine, key=lambda value: int(graph.value_bytes[value]))
        raise MemoryLimitError(
            f"{name}: op {graph.op_names[op]!r} needs {size_in_words(int(needed[device]))} of "
            f"streamed weights at a time, {graph.value_names[largest]!r} with "
            f"{size_in_words(int(graph.value_bytes[largest]))} among them, and there is room for "
            f"{size_in_words(int(room[device]))}; give the device more memory, or place the op "
            "elsewhere"
        )


def in_order_of_use(
    problem: Problem, placement: Int, order: Int, moves: Moves, priorities: Int
) -> Int:
    """Return priorities with which weights go in the order of their first readers.

    Only to devices that have not room for all of them, and there they share their priorities out
    anew among themselves. Where these are equal, weights go before all else.

    Args:
        problem: The graph.
        placement: Shape ``(num_ops,)``.
        order: Ops in a topological order.
        moves: Of this placement.
        priorities: Shape ``(num_moves,)``: smaller goes first.
    """
    room = moves.queues.buffers["bytes"]
    records = moves.queues.moves
    position = np.empty(len(order), dtype=np.int64)
    position[order] = np.arange(len(order))
    result = priorities.copy()
    for device in range(problem.num_devices):
        mine = np.flatnonzero(moves.is_weight & (records["target"] == device))
        if records["bytes"][mine].sum() <= room[device]:
            continue
        first = np.array(
            [
                _first_use(problem, placement, device, value, position)
                for value in records["value"][mine].tolist()
            ]
        )
        by_use = mine[np.lexsort((priorities[mine], first))]
        if len(np.unique(priorities[mine])) == len(mine):
            result[by_use] = np.sort(priorities[mine])
        else:
            result[by_use] = int(priorities.min()) - np.arange(len(mine), 0, -1)
    return result - min(0, int(result.min(initial=0)))


def _first_use(
    problem: Problem, placement: Int, device: int, value: int, position: NDArray[np.int64]
) -> int:
    ops = problem.graph.consumers_of(value)
    return int(position[ops[placement[ops] == device]].min())


def _most_held(problem: Problem, placement: Int, order: Int) -> tuple[Bytes, Int]:
    """Return the most bytes that are held at one op on each device, and that op."""
    num, num_ops = problem.num_devices, problem.num_ops
    position = np.empty(num_ops, dtype=np.int64)
    position[order] = np.arange(num_ops)
    reads = streamed_reads(problem)
    device = placement[reads.op]
    is_away = device != reads.home
    keys = reads.value[is_away].astype(np.int64) * num + device[is_away]
    at = position[reads.op[is_away]]
    pairs, group = np.unique(keys, return_inverse=True)
    first = np.full(len(pairs), num_ops)
    last = np.full(len(pairs), -1)
    np.minimum.at(first, group, at)
    np.maximum.at(last, group, at)
    sizes = problem.graph.value_bytes[pairs // num]
    needed = np.zeros(num, dtype=np.int64)
    worst = np.full(num, -1, dtype=np.int32)
    for target in np.unique(pairs % num).tolist():
        mine = pairs % num == target
        change = np.zeros(num_ops + 1, dtype=np.int64)
        np.add.at(change, first[mine], sizes[mine])
        np.subtract.at(change, last[mine] + 1, sizes[mine])
        held = np.cumsum(change)  # grows at ops that read a weight first, and nowhere else
        needed[target] = held.max()
        worst[target] = order[int(held.argmax())]
    return needed, worst
