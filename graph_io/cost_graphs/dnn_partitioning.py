"""The JSON of dnn-partitioning (Tarnawski et al., NeurIPS 2020): accelerators beside a CPU.

``cost`` of an edge is what it takes to move the source's output between an accelerator and host
memory, the same for all edges of a source. The format states no unit; op times are in ms in the
files that came with it.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from dplace.cluster import Cluster, Device
from dplace.errors import InputError
from dplace.graph_io.cost_graphs.cost_graph import NO_CAP_BYTES, CostGraph
from dplace.graph_io.cost_graphs.draft import (
    Draft,
    DraftOp,
    DraftValue,
    bytes_of,
    number,
    seconds_of,
)

__all__ = ["read_dnn_partitioning"]

ACCELERATOR, CPU = "accelerator", "CPU"

_FASTEST_LINK = 1e12
"""Bytes per second that no link between an accelerator and its host reaches."""

_MAX_DEVICES = 1024


def read_dnn_partitioning(content: Mapping[str, object], source: str, name: str) -> CostGraph:
    """Return the cost graph of a parsed file.

    Raises:
        InputError: A field is missing or wrong; ids or edges do not fit together.
    """
    draft = Draft(source=source, name=name)
    for position, node in enumerate(_objects(content, "nodes", source)):
        draft.ops.append(_op(node, f"{source}: node {position + 1}", source))
    draft.values = _values(content, source, [op.id for op in draft.ops])
    graph, seconds, transfer_s = draft.finish()
    if transfer_s is None:
        transfer_s = np.zeros((0, 1, 1))
    return CostGraph(
        graph=graph,
        kinds=(ACCELERATOR, CPU),
        seconds=seconds,
        transfer_s=transfer_s,
        cluster=_cluster(content, source),
        default_kind=ACCELERATOR,
        machine="dnn-partitioning",
        format="dnn-partitioning",
        unit="file units",
        warnings=_warnings(graph.value_bytes, transfer_s[:, 0, 0], name),
    )


def _op(node: Mapping[str, object], where: str, source: str) -> DraftOp:
    op_id = _id(node, "id", where)
    where = f"{source}: node {op_id}"
    fpga_s = _seconds(_field(node, "fpgaLatency", where), f"{where}: fpgaLatency")
    cpu_s = _seconds(_field(node, "cpuLatency", where), f"{where}: cpuLatency")
    supported = node.get("supportedOnFpga", True)
    if supported not in (0, 1):  # True and False are equal to these
        raise InputError(f"{where}: supportedOnFpga: expected true or false, got {supported!r}")
    color = node.get("colorClass")
    return DraftOp(
        id=op_id,
        label=str(node.get("name", op_id)),
        seconds=(fpga_s if supported else np.inf, cpu_s),
        memory_bytes=bytes_of(node.get("size", 0), f"{where}: size"),
        colocation=None if color is None else str(color),
    )


def _values(content: Mapping[str, object], source: str, ids: list[str]) -> list[DraftValue]:
    """Return one value for each source of edges, in the order of the nodes."""
    made: dict[str, DraftValue] = {}
    for position, edge in enumerate(_objects(content, "edges", source)):
        where = f"{source}: edge {position + 1}"
        producer, consumer = _id(edge, "sourceId", where), _id(edge, "destId", where)
        where = f"{source}: edge {producer} -> {consumer}"
        cost_s = _seconds(_field(edge, "cost", where), f"{where}: cost")
        size = bytes_of(edge.get("size", 0), f"{where}: size")
        value = made.setdefault(
            producer,
            DraftValue(name=producer, producer=producer, consumers=[], seconds=cost_s),
        )
        if value.seconds != cost_s:
            raise InputError(
                f"{where}: cost {edge['cost']} differs from that of {producer} -> "
                f"{value.consumers[0]}; all edges of a source move one output"
            )
        value.consumers.append(consumer)
        value.size_bytes = max(value.size_bytes, size)
    known = set(ids)
    return [made[op_id] for op_id in dict.fromkeys(ids) if op_id in made] + [
        value for op_id, value in made.items() if op_id not in known
    ]


def _cluster(content: Mapping[str, object], source: str) -> Cluster:
    """Return the accelerators and behind them the CPUs, whose memory has no limit."""
    accelerators = _count(content, "maxFPGAs", source)
    cpus = _count(content, "maxCPUs", source)
    cap = bytes_of(_field(content, "maxSizePerFPGA", source), f"{source}: maxSizePerFPGA")
    total = accelerators + cpus
    if not 1 <= total <= _MAX_DEVICES:
        raise InputError(
            f"{source}: maxFPGAs and maxCPUs: expected 1 to {_MAX_DEVICES} devices, got {total}"
        )
    if accelerators and cap < 1:
        raise InputError(f"{source}: maxSizePerFPGA: expected a size above 0, got {cap}")
    devices = [_device(ACCELERATOR, index, cap) for index in range(accelerators)]
    devices += [_device(CPU, index, NO_CAP_BYTES) for index in range(cpus)]
    return Cluster(
        spec=f"{accelerators}x{ACCELERATOR}+{cpus}x{CPU} of the file",
        devices=tuple(devices),
        latency_s=np.zeros((total, total)),
        bytes_per_s=np.full((total, total), np.inf),
        host_latency_s=np.zeros(total),
        host_bytes_per_s=np.full(total, np.inf),
        contention="port",
    )


def _device(kind: str, index: int, memory_bytes: int) -> Device:
    return Device(
        name=f"{kind.lower()}:{index}",
        kind=kind,
        provider="none",
        index=index,
        host=0,
        memory_bytes=memory_bytes,
        call_overhead_s=0.0,
    )


def _warnings(sizes: NDArray[np.int64], costs_s: NDArray[np.float64], name: str) -> tuple[str, ...]:
    """Return a warning if transfers are in seconds where the ops are in ms."""
    moved = costs_s > 0
    if not moved.any():
        return ()
    speed = float(np.median(sizes[moved] / costs_s[moved]))
    if speed < _FASTEST_LINK:
        return ()
    sentence = (
        f"{name}: transfers move {speed / 1e9:.0f} GB a second if their costs have the unit of "
        "the ops' times; they look like seconds beside milliseconds, 1000 times too small, and "
        "are taken as the file has them"
    )
    return (sentence,)


def _seconds(content: object, where: str) -> float:
    return seconds_of(content, where, unit_s=1e-3, unit="file units")


def _objects(content: Mapping[str, object], field: str, source: str) -> list[Mapping[str, object]]:
    entries = _field(content, field, source)
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise InputError(f"{source}: {field}: expected a list of objects")
    return entries


def _field(content: Mapping[str, object], field: str, where: str) -> object:
    if field not in content:
        raise InputError(f"{where}: the field {field} is missing")
    return content[field]


def _id(content: Mapping[str, object], field: str, where: str) -> str:
    found = _field(content, field, where)
    if isinstance(found, bool) or not isinstance(found, int | str):
        raise InputError(f"{where}: {field}: expected an id, a whole number, got {found!r}")
    return str(found)


def _count(content: Mapping[str, object], field: str, source: str) -> int:
    count = number(_field(content, field, source), f"{source}: {field}", "a number of devices")
    if count != int(count):
        raise InputError(f"{source}: {field}: expected a whole number, got {count}")
    return int(count)
