"""How much memory a run takes on each device.

A value takes memory on the device of its op from the start of the op, and where it is copied to
from the start of the copy. It is freed

- where it never leaves its part: when the last op that reads it has ended;
- where it enters or leaves a part: when the last part on that device that reads or makes it has
  ended and all its transfers from there have;
- if the caller gets it: not before the end.

A weight takes memory all the time, once on each device that has an op that reads it; a streamed one
takes it on its home, and in place of it the room for streamed weights is taken on each device that
one is sent to.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dplace.problem import Problem
from dplace.simulator.compiled import kernel
from dplace.simulator.run import Run
from dplace.simulator.streamed import kept_bytes, room_bytes, streamed_reads
from dplace.simulator.tables import Tables, ordered_tables

__all__ = ["Lives", "Memory", "lives", "weight_bytes"]

Bytes = NDArray[np.int64]
Int = NDArray[np.int32]
Float = NDArray[np.float64]


class Lives(NamedTuple):
    """One entry for each value and device that holds it; times in seconds."""

    value: NDArray[np.int32]
    device: NDArray[np.int32]
    start: NDArray[np.float64]
    end: NDArray[np.float64]
    """``inf`` for what the caller gets."""


def lives(tables: Tables, run: Run) -> Lives:
    """Return when each value takes memory where."""
    num_values, num_devices = len(tables.values) - 1, len(run.devices)
    room = num_values + int(run.totals[1]) + num_devices * len(tables.host_values)
    result = Lives(
        value=np.zeros(room, dtype=np.int32),
        device=np.zeros(room, dtype=np.int32),
        start=np.zeros(room),
        end=np.zeros(room),
    )
    count = _lives(tables, run, np.zeros(num_values), np.zeros(num_devices), result)
    return _rows(result, slice(count))


def _rows(life: Lives, rows: slice | NDArray[np.bool_]) -> Lives:
    """Return some of the entries."""
    return Lives(
        value=life.value[rows],
        device=life.device[rows],
        start=life.start[rows],
        end=life.end[rows],
    )


@kernel
def _lives(tables: Tables, run: Run, sent: Float, copied: Float, result: Lives) -> int:
    """Fill ``result`` and return its length.

    Args:
        tables: The graph.
        run: When everything happens.
        sent: Zeros, shape ``(num_values,)``, for the end of each value's last transfer.
        copied: Zeros, shape ``(num_devices,)``, for the end of the copies from the host.
        result: Room enough.
    """
    ops, values, parts, transfers = run.ops, tables.values, run.parts, run.transfers
    num_values, num_transfers = len(values) - 1, run.totals[1]
    count = 0
    for index in range(num_transfers):
        value = transfers[index]["value"]
        sent[value] = max(sent[value], transfers[index]["end"])
        result.value[count] = value
        result.device[count] = transfers[index]["target"]
        result.start[count] = transfers[index]["start"]
        count += 1
    for slot in range(len(tables.host_values)):
        value = tables.host_values[slot]
        before = count
        for edge in range(values[value]["consumers"], values[value + 1]["consumers"]):
            index = ops[tables.consumer_ops[edge]]["device"]
            is_new = True
            for entry in range(before, count):
                is_new = is_new and result.device[entry] != index
            if is_new:
                result.value[count] = value
                result.device[count] = index
                result.start[count] = copied[index]
                device = run.devices[index]
                copied[index] += (
                    device["host_latency"] + values[value]["bytes"] / device["host_bytes_per_s"]
                )
                count += 1
    num_copies = count
    for entry in range(num_copies):
        value, index = result.value[entry], result.device[entry]
        end = 0.0
        for edge in range(values[value]["consumers"], values[value + 1]["consumers"]):
            consumer = ops[tables.consumer_ops[edge]]
            if consumer["device"] == index:
                end = max(end, parts[consumer["part"]]["end"])
        result.end[entry] = end
    for value in range(num_values):
        if values[value]["producer"] < 0:
            continue
        maker = ops[values[value]["producer"]]
        part = maker["part"]
        used = maker["end"]
        kept = max(sent[value], parts[part]["end"])
        leaves = False
        for edge in range(values[value]["consumers"], values[value + 1]["consumers"]):
            consumer = ops[tables.consumer_ops[edge]]
            if consumer["part"] != part:
                leaves = True
                if consumer["device"] == maker["device"]:
                    kept = max(kept, parts[consumer["part"]]["end"])
            else:
                used = max(used, consumer["end"])
        result.value[count] = value
        result.device[count] = maker["device"]
        result.start[count] = maker["start"]
        if values[value]["returns"]:
            result.end[count] = np.inf
        else:
            result.end[count] = kept if leaves else used
        count += 1
    return count


def weight_bytes(tables: Tables, placement: Int) -> Bytes:
    """Return the bytes of the distinct weights that ops read on each device.

    Shape ``(num_devices,)``; streamed weights are left out.
    """
    held = np.zeros(len(tables.devices), dtype=np.int64)
    _add_weights(tables, placement, np.full(len(held), -1, dtype=np.int32), held)
    return held


class Memory:
    """Counts the memory that placements of one problem take."""

    def __init__(self, problem: Problem, tables: Tables) -> None:
        self._problem = problem
        self._tables = ordered_tables(problem, tables)
        self._reads = streamed_reads(problem)
        self._kept = kept_bytes(problem)

    @property
    def most_bytes(self) -> int:
        """Return bytes that no placement exceeds on any device."""
        graph, room = self._problem.graph, self._problem.buffer_bytes
        total = int(graph.weight_bytes.sum()) + int(self._tables.values["bytes"].sum())
        if len(self._reads.value) == 0:
            return total
        if room is None:
            room = graph.value_bytes[self._problem.streamed].sum()
        return total + int((self._kept + room).max())

    def weights(self, placement: Int) -> Bytes:
        """Return the bytes of the weights that lie on each device, shape ``(num_devices,)``."""
        return weight_bytes(self._tables, placement) + self._kept

    def _held(self, placement: Int) -> Bytes:
        """Return the bytes that are taken all the time."""
        held = self.weights(placement)
        if len(self._reads.value) > 0:
            held += room_bytes(self._problem, placement, self._reads)
        return held

    def bound(self, placement: Int) -> Bytes:
        """Return bytes that no schedule exceeds: weights, and every value that is ever there."""
        held = self._held(placement)
        _add_values(self._tables, placement, np.full(len(held), -1, dtype=np.int32), held)
        return held

    def peaks(self, placement: Int, run: Run) -> Bytes:
        """Return the bytes of weights and live values at the worst moment on each device."""
        held = self._held(placement)
        peaks = held.copy()
        life = lives(self._tables, run)
        # The results of ops that take no time may live for no time: they are never there.
        life = _rows(life, life.end > life.start)
        sizes = self._tables.values["bytes"][life.value]
        _sweep(life, sizes, np.argsort(life.start), np.argsort(life.end), held, peaks)
        return peaks


@kernel
def _add_weights(tables: Tables, placement: Int, seen: Int, held: Bytes) -> None:
    for weight in range(len(tables.weight_bytes)):
        for slot in range(tables.weight_offsets[weight], tables.weight_offsets[weight + 1]):
            device = placement[tables.weight_readers[slot]]
            if seen[device] != weight:
                seen[device] = weight
                held[device] += tables.weight_bytes[weight]


@kernel
def _add_values(tables: Tables, placement: Int, seen: Int, held: Bytes) -> None:
    values = tables.values
    for value in range(len(values) - 1):
        if values[value]["producer"] >= 0:
            device = placement[values[value]["producer"]]
            seen[device] = value
            held[device] += values[value]["bytes"]
        for edge in range(values[value]["consumers"], values[value + 1]["consumers"]):
            device = placement[tables.consumer_ops[edge]]
            if seen[device] != value:
                seen[device] = value
                held[device] += values[value]["bytes"]


@kernel
def _sweep(
    life: Lives, sizes: Bytes, by_start: Bytes, by_end: Bytes, held: Bytes, peaks: Bytes
) -> None:
    """Raise ``peaks`` to the most that is ``held`` at any time."""
    freed = 0
    for index in range(len(by_start)):
        entry = by_start[index]
        # What ends now makes room for what starts now.
        while life.end[by_end[freed]] <= life.start[entry]:
            held[life.device[by_end[freed]]] -= sizes[by_end[freed]]
            freed += 1
        device = life.device[entry]
        held[device] += sizes[entry]
        peaks[device] = max(peaks[device], held[device])
