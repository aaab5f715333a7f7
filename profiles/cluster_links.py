"""From groups of devices and what joins them to a Cluster."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dplace.cluster import Cluster, Contention, Device
from dplace.errors import ClusterError
from dplace.profiles.catalogue import DeviceKind, LinkPreset, link_preset

__all__ = ["DeviceGroup", "Wire", "Wiring", "build_cluster", "preset_wire"]

MAX_DEVICES = 1024
"""More than any machine this is for; link matrices grow with the square."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceGroup:
    """Equal devices of one host."""

    kind: DeviceKind
    count: int
    memory_bytes: int
    host: int = 0
    name: str | None = None
    """Own name; of several devices, what stands before ``:0``, ``:1``. Else ``gpu``, ``cpu``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wire:
    """What a transfer between two devices costs, one way."""

    latency_s: float
    bytes_per_s: float
    contention: Contention = "egress-ingress"
    """What such wires share, as far as is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wiring:
    """What joins the devices of a cluster.

    ``auto`` is what the kinds have themselves, ``nvlink`` their own generation of it, ``None``
    nothing but the pairs.
    """

    within_host: Wire | str | None = "auto"
    """Joins the GPUs of a host, or the CPUs of a cluster that has no GPUs."""
    between_hosts: Wire | str | None = "auto"
    pairs: Mapping[tuple[str, str], Wire] | None = None
    """By the names of source and target; goes before the two above."""
    contention: Contention | None = None
    """None: the strictest that one of the wires asks for."""


DEFAULT_NETWORK = "25gbe"


def preset_wire(preset: LinkPreset) -> Wire:
    """Return the wire that a preset describes."""
    return Wire(
        latency_s=preset.latency_s,
        bytes_per_s=preset.bytes_per_s,
        contention=preset.contention,
    )


def build_cluster(spec: str, groups: Sequence[DeviceGroup], wiring: Wiring) -> Cluster:
    """Return the cluster of ``groups``, their devices in the groups' order.

    Raises:
        ClusterError: There are no devices, or too many, or equal names, or a pair of devices has
            no link, or has one that its kind has not.
    """
    total = sum(group.count for group in groups)
    if total == 0:
        raise ClusterError(f"cluster {spec}: expected at least one device, got 0")
    if total > MAX_DEVICES:
        raise ClusterError(f"cluster {spec}: at most {MAX_DEVICES} devices, got {total}")
    kinds = [group.kind for group in groups for _ in range(group.count)]
    devices = _devices(spec, groups)
    pairs = dict(wiring.pairs or {})
    _check_pairs(spec, pairs, devices)

    latency_s = np.zeros((total, total))
    bytes_per_s = np.full((total, total), np.inf)
    strictest: Contention = "link"
    only_cpus = not any(_is_gpu(kind) for kind in kinds)
    for row, source in enumerate(devices):
        for column, target in enumerate(devices):
            if row == column:
                continue
            wire = pairs.get((source.name, target.name))
            if wire is None and source.host != target.host:
                wire = _network(wiring.between_hosts)
            elif wire is None:
                wire = _within(wiring.within_host, kinds[row], kinds[column], only_cpus=only_cpus)
            if wire is None:
                scope = "within_host" if source.host == target.host else "between_hosts"
                raise ClusterError(
                    f"cluster {spec}: no link from {source.name} to {target.name}; "
                    f"add it to links.pairs, or set links.{scope}"
                )
            latency_s[row, column] = wire.latency_s
            bytes_per_s[row, column] = wire.bytes_per_s
            if wire.contention == "egress-ingress":
                strictest = "egress-ingress"

    # A CPU device works in host memory: what the caller hands over is not copied.
    to_host = [
        preset_wire(link_preset(kind.host_link))
        if _is_gpu(kind)
        else Wire(latency_s=0.0, bytes_per_s=np.inf)
        for kind in kinds
    ]
    host_latency_s = np.array([wire.latency_s for wire in to_host])
    host_bytes_per_s = np.array([wire.bytes_per_s for wire in to_host])
    # The caller is where the first device is: rank 0 feeds inputs and collects outputs.
    away = np.array([device.host != devices[0].host for device in devices])
    network_bytes_per_s = np.minimum(bytes_per_s[0], bytes_per_s[:, 0])[away]
    host_latency_s[away] += np.maximum(latency_s[0], latency_s[:, 0])[away]
    host_bytes_per_s[away] = 1 / (1 / host_bytes_per_s[away] + 1 / network_bytes_per_s)
    return Cluster(
        spec=spec,
        devices=devices,
        latency_s=latency_s,
        bytes_per_s=bytes_per_s,
        host_latency_s=host_latency_s,
        host_bytes_per_s=host_bytes_per_s,
        contention=wiring.contention or strictest,
    )


