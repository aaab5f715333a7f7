"""Values at the border of onnxruntime: arrays in, OrtValues between parts, arrays out.

Inside, a value is *held* as the OrtValue of onnxruntime's native layer, whose Python wrapper costs
as much as a small part. NumPy has no bfloat16, float8, float4, int4 or int2: such tensors go in and
come out as arrays of ml_dtypes. Three kinds cannot become an OrtValue from Python and are held as
they are: strings, and the lists and maps of sequence and map inputs. An absent optional is None.
"""

import ctypes
from collections.abc import Sequence
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np
import onnxruntime
from numpy.typing import NDArray
from onnxruntime.capi import onnxruntime_pybind11_state as native

from dplace.errors import InputError

__all__ = [
    "FOREIGN",
    "Held",
    "NativeValue",
    "NativeVector",
    "Value",
    "copy_in",
    "dtype_of",
    "hold",
    "tensor_over",
    "to_ort_value",
    "to_python",
    "type_of_array",
]

Value: TypeAlias = Any
"""What a caller gives or gets: an array, an OrtValue, a list, a map or None.

Any, because onnxruntime ships no types and a caller of ``run`` knows what the model returns.
"""
Held: TypeAlias = Any
"""A value between parts: a NativeValue, an array of strings, a list, a map or None."""

NativeValue: TypeAlias = native.OrtValue
NativeVector: TypeAlias = native.OrtValueVector

CPU = onnxruntime.OrtDevice.make("cpu", 0)._get_c_device()

STRING = 8

DTYPES: dict[str, tuple[int, np.dtype[Any]]] = {
    "float": (1, np.dtype(np.float32)),
    "uint8": (2, np.dtype(np.uint8)),
    "int8": (3, np.dtype(np.int8)),
    "uint16": (4, np.dtype(np.uint16)),
    "int16": (5, np.dtype(np.int16)),
    "int32": (6, np.dtype(np.int32)),
    "int64": (7, np.dtype(np.int64)),
    "string": (STRING, np.dtype(np.object_)),
    "bool": (9, np.dtype(np.bool_)),
    "float16": (10, np.dtype(np.float16)),
    "double": (11, np.dtype(np.float64)),
    "uint32": (12, np.dtype(np.uint32)),
    "uint64": (13, np.dtype(np.uint64)),
    "complex64": (14, np.dtype(np.complex64)),
    "complex128": (15, np.dtype(np.complex128)),
    "bfloat16": (16, np.dtype(ml_dtypes.bfloat16)),
    "float8e4m3fn": (17, np.dtype(ml_dtypes.float8_e4m3fn)),
    "float8e4m3fnuz": (18, np.dtype(ml_dtypes.float8_e4m3fnuz)),
    "float8e5m2": (19, np.dtype(ml_dtypes.float8_e5m2)),
    "float8e5m2fnuz": (20, np.dtype(ml_dtypes.float8_e5m2fnuz)),
    "uint4": (21, np.dtype(ml_dtypes.uint4)),
    "int4": (22, np.dtype(ml_dtypes.int4)),
    "float4e2m1": (23, np.dtype(ml_dtypes.float4_e2m1fn)),
    "float8e8m0": (24, np.dtype(ml_dtypes.float8_e8m0fnu)),
    "uint2": (25, np.dtype(ml_dtypes.uint2)),
    "int2": (26, np.dtype(ml_dtypes.int2)),
}
"""Element types as onnxruntime writes them: number in ONNX's TensorProto, and NumPy's type."""

FOREIGN = {dtype: number for number, dtype in DTYPES.values() if number >= 16}
FOREIGN_NUMBERS = {number: dtype for dtype, number in FOREIGN.items()}
BITS = {21: 4, 22: 4, 23: 4, 25: 2, 26: 2}
"""Elements smaller than a byte, packed with the first in the lowest bits."""
TYPES = {dtype: f"tensor({name})" for name, (_, dtype) in DTYPES.items()}


def dtype_of(type_name: str) -> np.dtype[Any] | None:
    """Return NumPy's type for onnxruntime's tensor type, None for what is no tensor.

    >>> dtype_of("tensor(double)")
    dtype('float64')
    """
    if not type_name.startswith("tensor("):
        return None
    entry = DTYPES.get(type_name[7:-1])
    return None if entry is None else entry[1]


def type_of_array(array: NDArray[Any]) -> str:
    """Return onnxruntime's name for the type of an array, NumPy's where it has none."""
    if array.dtype.kind in "OUS":
        return "tensor(string)"
    return TYPES.get(array.dtype.newbyteorder("="), str(array.dtype))


