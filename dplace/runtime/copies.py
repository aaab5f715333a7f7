"""Copies out of an accelerator's memory; into one, onnxruntime copies what a part is fed.

Not run so far: no machine with a GPU was at hand.
"""

from collections.abc import Callable

import onnxruntime

from dplace.runtime.devices import RunDevice
from dplace.runtime.values import Held, NativeValue, hold

__all__ = ["copy_from"]


def copy_from(target: RunDevice | None) -> Callable[[Held], Held]:
    """Return the copy to ``target``'s memory, or to the host's for None or a CPU device."""
    if target is None or target.is_cpu:
        return lambda held: _copy(held, "cpu", 0)
    return lambda held: _copy(held, target.memory, target.index)


def _copy(held: Held, memory: str, index: int) -> Held:
    if (
        type(held) is not NativeValue
        or not held.is_tensor()
        or held.device_name().lower() == memory == "cpu"  # onnxruntime writes Cpu
    ):
        return held  # strings, sequences and absent optionals are in host memory
    source = onnxruntime.OrtValue(held)
    try:
        target = onnxruntime.OrtValue.ortvalue_from_shape_and_type(
            held.shape(), held.element_type(), memory, index
        )
        onnxruntime.copy_tensors([source], [target])
    except RuntimeError:
        # No direct way between the two: through the host, from where the part uploads it.
        return hold(source.numpy().copy())[0] if memory == "cpu" else _copy(held, "cpu", 0)
    return target._ortvalue
