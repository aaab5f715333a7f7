"""Streamed weights: which ops read them where, and the memory that is kept for them."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dplace.problem import Problem

__all__ = ["StreamedReads", "homes_of", "kept_bytes", "room_bytes", "streamed_reads"]

Int = NDArray[np.int32]
Bytes = NDArray[np.int64]


class StreamedReads(NamedTuple):
    """Each streamed weight with each op that reads it; all of one shape."""

    value: Int
    op: Int
    home: Int
    """Where the weight lies: a device, or -1 for the host."""


def homes_of(problem: Problem) -> Int:
    """Return where each value lies at the start if no op makes it, -1 for the host."""
    if problem.value_home is None:
        return np.full(problem.graph.num_values, -1, dtype=np.int32)
    return problem.value_home


def streamed_reads(problem: Problem) -> StreamedReads:
    """Return who reads which streamed weights."""
    graph = problem.graph
    is_streamed = np.zeros(graph.num_values, dtype=np.bool_)
    is_streamed[problem.streamed] = True
    values = np.repeat(np.arange(graph.num_values, dtype=np.int32), np.diff(graph.consumer_offsets))
    edges = np.flatnonzero(is_streamed[values])
    value = values[edges]
    return StreamedReads(value, graph.consumer_ops[edges], homes_of(problem)[value])


def room_bytes(problem: Problem, placement: Int, reads: StreamedReads | None = None) -> Bytes:
    """Return the bytes for streamed weights on each device, shape ``(num_devices,)``.

    0 on devices that none is sent to.
    """
    num = problem.num_devices
    reads = reads or streamed_reads(problem)
    devices = placement[reads.op]
    is_away = devices != reads.home
    keys = np.unique(reads.value[is_away].astype(np.int64) * num + devices[is_away])
    room = np.zeros(num, dtype=np.int64)
    np.add.at(room, keys % num, problem.graph.value_bytes[keys // num])
    if problem.buffer_bytes is None:
        return room
    takes = np.bincount(keys % num, minlength=num) > 0
    return np.where(takes, problem.buffer_bytes, 0)


def kept_bytes(problem: Problem) -> Bytes:
    """Return the bytes of the streamed weights whose home each device is."""
    kept = np.zeros(problem.num_devices, dtype=np.int64)
    values = problem.streamed
    homes = homes_of(problem)[values]
    at_device = homes >= 0
    np.add.at(kept, homes[at_device], problem.graph.value_bytes[values[at_device]])
    return kept
