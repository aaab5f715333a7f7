"""Devices as onnxruntime drives them: are they here, which core is theirs, how sessions open.

**Memory.** All parts on CPU devices share one arena, so that a buffer that one part has freed
serves the next one, and a plan of many parts needs no more memory than the whole model. The arena
belongs to onnxruntime's environment, of which a process has one: closing a session gives its
weights back, while the arena keeps the memory of activations for the next session. Memory patterns
are on only where all shapes are fixed: onnxruntime keeps one for every new input shape, so memory
would rise with each.
"""

import logging
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import onnxruntime

from dplace.errors import DplaceError, PlanError
from dplace.plan.records import Plan, PlannedDevice
from dplace.runtime.reason import reason

__all__ = [
    "CPU_PROVIDER",
    "RunDevice",
    "cores_of",
    "open_session",
    "provider_of",
    "resolve_devices",
    "session_options",
    "usable_cores",
    "working_providers",
]

CPU_PROVIDER = "CPUExecutionProvider"

LOGGER = logging.getLogger(__name__)

LEVELS = {
    "all": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL,
    "extended": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
    "basic": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC,
    "none": onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL,
}

SILENT = 4
ORT_DEFAULT_SEVERITY = 2

# A float [1] through Identity, IR 7, opset 13: the smallest thing that every provider takes.
TRIAL_MODEL = (
    b'\x08\x07:7\n\x10\n\x01x\x12\x01y"\x08Identity\x12\x01gZ\x0f\n\x01x\x12\n\n\x08\x08\x01\x12\x04'
    b"\n\x02\x08\x01b\x0f\n\x01y\x12\n\n\x08\x08\x01\x12\x04\n\x02\x08\x01B\x04\n\x00\x10\r"
)

_arena_lock = threading.Lock()
_arena_is_shared = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDevice:
    """A device of the plan on this machine."""

    name: str
    provider: str
    index: int
    """Device id of an accelerator; unused for the CPU."""
    core: int | None
    """The core that a CPU device is pinned to; None where threads cannot be pinned."""

    @property
    def is_cpu(self) -> bool:
        """Return whether values live in host memory."""
        return self.provider == CPU_PROVIDER

    @property
    def memory(self) -> str:
        """Return onnxruntime's name for the device's memory: ``cpu``, ``cuda``, ..."""
        return MEMORIES.get(self.provider, "cuda")

    @property
    def providers(self) -> list[tuple[str, dict[str, str]] | str]:
        """Return what a session on this device asks for; the CPU takes what no kernel is for."""
        if self.is_cpu:
            return [CPU_PROVIDER]
        return [(self.provider, {"device_id": str(self.index)}), CPU_PROVIDER]


MEMORIES = {
    CPU_PROVIDER: "cpu",
    "CUDAExecutionProvider": "cuda",
    "TensorrtExecutionProvider": "cuda",
    "DmlExecutionProvider": "dml",
    "CANNExecutionProvider": "cann",
}


