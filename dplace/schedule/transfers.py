"""Which values have to cross to which devices, and what waits for them there."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dplace.op_graph import OpGraph
from dplace.problem import Problem

__all__ = ["Transfers", "Waits", "transfers_of", "waits_of"]

Int = NDArray[np.int32]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Transfers:
    """Every crossing of a value to a device that reads it, once for each device.

    All fields have shape ``(num_transfers,)``; the place in them is a transfer's id.
    """

    value: Int
    target: Int
    """The device that reads the value."""
    source: Int
    """The device that makes the value or is a weight's home; -1 for the host."""
    seconds: NDArray[np.float64]
    """Time of the transfer on an idle link, latency included."""

    @property
    def num_transfers(self) -> int:
        """Return the number of transfers."""
        return len(self.value)


class Waits(NamedTuple):
    """What waits for each transfer on its target, and what comes after each op.

    A NamedTuple, for compiled code takes it apart.
    """

    reader_offsets: Int
    """Shape ``(num_transfers + 1,)``."""
    reader_ops: Int
    """Ops on the target that read the value, compressed by transfer."""
    next_offsets: Int
    """Shape ``(num_ops + 1,)``."""
    next_ops: Int
    """Ops, on any device, that read a value of an op, each once; compressed by op."""


def transfers_of(problem: Problem, placement: Int) -> Transfers:
    """Return what crosses under ``placement``, by value and then by target.

    A value that no op makes comes from its home, ``problem.value_home``, or from the host. From
    the host it takes the copy that the cluster says, under ``native``, and nothing under the other
    machine models (docs/machine-models.md).
    """
    from dplace.simulator.tables import machine_links, tabulate_devices

    graph, num_devices = problem.graph, problem.num_devices
    source = np.full(graph.num_values, -1, dtype=np.int32)
    is_made = graph.value_producer >= 0
    source[is_made] = placement[graph.value_producer[is_made]]
    if problem.value_home is not None:
        source[~is_made] = problem.value_home[~is_made]
    values = _values_of_edges(graph)
    devices = placement[graph.consumer_ops]
    crosses = devices != source[values]
    keys = np.unique(values[crosses] * num_devices + devices[crosses])
    value, target = keys // num_devices, keys % num_devices
    source = source[value]

    machine = tabulate_devices(problem.cluster, is_native=problem.machine == "native")
    host_latency_s = machine["host_latency"]
    if problem.machine == "native":  # one device that has all ops may be nearer to the host
        has_all = np.bincount(placement, minlength=num_devices) == graph.num_ops
        host_latency_s = np.where(has_all, machine["alone_host_latency"], host_latency_s)
    size = graph.value_bytes[value]
    from_host_s = host_latency_s[target] + size / machine["host_bytes_per_s"][target]
    link = machine_links(problem, problem.machine)[source, target]
    from_device_s = link["latency"] + size / link["bytes_per_s"]
    given = problem.transfer_s
    if given is not None:
        is_one = given.shape[1] == 1
        from_device_s += given[value, 0, 0] if is_one else given[value, source, target]
    return Transfers(
        value=value.astype(np.int32),
        target=target.astype(np.int32),
        source=source,
        seconds=np.where(source < 0, from_host_s, from_device_s),
    )


def waits_of(problem: Problem, placement: Int, transfers: Transfers) -> Waits:
    """Return what waits for ``transfers``, which may be some of all, in any order."""
    graph, num_devices = problem.graph, problem.num_devices
    wanted = transfers.value.astype(np.int64) * num_devices + transfers.target
    order = np.argsort(wanted)
    edges = _values_of_edges(graph) * num_devices + placement[graph.consumer_ops]
    found = np.searchsorted(wanted[order], edges)
    found[found == len(wanted)] = 0
    is_wanted = wanted[order][found] == edges if len(wanted) else np.zeros(len(edges), np.bool_)
    transfer = order[found[is_wanted]] if len(wanted) else np.zeros(0, dtype=np.int64)
    reader = graph.consumer_ops[is_wanted][np.argsort(transfer, kind="stable")]
    writers, readers = _op_edges(graph)
    return Waits(
        reader_offsets=_offsets(transfer, transfers.num_transfers),
        reader_ops=reader.astype(np.int32),
        next_offsets=_offsets(writers, graph.num_ops),
        next_ops=readers,
    )


def _op_edges(graph: OpGraph) -> tuple[Int, Int]:
    """Return every pair of ops of which the second reads from the first, sorted, each once."""
    makers = graph.value_producer[_values_of_edges(graph)]
    is_made = makers >= 0
    keys = np.unique(makers[is_made].astype(np.int64) * graph.num_ops + graph.consumer_ops[is_made])
    num_ops = max(graph.num_ops, 1)
    return (keys // num_ops).astype(np.int32), (keys % num_ops).astype(np.int32)


def _values_of_edges(graph: OpGraph) -> NDArray[np.int64]:
    """Return the value that each entry of ``graph.consumer_ops`` reads."""
    return np.repeat(np.arange(graph.num_values), np.diff(graph.consumer_offsets))


def _offsets(rows: NDArray[np.integer], num_rows: int) -> Int:
    """Return where each row begins in a list that is sorted by row."""
    counts = np.bincount(rows, minlength=num_rows)
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