def hold(value: Value) -> tuple[Held, object]:
    """Take a value in; nothing that NumPy and onnxruntime both know is copied.

    Returns:
        The held value, and what has to stay alive for as long as it does.
    """
    if isinstance(value, onnxruntime.OrtValue):
        # Even asking an absent optional for its type ends the process, so None stands for it.
        return (value._ortvalue if value.has_value() else None), value
    if not isinstance(value, np.ndarray):
        return value, value
    dtype = value.dtype
    if not (dtype.isbuiltin == 1 and value.flags.carray):
        if dtype.kind in "OUS":
            return value, value
        if dtype in FOREIGN:
            return copy_in(value), None
        # onnxruntime reads the bytes as they lie, those of the other byte order too.
        value = np.require(value, dtype.newbyteorder("="), ["C", "A"])
    elif dtype.kind == "O":
        return value, value
    return NativeValue.ortvalue_from_numpy(value, CPU), value


def to_ort_value(value: Value, type_name: str) -> onnxruntime.OrtValue:
    """Return an OrtValue of the type ``type_name``.

    Raises:
        InputError: onnxruntime has no way to make one, as for strings.
    """
    dtype = dtype_of(type_name)
    if dtype is not None and not isinstance(value, onnxruntime.OrtValue):
        value = np.asarray(value, dtype=dtype)
    held, owner = hold(value)
    if type(held) is not NativeValue:
        raise InputError(f"onnxruntime makes no OrtValue of type {type_name} from Python")
    return onnxruntime.OrtValue(held, owner)


def to_python(held: Held, session: Any = None) -> Value:
    """Return a held value as ``InferenceSession.run`` would, arrays without a copy.

    Tensors that NumPy cannot hold come as arrays of ml_dtypes; sequences of such, which
    onnxruntime has no way to read, stay an OrtValue.

    Args:
        session: Any onnxruntime session; sequences and maps are read through one.
    """
    if type(held) is not NativeValue:
        return held
    if held.is_tensor():
        return _unpack(held) if held.element_type() in FOREIGN_NUMBERS else held.numpy()
    if session is None:
        return onnxruntime.OrtValue(held)
    # Only a binding turns a sequence into a list; it does not ask whether a run made it.
    binding = session.io_binding()
    binding.bind_ortvalue_output("value", onnxruntime.OrtValue(held))
    try:
        return binding.copy_outputs_to_cpu()[0]
    except RuntimeError:
        return onnxruntime.OrtValue(held)


def copy_in(array: NDArray[Any]) -> NativeValue:
    """Return a tensor that owns its memory, of any type but strings."""
    number, _ = DTYPES[TYPES[array.dtype.newbyteorder("=")][7:-1]]
    value = NativeValue.ortvalue_from_shape_and_onnx_type(list(array.shape), number, CPU)
    content = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("=")).reshape(-1)
    bits = BITS.get(number, 8)
    if bits < 8:
        per_byte = 8 // bits
        content = content.view(np.uint8)
        padded = np.zeros(-(-content.size // per_byte) * per_byte, dtype=np.uint8)
        padded[: content.size] = content & (2**bits - 1)
        shifts = np.arange(0, 8, bits, dtype=np.uint8)
        content = np.bitwise_or.reduce(padded.reshape(-1, per_byte) << shifts, axis=1)
    if content.nbytes:
        content = np.ascontiguousarray(content)
        ctypes.memmove(value.data_ptr(), content.ctypes.data, content.nbytes)
    return value


def tensor_over(memory: memoryview, type_name: str, shape: Sequence[int]) -> NativeValue:
    """Return a tensor whose elements are the bytes of ``memory``, which has to outlive it.

    Args:
        memory: As many bytes as the tensor has.
        type_name: A type whose elements are whole bytes, and no strings.
    """
    number, dtype = DTYPES[type_name[7:-1]]
    if dtype in FOREIGN:
        stand_in = np.frombuffer(memory, dtype=f"u{dtype.itemsize}").reshape(shape)
        return NativeValue.ortvalue_from_numpy_with_onnx_type(stand_in, number)
    return NativeValue.ortvalue_from_numpy(np.frombuffer(memory, dtype=dtype).reshape(shape), CPU)


def _unpack(held: NativeValue) -> NDArray[Any]:
    """Return a copy of a tensor as an array of ml_dtypes."""
    number = held.element_type()
    shape: Sequence[int] = held.shape()
    dtype, size = FOREIGN_NUMBERS[number], held.tensor_size_in_bytes()
    if not size:
        return np.zeros(shape, dtype=dtype)
    elements = np.frombuffer(ctypes.string_at(held.data_ptr(), size), dtype=np.uint8)
    bits = BITS.get(number, 8)
    if bits < 8:
        shifts = np.arange(0, 8, bits, dtype=np.uint8)
        elements = (elements[:, None] >> shifts & (2**bits - 1)).reshape(-1)
        elements = elements[: int(np.prod(shape))]
    array: NDArray[Any] = elements.view(dtype).reshape(shape).copy()
    return array
