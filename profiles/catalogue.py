"""The shipped device kinds and link presets, read from the YAML files in profiles/data."""

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import yaml

from dplace.cluster import Contention
from dplace.errors import ClusterError

__all__ = [
    "DeviceKind",
    "Efficiency",
    "LinkPreset",
    "device_kind",
    "device_kinds",
    "link_preset",
    "link_presets",
    "load_yaml",
    "near_names",
]

# libyaml's parser is ten times as quick; wheels have it, some distributions do not.
_Loader: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True, slots=True, kw_only=True)
class Efficiency:
    """What a class of kernels gets of a device's peak."""

    flop: float
    """Fraction of the peak rate, above 0."""
    bytes: float
    """Fraction of the bandwidth, above 0."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DeviceKind:
    """What one processor of a kind can do: an entry of profiles/data/devices.yaml."""

    name: str
    aliases: tuple[str, ...]
    provider: str
    """The onnxruntime execution provider that drives it."""
    memory_bytes: int
    peak_flop_per_s: Mapping[str, float]
    """Dense peak by dtype, ``float32`` always among them; ``tf32`` where matrix kernels that read
    float32 are quicker than the others."""
    bytes_per_s: float
    """Bandwidth of device memory."""
    cache_bytes: float
    """Ops that touch no more than this run at ``cache_bytes_per_s``; 0 for no such cache."""
    cache_bytes_per_s: float
    launch_overhead_s: float
    """Time added per kernel that an op launches."""
    view_overhead_s: float
    """Time of a node that launches none, such as Reshape."""
    call_overhead_s: float
    """Time that one session call costs beside its ops."""
    efficiency: Mapping[str, Efficiency]
    """By kernel class (``dplace.graph_io.work``); ``other`` stands for what is missing."""
    link: str
    """Name of the preset that joins two such devices of one host."""
    host_link: str
    """Name of the preset that joins it to its host's memory."""
    source: str
    """Where the figures are from."""

    @property
    def has_nvlink(self) -> bool:
        """Return whether devices of this kind are joined by NVLink within a host."""
        return self.link.startswith("nvlink")


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkPreset:
    """What a transfer costs on one kind of link: an entry of profiles/data/links.yaml."""

    name: str
    aliases: tuple[str, ...]
    latency_s: float
    bytes_per_s: float
    """Bytes per second in one direction, as achieved."""
    contention: Contention
    """What serialises transfers on links of this kind."""
    source: str
    """Where the figures are from."""


def device_kinds() -> tuple[DeviceKind, ...]:
    """Return every kind that is shipped, in the file's order."""
    return _device_kinds()


def link_presets() -> tuple[LinkPreset, ...]:
    """Return every preset that is shipped, in the file's order."""
    return _link_presets()


def device_kind(name: str) -> DeviceKind:
    """Return the device kind called ``name``, in any case and by any alias.

    >>> device_kind("Tesla v100-sxm2-16gb").name
    'V100'

    Raises:
        ClusterError: There is no such kind; the message lists near names.
    """
    known = _kinds_by_name()
    if (kind := known.get(_plain(name))) is not None:
        return kind
    names = [kind.name for kind in device_kinds()]
    raise ClusterError(f"device kind {name!r}: unknown; {near_names(name, names)}")


def link_preset(name: str) -> LinkPreset:
    """Return the link preset called ``name``, in any case and by any alias.

    Raises:
        ClusterError: There is no such preset; the message lists near names.
    """
    known = _presets_by_name()
    if (preset := known.get(_plain(name))) is not None:
        return preset
    names = ["nvlink", *(preset.name for preset in link_presets())]
    raise ClusterError(f"link preset {name!r}: unknown; {near_names(name, names)}")


def near_names(name: str, known: Iterable[str]) -> str:
    """Return the part of a message that says which of the known names may have been meant.

    >>> near_names("V10", ["CPU", "V100", "A100-40GB"])
    'did you mean V100?'
    >>> near_names("zzz", ["CPU", "V100"])
    'known are CPU, V100'
    """
    by_plain = {_plain(candidate): candidate for candidate in known}
    near = difflib.get_close_matches(_plain(name), by_plain, n=4, cutoff=0.5)
    if near:
        return f"did you mean {' or '.join(by_plain[match] for match in near)}?"
    return f"known are {', '.join(by_plain.values())}"


def load_yaml(text: str | bytes) -> object:
    """Return the plain value that a YAML text describes.

    Raises:
        yaml.YAMLError: The text is not YAML.
    """
    value: object = yaml.load(text, Loader=_Loader)  # noqa: S506 (it is a safe loader)
    return value


def _plain(name: str) -> str:
    """Return a name as it is compared: lower case, dashes, no maker."""
    plain = "-".join(name.lower().replace("_", " ").split())
    for maker in ("nvidia-", "tesla-"):
        plain = plain.removeprefix(maker)
    return plain


def _read(file: str) -> dict[str, Any]:
    text = files("dplace.profiles.data").joinpath(file).read_bytes()
    content = load_yaml(text)
    assert isinstance(content, dict), file
    return content


@cache
def _device_kinds() -> tuple[DeviceKind, ...]:
    content = _read("devices.yaml")
    tables = {
        name: {kernel: Efficiency(**row) for kernel, row in table.items()}
        for name, table in content["efficiency"].items()
    }
    return tuple(
        DeviceKind(
            **{"cache_bytes": 0, "cache_bytes_per_s": 0.0}
            | entry
            | {
                "name": name,
                "aliases": tuple(entry.get("aliases", ())),
                "efficiency": tables[entry["efficiency"]],
            }
        )
        for name, entry in content["devices"].items()
    )


@cache
def _link_presets() -> tuple[LinkPreset, ...]:
    return tuple(
        LinkPreset(**entry | {"name": name, "aliases": tuple(entry.get("aliases", ()))})
        for name, entry in _read("links.yaml").items()
    )


@cache
def _kinds_by_name() -> dict[str, DeviceKind]:
    return {_plain(name): kind for kind in device_kinds() for name in (kind.name, *kind.aliases)}


@cache
def _presets_by_name() -> dict[str, LinkPreset]:
    return {
        _plain(name): preset for preset in link_presets() for name in (preset.name, *preset.aliases)
    }
