"""The plan as records: what ``plan.yaml`` holds, field by field."""

from dataclasses import dataclass
from typing import Literal

__all__ = [
    "FORMAT_VERSION",
    "HOST",
    "Part",
    "Plan",
    "PlannedDevice",
    "PlannedLinks",
    "Step",
    "StreamedWeight",
    "ValueType",
]

FORMAT_VERSION = 2
"""Raised whenever an older dplace could not run a newer plan."""

HOST = "host"
"""The peer of weights that come from host memory; no device has this name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueType:
    """Name and type of a value that the caller sees or that crosses between parts."""

    name: str
    type: str
    """As onnxruntime writes it: ``tensor(float)``, ``seq(tensor(int64))``, ..."""
    shape: tuple[int | str | None, ...] | None
    """Dimensions: a number, a symbol, or None where unknown; None for an unknown rank."""
    size_bytes: int = 0
    """Size at the dimensions that the prediction was made for."""


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
    overridable: tuple[str, ...]
    """Its initializers that the caller may feed another value for."""
    digest: str
    """``sha256:`` and the digest of the ONNX file."""
    weights_file: str | None
    weights_digest: str | None
    """Of the weights file that lies beside it, where there is one."""
    num_ops: int
    predicted_s: float
    """Compute time of its ops without the call's overhead, in seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamedWeight:
    """A weight that is sent to where it is read, anew for each request, and freed after its use.

    To the parts that read it it is an input of its name. ``receive`` in a device's program says
    where it is waited for; a ``send`` in the program of the device that is its home, that it comes
    from there. What comes from the host is sent by nobody's program.
    """

    name: str
    type: str
    """As onnxruntime writes it: ``tensor(float)``."""
    shape: tuple[int, ...]
    size_bytes: int
    home: str
    """A device of the plan, or ``host``: host memory, where rank 0 runs if there are several."""
    file: str
    """Path within the plan folder of the file that its bytes lie in, little-endian as in ONNX."""
    offset: int
    """Its first byte there."""
    digest: str
    """``sha256:`` and the digest of the whole file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One line of a device's program: run a part, send a value, or receive one."""

    action: Literal["run", "send", "receive"]
    subject: str
    """Name of the part or of the value."""
    peer: str | None = None
    """The device that the value goes to or comes from; ``host`` for weights of that home."""
    size_bytes: int = 0
    """Predicted size of the value that is sent."""
    priority: int = 0
    """Smaller goes first among transfers that are ready on one link; those of equal priority go in
    the order in which they became ready."""


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
    single_call_overhead_s: float | None = None
    """As in ``dplace.cluster.Device``; None too where an older dplace wrote the plan."""
    num_ops: int
    weight_bytes: int
    peak_bytes: int
    busy_s: float
    program: tuple[Step, ...]
    buffer_bytes: int = 0
    """Room for streamed weights: those on their way to the device and those not freed yet never
    take more. 0 where none is streamed to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedLinks:
    """What copies cost, as the prediction took it; rows are sources, in the order of devices."""

    latency_s: tuple[tuple[float, ...], ...]
    bytes_per_s: tuple[tuple[float, ...], ...]
    host_latency_s: tuple[float, ...]
    host_bytes_per_s: tuple[float, ...]
    contention: Literal["none", "link", "egress", "egress-ingress", "port"]


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
    exact: bool
    """Whether the outputs are promised to be, bit for bit, those of the whole model in one
    session at the same level."""
    runtime: dict[str, str]
    """onnxruntime version, provider and CPU features that a ``native`` plan is bound to."""
    makespan_s: float
    """Predicted time of one request."""
    bottleneck_s: float
    """Predicted time between two results of a stream of requests."""
    bound_s: float
    best_single_device_s: float
    """These two are of what the objective makes small."""
    inputs: tuple[ValueType, ...]
    outputs: tuple[ValueType, ...]
    """Outputs in the model's order; one that the model lists twice is here twice."""
    overridable: tuple[ValueType, ...]
    """Initializers that the caller may feed another value for, as onnxruntime has it."""
    passthrough: tuple[tuple[str, str], ...]
    """Outputs that are graph inputs as they are: (output, input)."""
    devices: tuple[PlannedDevice, ...]
    parts: tuple[Part, ...]
    values: tuple[ValueType, ...]
    """Every value that crosses between parts."""
    links: PlannedLinks
    dims: dict[str, int]
    """Sizes of dynamic dimensions that the prediction was made for."""
    index_limits: dict[str, int]
    """Rows of the table that an integer input indexes: drawn inputs stay below it."""
    comm_order: str = "fifo"
    """How the priorities of transfers were found: see ``dplace.schedule``."""
    streamed: tuple[StreamedWeight, ...] = ()

    @property
    def objective_s(self) -> float:
        """Return what the objective makes small."""
        return self.bottleneck_s if self.objective == "throughput" else self.makespan_s