def session_options(level: str, *, fixed_shapes: bool = False) -> onnxruntime.SessionOptions:
    """Return the options of every session that dplace runs: one thread, no spinning, no noise."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = LEVELS[level]
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    options.enable_mem_pattern = fixed_shapes
    options.log_severity_level = 3
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.add_session_config_entry("session.inter_op.allow_spinning", "0")
    if _share_arena():
        options.add_session_config_entry("session.use_env_allocators", "1")
        # Weights stay out of the arena, so that closing a session frees them.
        options.add_session_config_entry("session.use_device_allocator_for_initializers", "1")
    return options


def _share_arena() -> bool:
    """Make the arena that all CPU sessions share; return whether there is one."""
    global _arena_is_shared  # onnxruntime's environment is one for the process, too
    with _arena_lock:
        if not _arena_is_shared:
            memory = onnxruntime.OrtMemoryInfo(
                "Cpu",
                onnxruntime.OrtAllocatorType.ORT_ARENA_ALLOCATOR,
                0,
                onnxruntime.OrtMemType.DEFAULT,
            )
            try:
                onnxruntime.create_and_register_allocator(memory, None)
            except RuntimeError as error:
                LOGGER.debug("no shared arena, every session has its own: %s", reason(error))
                return False
            _arena_is_shared = True
    return True


def open_session(
    model: Path | bytes,
    device: RunDevice,
    *,
    level: str,
    label: str,
    fixed_shapes: bool = False,
) -> onnxruntime.InferenceSession:
    """Return a session on ``device``; the caller has to be in the thread that will run it.

    Raises:
        PlanError: onnxruntime does not take the model.
        DplaceError: The device is not here or does not work.
    """
    source = os.fspath(model) if isinstance(model, Path) else model
    try:
        # The fallback prints to standard output and would hide that the device is missing.
        session = onnxruntime.InferenceSession(
            source,
            session_options(level, fixed_shapes=fixed_shapes),
            providers=device.providers,
            enable_fallback=0,
        )
    # onnxruntime's errors share no base below Exception.
    except Exception as error:
        raise PlanError(f"{label}: onnxruntime refuses it: {reason(error)}") from error
    if device.provider not in session.get_providers():
        raise DplaceError(
            f"device {device.name}: {device.provider} does not work on this machine; "
            "give --allow-cpu to let a CPU stand in for it"
        )
    return session


def working_providers() -> dict[str, str]:
    """Return for each provider that onnxruntime lists ``works``, or why it does not.

    Listed is what was compiled in. What works is known after a session was made, for onnxruntime
    takes the CPU without a word where a provider does not load.
    """
    found: dict[str, str] = {}
    with _silence():
        for name in onnxruntime.get_available_providers():
            device = RunDevice(name=name, provider=name, index=0, core=None)
            try:
                open_session(TRIAL_MODEL, device, level="none", label=name)
            except PlanError as error:
                found[name] = reason(error.__cause__ or error)
            except DplaceError:
                found[name] = "onnxruntime lists it, but cannot load it or finds no device"
            else:
                found[name] = "works"
    return found


@contextmanager
def _silence() -> Iterator[None]:
    """Keep onnxruntime from writing to standard error that a provider does not load."""
    onnxruntime.set_default_logger_severity(SILENT)
    try:
        yield
    finally:
        onnxruntime.set_default_logger_severity(ORT_DEFAULT_SEVERITY)


def usable_cores() -> tuple[int, ...]:
    """Return the cores that this thread may run on, or as many numbers as there are cores."""
    if hasattr(os, "sched_getaffinity"):
        return tuple(sorted(os.sched_getaffinity(0)))
    return tuple(range(os.cpu_count() or 1))


def resolve_devices(plan: Plan, *, allow_cpu: bool) -> tuple[RunDevice, ...]:
    """Return the devices of ``plan`` as they are driven here.

    Raises:
        PlanError: The plan is for several hosts.
        DplaceError: A device is not here, and the CPU may not stand in for it.
    """
    hosts = {device.host for device in plan.devices}
    if len(hosts) > 1 and not allow_cpu:
        raise PlanError(
            f"the plan of {plan.model} is for {len(hosts)} hosts, and this is one; start a process "
            "for each device, as dplace run PLAN --hosts says, or give --allow-cpu to run it on "
            "this machine's CPU"
        )
    missing = [] if len(hosts) > 1 else _missing(plan.devices)
    if missing and not allow_cpu:
        raise DplaceError(_not_here(*missing[0]))
    stand_ins = {name for name, _ in missing}
    if len(hosts) > 1:
        stand_ins = {device.name for device in plan.devices if device.provider != CPU_PROVIDER}
    if stand_ins:
        LOGGER.warning("the CPU stands in for %s", ", ".join(sorted(stand_ins)))
    driven = [
        (device, CPU_PROVIDER if device.name in stand_ins else device.provider)
        for device in plan.devices
    ]
    on_cpu = [device for device, provider in driven if provider == CPU_PROVIDER]
    cores = cores_of(on_cpu)
    return tuple(
        RunDevice(
            name=device.name, provider=provider, index=device.index, core=cores.get(device.name)
        )
        for device, provider in driven
    )


def provider_of(device: PlannedDevice, *, allow_cpu: bool) -> str:
    """Return the provider that a device of a plan is driven by on this machine.

    Raises:
        DplaceError: The device is not here, and the CPU may not stand in for it.
    """
    missing = _missing([device])
    if not missing:
        return device.provider
    if not allow_cpu:
        raise DplaceError(_not_here(*missing[0]))
    LOGGER.warning("the CPU stands in for %s", device.name)
    return CPU_PROVIDER


def _not_here(name: str, why: str) -> str:
    return (
        f"device {name}: not on this machine ({why}); give --allow-cpu to let a CPU stand in for it"
    )


def _missing(devices: Sequence[PlannedDevice]) -> list[tuple[str, str]]:
    """Return name and reason of each device whose provider does not work here."""
    missing: list[tuple[str, str]] = []
    listed = onnxruntime.get_available_providers()
    for device in devices:
        if device.provider == CPU_PROVIDER:
            continue
        if device.provider not in listed:
            missing.append((device.name, f"this onnxruntime has no {device.provider}"))
            continue
        trial = RunDevice(name=device.name, provider=device.provider, index=device.index, core=None)
        try:
            with _silence():
                open_session(TRIAL_MODEL, trial, level="none", label=device.name)
        except DplaceError as error:
            cause = error.__cause__
            why = reason(cause) if cause else f"{device.provider} cannot be loaded"
            missing.append((device.name, why))
    return missing


def cores_of(devices: Sequence[PlannedDevice], *, say: bool = True) -> dict[str, int]:
    """Return the core of each CPU device: the one it is numbered by, if all of those are here.

    Args:
        say: Warn if there are not enough.
    """
    if not hasattr(os, "sched_setaffinity"):
        return {}
    cores = usable_cores()
    if len(devices) > len(cores) and say:
        LOGGER.warning(
            "the plan has %d CPU devices and this process may use %d of the cores: they share, "
            "and take longer than predicted",
            len(devices),
            len(cores),
        )
    indices = [device.index for device in devices]
    if len(set(indices)) < len(indices) or max(indices, default=0) >= len(cores):
        indices = list(range(len(devices)))
    return {
        device.name: cores[index % len(cores)]
        for device, index in zip(devices, indices, strict=True)
    }
