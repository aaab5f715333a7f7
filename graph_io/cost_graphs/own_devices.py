"""The devices and links of dplace's own cost graphs."""

from collections.abc import Mapping
from typing import cast, get_args

import numpy as np
from numpy.typing import NDArray

from dplace.cluster import Cluster, Contention, Device
from dplace.errors import InputError
from dplace.graph_io.cost_graphs.cost_graph import ANY_KIND, NO_CAP_BYTES
from dplace.graph_io.cost_graphs.draft import bytes_of, number

__all__ = ["devices_json", "read_devices"]

_DEVICE = {"name", "kind", "memory_bytes"}
_LINKS = {"latency_s", "bytes_per_s", "contention"}


def read_devices(
    content: Mapping[str, object], source: str, kinds: tuple[str, ...]
) -> Cluster | None:
    """Return the devices that a file describes, or None.

    Args:
        content: The whole file; its fields ``devices`` and ``links`` are read.
        source: The file, for messages.
        kinds: Kinds of device that the file has times for.

    Raises:
        InputError: A field is missing, unknown or wrong.
    """
    if "devices" not in content:
        if "links" in content:
            raise InputError(f"{source}: links: expected devices beside them")
        return None
    entries = content["devices"]
    if not isinstance(entries, list) or not entries:
        raise InputError(f"{source}: devices: expected a list of at least one, got {entries!r}")
    devices = tuple(
        _device(entry, index, f"{source}: device {index}", kinds)
        for index, entry in enumerate(entries)
    )
    names = [device.name for device in devices]
    if len(set(names)) != len(names):
        raise InputError(f"{source}: devices: a name is used twice in {', '.join(names)}")
    links = content.get("links", {})
    if not isinstance(links, dict):
        raise InputError(f"{source}: links: expected an object, got {links!r}")
    where = f"{source}: links"
    _known(links, _LINKS, where)
    contention = links.get("contention", "egress-ingress")
    if contention not in get_args(Contention):
        known = ", ".join(get_args(Contention))
        raise InputError(f"{where}: contention: expected one of {known}, got {contention!r}")
    num = len(devices)
    bytes_per_s = _matrix(links, "bytes_per_s", num, where, default=np.inf)
    np.fill_diagonal(bytes_per_s, np.inf)
    latency_s = _matrix(links, "latency_s", num, where, default=0.0)
    np.fill_diagonal(latency_s, 0.0)
    if not (bytes_per_s > 0).all():
        raise InputError(f"{where}: bytes_per_s: expected a rate above 0")
    return Cluster(
        spec=f"{num} devices of the file",
        devices=devices,
        latency_s=latency_s,
        bytes_per_s=bytes_per_s,
        host_latency_s=np.zeros(num),
        host_bytes_per_s=np.full(num, np.inf),
        contention=cast(Contention, contention),
    )


def devices_json(cluster: Cluster) -> dict[str, object]:
    """Return the fields ``devices`` and ``links`` of a file."""
    rates = [[rate if np.isfinite(rate) else None for rate in row] for row in cluster.bytes_per_s]
    return {
        "devices": [
            {"name": device.name, "kind": device.kind}
            | ({} if device.memory_bytes == NO_CAP_BYTES else {"memory_bytes": device.memory_bytes})
            for device in cluster.devices
        ],
        "links": {
            "latency_s": cluster.latency_s.tolist(),
            "bytes_per_s": rates,
            "contention": cluster.contention,
        },
    }


def _device(entry: object, index: int, where: str, kinds: tuple[str, ...]) -> Device:
    if not isinstance(entry, dict):
        raise InputError(f"{where}: expected an object, got {entry!r}")
    _known(entry, _DEVICE, where)
    kind = entry.get("kind", "device" if kinds == (ANY_KIND,) else None)
    if not isinstance(kind, str) or (kind not in kinds and kinds != (ANY_KIND,)):
        raise InputError(f"{where}: kind: expected one of {', '.join(kinds)}, got {kind!r}")
    name = entry.get("name", f"{kind.lower()}:{index}")
    if not isinstance(name, str) or not name:
        raise InputError(f"{where}: name: expected a text, got {name!r}")
    memory = bytes_of(entry.get("memory_bytes", NO_CAP_BYTES), f"{where}: memory_bytes")
    if memory < 1:
        raise InputError(f"{where}: memory_bytes: expected a size above 0, got {memory}")
    return Device(
        name=name,
        kind=kind,
        provider="none",
        index=index,
        host=0,
        memory_bytes=memory,
        call_overhead_s=0.0,
    )


def _matrix(
    links: Mapping[str, object], field: str, num: int, where: str, *, default: float
) -> NDArray[np.float64]:
    """Return a number for each ordered pair of devices; null in the file is the default."""
    given = links.get(field)
    rows = given if isinstance(given, list) else [[given] * num] * num
    if len(rows) != num or not all(isinstance(row, list) and len(row) == num for row in rows):
        raise InputError(
            f"{where}: {field}: expected a number, or a row for each of {num} devices with a "
            "number to each of them"
        )
    return np.array(
        [
            [
                default if cell is None else number(cell, f"{where}: {field}", "a number")
                for cell in row
            ]
            for row in rows
        ]
    )


def _known(entry: Mapping[str, object], fields: set[str], where: str) -> None:
    for name in entry:
        if name not in fields:
            raise InputError(
                f"{where}: unknown field {name[:40]!r}; there are {', '.join(sorted(fields))}"
            )
