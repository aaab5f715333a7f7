"""The hardware a model is placed on: devices and the links between them."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dplace.errors import ClusterError

__all__ = ["Cluster", "Contention", "Device"]

Contention = Literal["none", "link", "egress", "egress-ingress", "port"]
"""What serialises transfers: nothing, each ordered pair of devices, the source's outgoing side,
both the source's outgoing and the target's incoming side, or one half-duplex port a device."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """One processor that runs ops one after another."""

    name: str
    """Unique name within the cluster, such as ``cpu:0`` or ``gpu:3``."""
    kind: str
    """Name of its device profile, such as ``CPU`` or ``V100``."""
    provider: str
    """The onnxruntime execution provider that drives it, such as ``CPUExecutionProvider``."""
    index: int
    """Device id within its host: the core of a CPU device, the CUDA ordinal of a GPU."""
    host: int
    """Number of the host that it sits in."""
    memory_bytes: int
    """Memory that weights and activations may take; above 0."""
    call_overhead_s: float
    """Time that one session call costs beside its ops, in seconds; at least 0."""
    single_call_overhead_s: float | None = None
    """The same for a CPU device that has all ops: its requests run in the caller's thread, so they
    pay this and no latency between host memory and the device. None if it is no different."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Cluster:
    """Devices and what a transfer between two of them costs.

    The transfer time is the latency-bandwidth model of Hockney, Parallel Computing 20(3), 1994:
    ``latency + bytes / bandwidth``.
    """

    spec: str
    """How the user wrote it, such as ``4xV100@nvlink``, or the file's name."""
    devices: tuple[Device, ...]
    latency_s: NDArray[np.float64]
    """Shape ``(num_devices, num_devices)``, from row to column; 0 on the diagonal."""
    bytes_per_s: NDArray[np.float64]
    """Shape ``(num_devices, num_devices)``, one way; ``inf`` on the diagonal, 0 for no link."""
    host_latency_s: NDArray[np.float64]
    """Shape ``(num_devices,)``: latency of a copy between the caller's memory and the device; the
    caller is on the first device's host."""
    host_bytes_per_s: NDArray[np.float64]
    """Shape ``(num_devices,)``: bandwidth of such a copy."""
    contention: Contention = "link"

    def __post_init__(self) -> None:
        if not self.devices:
            raise ClusterError(f"cluster {self.spec}: expected at least one device, got none")
        num = len(self.devices)
        if self.latency_s.shape != (num, num) or self.bytes_per_s.shape != (num, num):
            raise ClusterError(f"cluster {self.spec}: link matrices must be {num} x {num}")
        for device in self.devices:
            if device.memory_bytes <= 0:
                raise ClusterError(
                    f"device {device.name}: memory_bytes must be above 0, got {device.memory_bytes}"
                )
        if np.any(self.latency_s < 0) or np.any(self.bytes_per_s < 0):
            raise ClusterError(f"cluster {self.spec}: latencies and bandwidths must be at least 0")
        for row, column in np.argwhere(self.bytes_per_s == 0):
            if row != column:
                raise ClusterError(
                    f"cluster {self.spec}: no link from {self.devices[row].name} to "
                    f"{self.devices[column].name}; every pair of devices needs one, in both "
                    "directions"
                )

    @property
    def num_devices(self) -> int:
        """Return the number of devices."""
        return len(self.devices)

    def device_index(self, name: str) -> int:
        """Return the index of the device called ``name``.

        Raises:
            ClusterError: There is no such device.
        """
        for index, device in enumerate(self.devices):
            if device.name == name:
                return index
        known = ", ".join(device.name for device in self.devices)
        raise ClusterError(f"cluster {self.spec}: no device {name!r}; it has {known}")
