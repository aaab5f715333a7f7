"""Clusters as users write them: ``4xV100``, ``2x4xV100@nvlink,25gbe``, or a YAML file."""

import re
from decimal import Decimal

from dplace.cluster import Cluster
from dplace.errors import ClusterError
from dplace.profiles.catalogue import DeviceKind, device_kind, link_preset
from dplace.profiles.cluster_links import DeviceGroup, Wiring, build_cluster

__all__ = ["parse_memory", "read_cluster"]

# A group of a spec: [HOSTSx][COUNTx]KIND, each number followed by an x.
_GROUP = re.compile(r"(?:(-?\d+)\s*x\s*)?(?:(-?\d+)\s*x\s*)?(.*)", re.IGNORECASE | re.DOTALL)
_MEMORY = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]i?)?b", re.IGNORECASE)
_UNITS = {None: 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12} | {
    "ki": 2**10,
    "mi": 2**20,
    "gi": 2**30,
    "ti": 2**40,
}
_MAX_DIGITS = 6


def read_cluster(spec: str) -> Cluster:
    """Return the cluster that ``spec`` describes.

    ``docs/cluster-format.md`` has the grammar and the fields of a file. In short:
    ``[[HOSTSx]COUNTx]KIND[-MEMORY]``, several joined by ``+``, then ``@WITHIN[,BETWEEN]``, the
    link presets within a host and between hosts. A spec that ends in ``.yaml`` or ``.yml`` is the
    path of a file.

    >>> cluster = read_cluster("2x2xV100@nvlink,100gbe")
    >>> [(device.name, device.host, device.index) for device in cluster.devices]
    [('gpu:0', 0, 0), ('gpu:1', 0, 1), ('gpu:2', 1, 0), ('gpu:3', 1, 1)]
    >>> cluster.bytes_per_s[0, 1:].tolist()
    [47900000000.0, 11000000000.0, 11000000000.0]

    Raises:
        ClusterError: The spec or the file cannot be read, or names what is not known.
    """
    if spec.lower().endswith((".yaml", ".yml")):
        from dplace.profiles.cluster_file import read_cluster_file

        return read_cluster_file(spec)
    if not spec.strip():
        raise ClusterError("cluster: expected a spec such as 4xV100 or a .yaml file, got nothing")
    groups_text, at, presets_text = spec.partition("@")
    within, between = _presets(spec, presets_text) if at else ("auto", "auto")
    groups: list[DeviceGroup] = []
    for text in groups_text.split("+"):
        groups.extend(_groups(spec, text.strip()))
    groups.sort(key=lambda group: group.host)
    return build_cluster(spec, groups, Wiring(within_host=within, between_hosts=between))


def parse_memory(text: str) -> int | None:
    """Return a number of bytes, or None where ``text`` is no amount of memory.

    >>> parse_memory("64MB"), parse_memory("1.5GiB"), parse_memory("80")
    (64000000, 1610612736, None)
    """
    match = _MEMORY.fullmatch(text.strip())
    if match is None:
        return None
    unit = match[2].lower() if match[2] else None
    return int(Decimal(match[1]) * _UNITS[unit])


def _groups(spec: str, text: str) -> list[DeviceGroup]:
    """Read one group: the same devices on each of its hosts."""
    match = _GROUP.fullmatch(text)
    if not text or match is None or not match[3].strip():
        raise ClusterError(
            f"cluster {spec}: expected groups such as 4xV100 joined by +, got {text!r}"
        )
    numbers = [number for number in (match[1], match[2]) if number is not None]
    for number in numbers:
        if len(number) > _MAX_DIGITS or int(number) < 1:
            raise ClusterError(
                f"cluster {spec}: expected at least one device, got {number} in {text!r}"
                if len(number) <= _MAX_DIGITS
                else f"cluster {spec}: {number} is too many in {text!r}"
            )
    count = int(numbers[-1]) if numbers else 1
    hosts = int(numbers[0]) if len(numbers) == 2 else 1
    kind, memory_bytes = _kind_and_memory(spec, match[3].strip())
    return [
        DeviceGroup(kind=kind, count=count, memory_bytes=memory_bytes, host=host)
        for host in range(hosts)
    ]


def _kind_and_memory(spec: str, text: str) -> tuple[DeviceKind, int]:
    """Read ``KIND`` or ``KIND-MEMORY``; a kind whose name ends like that goes first."""
    stem, _, suffix = text.rpartition("-")
    memory_bytes = parse_memory(suffix) if stem else None
    try:
        kind = device_kind(text)
        return kind, kind.memory_bytes
    except ClusterError:
        if memory_bytes is None:
            raise
    kind = device_kind(stem)
    if memory_bytes == 0:
        raise ClusterError(f"cluster {spec}: memory must be above 0, got {suffix} in {text!r}")
    return kind, memory_bytes


def _presets(spec: str, text: str) -> tuple[str, str]:
    """Read what stands behind ``@``: one preset, or two."""
    names = [name.strip().lower() for name in text.split(",")]
    if len(names) > 2 or not all(names):
        raise ClusterError(
            f"cluster {spec}: expected @WITHIN or @WITHIN,BETWEEN, such as @nvlink,25gbe, "
            f"got @{text}"
        )
    for name in names:
        if name != "nvlink":
            link_preset(name)
    return names[0], names[1] if len(names) == 2 else "auto"
