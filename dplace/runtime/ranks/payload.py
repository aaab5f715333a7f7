"""Held values as messages, and back; the bytes of tensors are neither copied nor changed.

Whatever its element type, a tensor's memory is sent as it lies there and received into the memory
of another: four-bit elements stay packed. NumPy is asked only for strings and for sequences, which
onnxruntime shows Python in no other form.
"""

import ctypes
import json
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnxruntime
import torch
from numpy.typing import NDArray
from torch.utils.dlpack import from_dlpack

from dplace.errors import DplaceError
from dplace.runtime.devices import RunDevice
from dplace.runtime.ranks.message import Buffer, Header, Kind, Message
from dplace.runtime.values import (
    CPU,
    DTYPES,
    FOREIGN,
    STRING,
    Held,
    NativeValue,
    dtype_of,
    hold,
    to_python,
)

__all__ = [
    "crosses",
    "decode",
    "device_bytes",
    "goes_directly",
    "messages_of",
    "order_message",
    "order_of",
    "room_for",
]


COMPLEX = (14, 15)
TYPES = {f"tensor({name})" for name, (number, _) in DTYPES.items() if number not in COMPLEX}
"""All tensor types of ONNX but the complex ones, which onnxruntime makes no values of."""
DIRECT_TYPES = {number for number, _ in DTYPES.values() if number <= 16} - {STRING, *COMPLEX}
"""Those up to bfloat16, which DLPack has names for."""
LENGTH = struct.Struct("<I")


def crosses(type_name: str) -> bool:
    """Return whether values of a type cross between processes: tensors and sequences of tensors.

    Of sequences, those of types that NumPy has: others onnxruntime shows Python in no form.

    >>> crosses("seq(tensor(float))"), crosses("map(int64,tensor(float))")
    (True, False)
    """
    if type_name.startswith("optional("):
        return crosses(type_name[len("optional(") : -1])
    if type_name.startswith("seq("):
        inner = type_name[len("seq(") : -1]
        return inner in TYPES and dtype_of(inner) not in FOREIGN
    return type_name in TYPES


def messages_of(held: Held, *, value: int, request: int, session: Any = None) -> list[Message]:
    """Return the messages that carry a value.

    Args:
        value: The value's number.
        session: Any onnxruntime session; sequences are read through one.

    Raises:
        DplaceError: A value that does not cross, such as a map.
    """
    if held is None:
        return [Message(header=Header(kind=Kind.ABSENT, value=value, request=request))]
    if type(held) is NativeValue and held.is_tensor():
        if held.element_type() == STRING:
            return [_strings(held.numpy(), value, request)]
        return [_tensor(held, held, value, request)]
    if isinstance(held, np.ndarray):
        return [_strings(held, value, request)]
    elements = held if isinstance(held, list) else to_python(held, session)
    if not isinstance(elements, list):
        name = getattr(held, "data_type", lambda: type(held).__name__)()
        raise DplaceError(f"a value of type {name} does not cross between processes")
    first = Header(kind=Kind.SEQUENCE, value=value, request=request, shape=(len(elements),))
    found = [Message(header=first)]
    for element in elements:
        inner, owner = hold(element if not np.isscalar(element) else np.asarray(element))
        if isinstance(inner, np.ndarray):
            found.append(_strings(inner, value, request))
        elif type(inner) is NativeValue:
            found.append(_tensor(inner, (inner, owner), value, request))
        else:
            raise DplaceError(
                f"a sequence of {type(element).__name__} does not cross between processes"
            )
    return found


def room_for(header: Header, device: RunDevice | None = None) -> tuple[Held, Buffer]:
    """Return what a payload is received into: for a tensor its own memory.

    Args:
        device: Where a payload that comes from an accelerator's memory goes.

    Returns:
        The value, None where it is only made of the payload, and the memory.
    """
    if header.kind is Kind.TENSOR:
        place = CPU
        if header.is_on_device and device is not None:
            place = onnxruntime.OrtDevice.make(device.memory, device.index)._get_c_device()
        held = NativeValue.ortvalue_from_shape_and_onnx_type(
            list(header.shape), header.element_type, place
        )
        if header.is_on_device:
            return held, device_bytes(held)
        return held, _memory(held.data_ptr(), header.size_bytes)
    return None, bytearray(header.size_bytes)


def decode(header: Header, held: Held, payload: Buffer) -> Held:
    """Return the value whose payload has been received into what ``room_for`` gave."""
    if header.kind is Kind.STRINGS:
        return _texts(header.shape, payload)
    return held


def order_message(content: dict[str, Any]) -> Message:
    """Return an order to another rank, or an answer."""
    payload = bytearray(json.dumps(content).encode())
    return Message(header=Header(kind=Kind.ORDER, size_bytes=len(payload)), payload=payload)


def order_of(payload: Buffer) -> dict[str, Any]:
    """Return the content of an order."""
    content: dict[str, Any] = json.loads(bytes(payload))
    return content


def goes_directly(held: Held) -> bool:
    """Return whether torch has a name for a value's type, so that its bytes can be had anywhere."""
    return type(held) is NativeValue and held.is_tensor() and held.element_type() in DIRECT_TYPES


def device_bytes(held: NativeValue) -> torch.Tensor:
    """Return the memory of a tensor that goes directly as bytes of torch's; nothing is copied."""
    return from_dlpack(held.to_dlpack()).reshape(-1).view(torch.uint8)


def _tensor(held: NativeValue, owner: object, value: int, request: int) -> Message:
    shape: tuple[int, ...] = tuple(held.shape())
    number: int = held.element_type()
    size: int = held.tensor_size_in_bytes()
    header = Header(
        kind=Kind.TENSOR,
        value=value,
        request=request,
        element_type=number,
        shape=shape,
        size_bytes=size,
        is_on_device=held.device_name().lower() != "cpu",
    )
    if header.is_on_device:
        return Message(header=header, payload=device_bytes(held), owner=owner)
    payload = _memory(held.data_ptr(), size) if size else bytearray()
    return Message(header=header, payload=payload, owner=owner)


def _memory(address: int, size: int) -> Buffer:
    return (ctypes.c_ubyte * size).from_address(address)


def _strings(array: NDArray[Any], value: int, request: int) -> Message:
    payload = bytearray()
    for element in array.reshape(-1).tolist():
        text = element if isinstance(element, bytes) else str(element).encode()
        payload += LENGTH.pack(len(text)) + text
    header = Header(
        kind=Kind.STRINGS,
        value=value,
        request=request,
        element_type=STRING,
        shape=array.shape,
        size_bytes=len(payload),
    )
    return Message(header=header, payload=payload)


def _texts(shape: Sequence[int], payload: Buffer) -> NDArray[np.object_]:
    content, texts, at = bytes(payload), [], 0
    while at < len(content):
        (length,) = LENGTH.unpack_from(content, at)
        at += LENGTH.size
        texts.append(content[at : at + length].decode())
        at += length
    array = np.empty(len(texts), dtype=np.object_)
    array[:] = texts
    return array.reshape(shape)
