"""One part in its session: held values in, held values out."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

from dplace.errors import DplaceError
from dplace.runtime.devices import RunDevice, open_session
from dplace.runtime.values import FOREIGN, Held, NativeValue, NativeVector, copy_in, dtype_of

__all__ = ["LoadedPart"]


class LoadedPart:
    """A part that is ready to run; only the thread of its device may call it.

    The public ``run_with_ort_values`` takes 80 us to walk through its results, the native call
    below it 8 us, and an IOBinding 11 us (onnxruntime 1.31, one small op).
    """

    def __init__(
        self,
        name: str,
        model: Path | bytes,
        inputs: Sequence[str],
        device: RunDevice,
        *,
        label: str,
        level: str,
        fixed_shapes: bool = False,
    ) -> None:
        """Open a session.

        Args:
            inputs: Order of the values that ``run`` is fed.
            label: What to call the part if it cannot be opened.
            level: onnxruntime's graph optimization level.
            fixed_shapes: Every run has the same shapes.
        """
        self.name = name
        self.device = device
        self.inputs = tuple(inputs)
        self.session = open_session(
            model, device, level=level, label=label, fixed_shapes=fixed_shapes
        )
        self._types = {output.name: output.type for output in self.session.get_outputs()}
        self._optional = frozenset(
            name for name, type_name in self._types.items() if type_name.startswith("optional")
        )
        self._native = self.session._sess

    def run(self, outputs: Sequence[str], feeds: Sequence[Held], options: Any) -> list[Held]:
        """Return the values of ``outputs``.

        Args:
            feeds: In the order of ``inputs``; None for an absent optional, or for an initializer
                that keeps its value.
            options: onnxruntime's RunOptions, or None.
        """
        named = {
            name: held
            for name, held in zip(self.inputs, feeds, strict=True)
            if held is not None  # an OrtValue that holds nothing would end the process
        }
        for held in named.values():
            if type(held) is not NativeValue:
                return self._run_with_objects(outputs, named, options)
        if not self.device.is_cpu:
            return self._run_bound(outputs, named, options)
        found = self._native.run_with_ort_values(named, outputs, options)
        return self._split(found, outputs)

    def _split(self, found: NativeVector, outputs: Sequence[str]) -> list[Held]:
        """Return the entries of a native vector, each of which can be freed for itself."""
        if len(outputs) == 1:
            results = [found[0]]
        else:
            # An entry keeps its whole vector alive.
            results = []
            for index in range(len(outputs)):
                alone = NativeVector()
                alone.push_back(found[index])
                results.append(alone[0])
        if self._optional:
            for index, name in enumerate(outputs):
                if name in self._optional and not results[index].has_value():
                    results[index] = None
        return results

    def _run_with_objects(
        self, outputs: Sequence[str], named: dict[str, Held], options: Any
    ) -> list[Held]:
        """Run with strings, lists or maps among the feeds: these only ``run`` itself takes.

        Raises:
            DplaceError: An output is of a type that ``run`` cannot return.
        """
        for name in outputs:
            if dtype_of(self._types[name]) in FOREIGN:
                raise DplaceError(
                    f'part {self.name}: onnxruntime cannot return "{name}" of type '
                    f"{self._types[name]} from a part that is fed strings, lists or maps"
                )
        feeds = {
            name: onnxruntime.OrtValue(held) if type(held) is NativeValue else held
            for name, held in named.items()
        }
        found = self._native.run(outputs, feeds, options)
        # Copied, for a held value does not keep the array alive that it would be made of.
        return [copy_in(value) if _is_numeric(value) else value for value in found]

    def _run_bound(
        self, outputs: Sequence[str], named: dict[str, Held], options: Any
    ) -> list[Held]:
        """Run on an accelerator and leave the tensors there.

        Not run so far: no machine with a GPU was at hand.
        """
        binding = self.session.io_binding()
        for name, held in named.items():
            binding.bind_ortvalue_input(name, onnxruntime.OrtValue(held))
        for name in outputs:
            stays = dtype_of(self._types[name]) not in (None, np.dtype(np.object_))
            if stays:
                binding.bind_output(name, self.device.memory, self.device.index)
            else:
                binding.bind_output(name, "cpu")
        self.session.run_with_iobinding(binding, options)
        return self._split(binding.get_outputs_as_ortvaluevector(), outputs)


def _is_numeric(value: object) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind not in "OUS"