def _is_gpu(kind: DeviceKind) -> bool:
    return kind.provider != "CPUExecutionProvider"


def _devices(spec: str, groups: Sequence[DeviceGroup]) -> tuple[Device, ...]:
    """Name and number the devices: names count over the cluster, indices within a host."""
    devices: list[Device] = []
    named: dict[str, int] = {}
    placed: dict[tuple[int, str], int] = {}
    for group in groups:
        prefix = "gpu" if _is_gpu(group.kind) else "cpu"
        for member in range(group.count):
            index = placed.get((group.host, prefix), 0)
            placed[group.host, prefix] = index + 1
            if group.name is None:
                name = f"{prefix}:{named.get(prefix, 0)}"
                named[prefix] = named.get(prefix, 0) + 1
            else:
                name = group.name if group.count == 1 else f"{group.name}:{member}"
            devices.append(
                Device(
                    name=name,
                    kind=group.kind.name,
                    provider=group.kind.provider,
                    index=index,
                    host=group.host,
                    memory_bytes=group.memory_bytes,
                    call_overhead_s=group.kind.call_overhead_s,
                )
            )
    seen: set[str] = set()
    for device in devices:
        if device.name in seen:
            raise ClusterError(f"cluster {spec}: two devices are called {device.name!r}")
        seen.add(device.name)
    return tuple(devices)


def _check_pairs(
    spec: str, pairs: Mapping[tuple[str, str], Wire], devices: Sequence[Device]
) -> None:
    names = {device.name for device in devices}
    for pair in pairs:
        for name in pair:
            if name not in names:
                raise ClusterError(
                    f"cluster {spec}: links.pairs names {name!r}, which is no device; "
                    f"it has {', '.join(device.name for device in devices)}"
                )


def _network(choice: Wire | str | None) -> Wire | None:
    """Return what joins two hosts."""
    if choice is None or isinstance(choice, Wire):
        return choice
    name = DEFAULT_NETWORK if choice == "auto" else choice
    if name == "nvlink":
        raise ClusterError(
            "link preset 'nvlink': joins the GPUs of one host; between hosts name a network such "
            "as 25gbe or infiniband-hdr, or a generation such as nvlink4"
        )
    return preset_wire(link_preset(name))


def _within(
    choice: Wire | str | None, source: DeviceKind, target: DeviceKind, *, only_cpus: bool
) -> Wire | None:
    """Return what joins two devices of one host."""
    both_gpus = _is_gpu(source) and _is_gpu(target)
    if choice is None:
        return None
    if choice == "auto" or not (both_gpus or only_cpus):
        return _own(source, target)
    if isinstance(choice, Wire):
        return choice
    if choice != "nvlink":
        return preset_wire(link_preset(choice))
    for kind in (source, target):
        if not kind.has_nvlink:
            raise ClusterError(
                f"link preset 'nvlink': {kind.name} has no NVLink of its own; name a generation "
                "such as nvlink3, or leave the preset out"
            )
    return _own(source, target)


def _own(source: DeviceKind, target: DeviceKind) -> Wire:
    """Return the link that two kinds have by themselves: the slower of what each has."""
    if not _is_gpu(source) or not _is_gpu(target):
        gpu = source if _is_gpu(source) else target
        return preset_wire(link_preset(gpu.host_link))
    if source.has_nvlink and target.has_nvlink:
        names = (source.link, target.link)
    else:
        names = (source.host_link, target.host_link)
    return preset_wire(min((link_preset(name) for name in names), key=lambda p: p.bytes_per_s))
