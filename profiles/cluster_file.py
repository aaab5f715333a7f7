"""Clusters described by a YAML file; docs/cluster-format.md is the reference."""

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar, cast, get_args

import yaml

from dplace.cluster import Cluster, Contention
from dplace.errors import ClusterError
from dplace.profiles.catalogue import device_kind, link_preset, load_yaml, near_names
from dplace.profiles.cluster_links import DeviceGroup, Wire, Wiring, build_cluster, preset_wire
from dplace.profiles.cluster_spec import parse_memory

__all__ = ["read_cluster_file"]

T = TypeVar("T")

_TOP_FIELDS = ("devices", "links", "contention")
_DEVICE_FIELDS = ("kind", "count", "memory", "host", "name")
_LINKS_FIELDS = ("within_host", "between_hosts", "pairs")
_COST_FIELDS = ("latency_s", "bytes_per_s")
_PAIR_FIELDS = ("from", "to", *_COST_FIELDS, "preset")


def read_cluster_file(path: str) -> Cluster:
    """Return the cluster that a YAML file describes.

    Raises:
        ClusterError: The file cannot be read, or is wrong; the message has all that is wrong.
    """
    name = Path(path).name
    try:
        content = load_yaml(Path(path).read_bytes())
    except OSError as error:
        raise ClusterError(f"cluster file {path}: {error.strerror or error}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        where = " ".join(str(error).split())
        raise ClusterError(f"cluster file {path}: not YAML: {where}") from error
    reader = _Reader()
    groups, wiring = reader.read(content)
    if reader.faults:
        raise ClusterError(f"cluster file {path}: {'; '.join(reader.faults)}")
    return build_cluster(name, groups, wiring)


class _Reader:
    """Reads the fields of one file and gathers what is wrong with them."""

    def __init__(self) -> None:
        self.faults: list[str] = []

    def read(self, content: object) -> tuple[list[DeviceGroup], Wiring]:
        """Return what the file says; without meaning once there are faults."""
        top = self._attempt(lambda: _fields("the file", content, _TOP_FIELDS))
        if top is None:
            return [], Wiring()
        entries = top.get("devices")
        groups: list[DeviceGroup] = []
        if not isinstance(entries, list) or not entries:
            self.faults.append(f"devices: expected a list of at least one, got {entries!r}")
        else:
            for number, entry in enumerate(entries):
                group = self._attempt(lambda n=number, e=entry: _group(f"devices[{n}]", e))  # type: ignore[misc]
                groups.extend([group] if group else [])
        wiring = self._wiring(top.get("links"), top.get("contention"))
        return groups, wiring

    def _attempt(self, read: Callable[[], T]) -> T | None:
        try:
            return read()
        except ClusterError as error:
            self.faults.append(str(error))
            return None

    def _wiring(self, links: object, contention: object) -> Wiring:
        if contention is not None and contention not in get_args(Contention):
            known = ", ".join(get_args(Contention))
            self.faults.append(f"contention: expected one of {known}, got {contention!r}")
        fields: Mapping[str, object] = {}
        if links is not None:
            fields = self._attempt(lambda: _fields("links", links, _LINKS_FIELDS)) or {}
        pairs: dict[tuple[str, str], Wire] | None = None
        if (entries := fields.get("pairs")) is not None:
            pairs = {}
            if not isinstance(entries, list):
                self.faults.append(f"links.pairs: expected a list, got {entries!r}")
                entries = []
            for number, entry in enumerate(entries):
                where = f"links.pairs[{number}]"
                pair = self._attempt(lambda w=where, e=entry: _pair(w, e))  # type: ignore[misc]
                if pair and pair[0] in pairs:
                    self.faults.append(f"{where}: {pair[0][0]} to {pair[0][1]} is given twice")
                elif pair:
                    pairs[pair[0]] = pair[1]
        # Who lists pairs means these: a pair that was forgotten must not get a default.
        default = "auto" if pairs is None else "none"

        def scope(field: str) -> Wire | str | None:
            return self._attempt(lambda: _scope(f"links.{field}", fields.get(field, default)))

        return Wiring(
            within_host=scope("within_host"),
            between_hosts=scope("between_hosts"),
            pairs=pairs,
            contention=cast(Contention | None, contention),
        )


def _fields(where: str, value: object, known: tuple[str, ...]) -> dict[str, object]:
    """Return a mapping whose keys are all known."""
    if not isinstance(value, dict):
        raise ClusterError(f"{where}: expected fields {', '.join(known)}, got {value!r}")
    for key in value:
        if key not in known:
            raise ClusterError(f"{where}: unknown field {key!r}; {near_names(str(key), known)}")
    return value


def _group(where: str, value: object) -> DeviceGroup:
    fields = _fields(where, value, _DEVICE_FIELDS)
    if not isinstance(kind_name := fields.get("kind"), str):
        raise ClusterError(f"{where}.kind: expected the name of a device kind, got {kind_name!r}")
    try:
        kind = device_kind(kind_name)
    except ClusterError as error:
        raise ClusterError(f"{where}: {error}") from None
    name = fields.get("name")
    if name is not None and (not isinstance(name, str) or not name.strip()):
        raise ClusterError(f"{where}.name: expected a name, got {name!r}")
    if name == "host":
        raise ClusterError(f"{where}.name: host is what plans call host memory; take another name")
    return DeviceGroup(
        kind=kind,
        count=_integer(f"{where}.count", fields.get("count", 1), lowest=0),
        memory_bytes=_memory(f"{where}.memory", fields.get("memory", kind.memory_bytes)),
        host=_integer(f"{where}.host", fields.get("host", 0), lowest=0),
        name=name,
    )


def _scope(where: str, value: object) -> Wire | str | None:
    """Read a preset's name, ``auto``, ``none``, or a cost of one's own."""
    if value is None or value == "none":
        return None
    if isinstance(value, str):
        if value not in ("auto", "nvlink"):
            try:
                link_preset(value)
            except ClusterError as error:
                raise ClusterError(f"{where}: {error}") from None
        return value
    return _cost(where, _fields(where, value, _COST_FIELDS))


def _pair(where: str, value: object) -> tuple[tuple[str, str], Wire]:
    fields = _fields(where, value, _PAIR_FIELDS)
    ends: list[str] = []
    for field in ("from", "to"):
        if not isinstance(end := fields.get(field), str):
            raise ClusterError(f"{where}.{field}: expected the name of a device, got {end!r}")
        ends.append(end)
    if ends[0] == ends[1]:
        raise ClusterError(f"{where}: expected two devices, got {ends[0]} twice")
    if (preset := fields.get("preset")) is None:
        return (ends[0], ends[1]), _cost(where, fields)
    if any(field in fields for field in _COST_FIELDS):
        raise ClusterError(f"{where}: expected either preset or latency_s and bytes_per_s")
    if not isinstance(preset, str):
        raise ClusterError(f"{where}.preset: expected the name of a preset, got {preset!r}")
    try:
        return (ends[0], ends[1]), preset_wire(link_preset(preset))
    except ClusterError as error:
        raise ClusterError(f"{where}: {error}") from None


def _cost(where: str, fields: Mapping[str, object]) -> Wire:
    latency_s = _number(f"{where}.latency_s", fields.get("latency_s"))
    bytes_per_s = _number(f"{where}.bytes_per_s", fields.get("bytes_per_s"))
    if latency_s < 0:
        raise ClusterError(f"{where}.latency_s: must be at least 0, got {latency_s:g}")
    if bytes_per_s <= 0:
        raise ClusterError(f"{where}.bytes_per_s: must be above 0, got {bytes_per_s:g}")
    return Wire(latency_s=latency_s, bytes_per_s=bytes_per_s)


def _number(where: str, value: object) -> float:
    """Return a finite number; YAML 1.1 takes ``12e9`` for text, so text is tried as well."""
    if isinstance(value, int | float | str) and not isinstance(value, bool):
        try:
            number = float(value)
        except (ValueError, OverflowError):
            number = math.nan
        if math.isfinite(number):
            return number
    raise ClusterError(f"{where}: expected a number, got {value!r}")


def _integer(where: str, value: object, *, lowest: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < lowest:
        raise ClusterError(f"{where}: expected a whole number of at least {lowest}, got {value!r}")
    return value


def _memory(where: str, value: object) -> int:
    """Return bytes: a number, or text with a unit."""
    memory_bytes = parse_memory(value) if isinstance(value, str) else None
    if memory_bytes is None:
        try:
            memory_bytes = int(_number(where, value))
        except ClusterError:
            raise ClusterError(
                f"{where}: expected bytes or an amount such as 16GB or 64MiB, got {value!r}"
            ) from None
    if memory_bytes <= 0:
        raise ClusterError(f"{where}: must be above 0, got {value}")
    return memory_bytes
