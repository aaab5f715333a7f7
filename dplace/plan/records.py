"""The plan as records: what ``plan.yaml`` holds, field by field."""

from dataclasses import dataclass
from typing import Literal

__all__ = ["FORMAT_VERSION", "Part", "Plan", "PlannedDevice", "Step", "ValueType"]

FORMAT_VERSION = 1
"""Raised whenever an older dplace could not run a newer plan."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueType:
    """Name and type of a value that the caller sees or that crosses between parts."""

    name: str
    type: str
    """As onnxruntime writes it: ``tensor(float)``, ``seq(tensor(int64))``, ..."""
    shape: tuple[int | str | None, ...] | None
    """Dimensions: a number, a symbol, or None where unknown; None for an unknown rank."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A piece of the model that runs in one session call on one device."""

    name: str
    file: str
    """Path of the ONNX file within the plan folder, such as ``parts/cpu0-000.onnx``."""
    device: str
    inputs: tuple[str, ...]
    """Values it reads: graph inputs, or outputs of other parts."""
    outputs: tuple[str, ...]
    digest: str
    """``sha256:`` and the digest of the ONNX file."""
    weights_file: str | None
    weights_digest: str | None
    """Of the weights file that lies beside it, where there is one."""
    num_ops: int
    predicted_s: float
    """Compute time of its ops without the call's overhead, in seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One line of a device's program: run a part, send a value, or receive one."""

    action: Literal["run", "send", "receive"]
    subject: str
    """Name of the part or of the value."""
    peer: str | None = None
    """The device that the value goes to or comes from."""
    size_bytes: int = 0
    """Predicted size of the value that is sent."""
    priority: int = 0
    """Smaller goes first among transfers that are ready on one link."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedDevice:
    """A device of the plan and its program."""

    name: str
    kind: str
    provider: str
    index: int
    host: int
    memory_bytes: int
    call_overhead_s: float
    num_ops: int
    weight_bytes: int
    peak_bytes: int
    busy_s: float
    program: tuple[Step, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """All that is needed to run a placed model."""

    model: str
    model_digest: str
    cluster: str
    objective: str
    policy: str
    optimize: Literal["native", "portable", "none"]
    opt_level: Literal["all", "extended", "basic", "none"]
    """The graph optimisation level that the whole model was, or the parts are, optimised at."""
    runtime: dict[str, str]
    """onnxruntime version, provider and CPU features that a ``native`` plan is bound to."""
    makespan_s: float
    bound_s: float
    best_single_device_s: float
    inputs: tuple[ValueType, ...]
    outputs: tuple[ValueType, ...]
    passthrough: tuple[tuple[str, str], ...]
    """Outputs that are graph inputs as they are: (output, input)."""
    devices: tuple[PlannedDevice, ...]
    parts: tuple[Part, ...]
    values: tuple[ValueType, ...]
    """Type of every value that crosses between devices or parts."""
    dims: dict[str, int]
    """Sizes of dynamic dimensions that the prediction was made for."""
