"""dplace's own cost graphs in JSON; docs/cost-graph-format.md describes them field by field."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, cast, get_args

import numpy as np

from dplace.errors import InputError
from dplace.graph_io.cost_graphs.cost_graph import ANY_KIND, CostGraph
from dplace.graph_io.cost_graphs.draft import (
    Draft,
    DraftOp,
    DraftValue,
    bytes_of,
    seconds_of,
)
from dplace.graph_io.cost_graphs.own_devices import devices_json, read_devices
from dplace.problem import Machine

__all__ = ["FORMAT_NAME", "own_json", "read_own_json"]

FORMAT_NAME = "dplace-cost-graph"
VERSION = 1

_TOP = {
    *("format", "version", "name", "machine", "kinds", "default_kind"),
    *("ops", "values", "devices", "links"),
}
_OP = {"id", "name", "seconds", "memory_bytes", "colocation"}
_VALUE = {"name", "from", "to", "bytes", "seconds"}


def read_own_json(content: Mapping[str, object], source: str, name: str) -> CostGraph:
    """Return the cost graph of a parsed file.

    Raises:
        InputError: Another version; a field is missing, unknown or wrong; ids do not fit.
    """
    _known(content, _TOP, source)
    if content.get("format") != FORMAT_NAME:
        raise InputError(
            f'{source}: format: expected "{FORMAT_NAME}", got {content.get("format")!r}'
        )
    if content.get("version") != VERSION:
        raise InputError(f"{source}: version: expected {VERSION}, got {content.get('version')!r}")
    kinds = _kinds(content, source)
    cluster = read_devices(content, source, kinds)
    num_devices = None if cluster is None else cluster.num_devices
    title = content.get("name", name)
    if not isinstance(title, str):
        raise InputError(f"{source}: name: expected a text, got {title!r}")
    draft = Draft(source=source, name=title)
    for position, entry in enumerate(_objects(content, "ops", source)):
        draft.ops.append(_op(entry, f"{source}: op {position + 1}", source, kinds))
    for position, entry in enumerate(_objects(content, "values", source)):
        draft.values.append(_value(entry, f"{source}: value {position + 1}", num_devices))
    graph, seconds, transfer_s = draft.finish()
    needs_links = cluster is not None and transfer_s is None and bool(draft.values)
    if needs_links and "links" not in content:
        raise InputError(f"{source}: values have bytes, so devices need links; add links")
    return CostGraph(
        graph=graph,
        kinds=kinds,
        seconds=seconds,
        transfer_s=transfer_s,
        cluster=cluster,
        default_kind=_default_kind(content, source, kinds),
        machine=_machine(content, source),
        format="dplace",
    )


def own_json(source: CostGraph) -> dict[str, object]:
    """Return a cost graph of any format as the content of a file of ours."""
    graph, transfer_s = source.graph, source.transfer_s
    alone = source.kinds == (ANY_KIND,)
    memory = np.zeros(graph.num_ops, dtype=np.int64)
    for op in range(graph.num_ops):
        memory[op] = graph.weight_bytes[graph.weights_of(op)].sum()
    ops: list[dict[str, object]] = []
    for op, op_id in enumerate(graph.op_names):
        row = [time if math.isfinite(time) else None for time in source.seconds[op].tolist()]
        entry: dict[str, object] = {
            "id": op_id,
            "name": graph.op_types[op],
            "seconds": row[0] if alone else row,
            "memory_bytes": int(memory[op]),
        }
        if graph.colocation[op] >= 0:
            entry["colocation"] = str(graph.colocation[op])
        ops.append(entry)
    values: list[dict[str, object]] = []
    for value, value_name in enumerate(graph.value_names):
        entry = {
            "name": value_name,
            "from": graph.op_names[graph.value_producer[value]],
            "to": [graph.op_names[op] for op in graph.consumers_of(value)],
            "bytes": int(graph.value_bytes[value]),
        }
        if transfer_s is not None:
            table = transfer_s[value]
            entry["seconds"] = float(table[0, 0]) if table.size == 1 else table.tolist()
        values.append(entry)
    content: dict[str, object] = {
        "format": FORMAT_NAME,
        "version": VERSION,
        "name": graph.name,
        "machine": source.machine,
    }
    if not alone:
        content["kinds"] = list(source.kinds)
    if source.default_kind is not None:
        content["default_kind"] = source.default_kind
    if source.cluster is not None:
        content |= devices_json(source.cluster)
    return content | {"ops": ops, "values": values}


def _op(entry: Mapping[str, object], where: str, source: str, kinds: tuple[str, ...]) -> DraftOp:
    op_id = _id(entry, "id", where)
    where = f"{source}: op {op_id}"
    _known(entry, _OP, where)
    label = entry.get("name", op_id)
    if not isinstance(label, str):
        raise InputError(f"{where}: name: expected a text, got {label!r}")
    return DraftOp(
        id=op_id,
        label=label,
        seconds=_op_seconds(entry, where, kinds),
        memory_bytes=bytes_of(entry.get("memory_bytes", 0), f"{where}: memory_bytes"),
        colocation=None if entry.get("colocation") is None else str(entry["colocation"]),
    )


def _op_seconds(entry: Mapping[str, object], where: str, kinds: tuple[str, ...]) -> Sequence[float]:
    if "seconds" not in entry:
        raise InputError(f"{where}: the field seconds is missing")
    given = entry["seconds"]
    if not isinstance(given, list):
        return [_seconds(given, where)] * len(kinds)
    if kinds == (ANY_KIND,):
        raise InputError(f"{where}: seconds: a list needs the field kinds, which orders it")
    if len(given) != len(kinds):
        raise InputError(
            f"{where}: seconds: expected {len(kinds)} times, for {', '.join(kinds)}, "
            f"got {len(given)}"
        )
    return [math.inf if time is None else _seconds(time, where) for time in given]


def _value(entry: Mapping[str, object], where: str, num_devices: int | None) -> DraftValue:
    _known(entry, _VALUE, where)
    producer = _id(entry, "from", where)
    ends = entry.get("to", [])
    ids = ends if isinstance(ends, list) else [ends]
    consumers = [_id({"to": end}, "to", where) for end in ids]
    where = f"{where} ({producer} -> {', '.join(consumers[:3])})"
    if "bytes" not in entry and "seconds" not in entry:
        raise InputError(f"{where}: expected bytes or seconds")
    return DraftValue(
        name=str(entry.get("name", producer)),
        producer=producer,
        consumers=consumers,
        size_bytes=bytes_of(entry.get("bytes", 0), f"{where}: bytes"),
        seconds=_value_seconds(entry.get("seconds"), where, num_devices),
    )


def _value_seconds(
    given: object, where: str, num_devices: int | None
) -> float | list[list[float]] | None:
    if not isinstance(given, list):
        return None if given is None else _seconds(given, where)
    size = num_devices or 0
    if (
        not size
        or len(given) != size
        or not all(isinstance(row, list) and len(row) == size for row in given)
    ):
        raise InputError(
            f"{where}: seconds: expected a number, or a row for each of {size} devices with a "
            "time to each of them"
        )
    table = [[_seconds(time, where) for time in row] for row in given]
    if any(table[device][device] for device in range(size)):
        raise InputError(f"{where}: seconds: expected 0 from a device to itself")
    return table


def _seconds(given: object, where: str) -> float:
    if isinstance(given, str):
        raise InputError(f"{where}: seconds: expected a number of seconds, got {given[:40]!r}")
    return seconds_of(given, f"{where}: seconds", unit_s=1.0, unit="seconds")


def _kinds(content: Mapping[str, object], source: str) -> tuple[str, ...]:
    kinds = content.get("kinds", [ANY_KIND])
    if not isinstance(kinds, list) or not kinds or not all(isinstance(k, str) for k in kinds):
        raise InputError(f"{source}: kinds: expected a list of names, got {kinds!r}")
    if len(set(kinds)) != len(kinds):
        raise InputError(f"{source}: kinds: a name is used twice in {', '.join(kinds)}")
    return tuple(kinds)


def _default_kind(content: Mapping[str, object], source: str, kinds: tuple[str, ...]) -> str | None:
    kind = content.get("default_kind")
    if kind is not None and kind not in kinds:
        raise InputError(
            f"{source}: default_kind: expected one of {', '.join(kinds)}, got {kind!r}"
        )
    return kind


def _machine(content: Mapping[str, object], source: str) -> Machine:
    machine = content.get("machine", "native")
    if machine not in get_args(Machine):
        known = ", ".join(get_args(Machine))
        raise InputError(f"{source}: machine: expected one of {known}, got {machine!r}")
    return cast(Machine, machine)


def _id(entry: Mapping[str, object], field: str, where: str) -> str:
    found = entry.get(field)
    if isinstance(found, bool) or not isinstance(found, int | str) or found == "":
        raise InputError(f"{where}: {field}: expected an id, a text or whole number, got {found!r}")
    return str(found)


def _objects(content: Mapping[str, object], field: str, source: str) -> list[dict[str, Any]]:
    entries = content.get(field, [])
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise InputError(f"{source}: {field}: expected a list of objects")
    return entries


def _known(entry: Mapping[str, object], fields: set[str], where: str) -> None:
    for name in entry:
        if name not in fields:
            raise InputError(
                f"{where}: unknown field {name[:40]!r}; there are {', '.join(sorted(fields))} "
                "(times are in seconds, sizes in bytes)"
            )
