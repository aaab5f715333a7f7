"""What this machine is, as far as measured times depend on it."""

import re
from datetime import UTC, datetime
from pathlib import Path

from dplace.errors import InputError
from dplace.profiles.catalogue import DeviceKind, device_kind
from dplace.profiles.store import Setting

__all__ = ["date_now", "is_here", "local_kind", "processor_name", "setting_here"]

_CPU = "CPUExecutionProvider"


def setting_here(kind: DeviceKind) -> Setting:
    """Return what measurements of a device kind depend on, as it is here."""
    from dplace.runtime.fingerprint import runtime_fingerprint

    return Setting(
        device=kind.name, processor=processor_name(), **runtime_fingerprint(kind.provider)
    )


def is_here(kind: DeviceKind) -> bool:
    """Return whether devices of a kind can be on this machine: whether their provider works."""
    return not _absence(kind)


def local_kind(name: str) -> DeviceKind:
    """Return the device kind called ``name``, which has to work here.

    Raises:
        ClusterError: There is no such kind.
        InputError: It is not on this machine.
    """
    kind = device_kind(name)
    if why := _absence(kind):
        raise InputError(
            f"device {kind.name}: not on this machine: {why}; run dplace profile on the machine "
            "that has it"
        )
    return kind


def _absence(kind: DeviceKind) -> str:
    """Return why a provider does not work here; nothing if it does."""
    if kind.provider == _CPU:
        return ""
    from dplace.runtime.devices import working_providers

    state = working_providers().get(kind.provider)
    if state is None:
        return f"this onnxruntime has no {kind.provider}"
    return "" if state == "works" else state


def processor_name(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """Return the name of the CPU's model, or what the system calls it."""
    try:
        found = re.search(r"^model name\s*:\s*(.+)$", cpuinfo.read_text(), re.MULTILINE)
    except OSError:
        found = None
    if found is not None:
        return " ".join(found[1].split())
    import platform

    return platform.processor() or platform.machine()


def date_now() -> str:
    """Return the date and time in UTC: ``2026-05-01T12:00:00Z``."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
