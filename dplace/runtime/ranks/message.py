"""What crosses a link: a header of fixed size, and behind it the bytes that it announces.

A small payload travels in the header's own message, so that a shape or a flag costs one message.
More than eight dimensions follow in a message between the two. All numbers are little-endian, but
for the elements of tensors, which go as they lie in memory.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any, TypeAlias

__all__ = ["HEADER_BYTES", "INLINE", "PIECE_BYTES", "Buffer", "Header", "Kind", "Message"]

Buffer: TypeAlias = Any
"""Writable bytes: a bytearray, a ctypes array over a value's memory, or a tensor of torch's over
that of an accelerator."""

HEADER_BYTES = 512
PIECE_BYTES = 4 * 2**20
"""What larger payloads are cut into: half a minute at 1 Mbit/s, so that no link in use is taken
for one that stalls."""
MAGIC = b"dpl1"
MAX_DIMS = 8
HEADER = struct.Struct(f"<4sBB?xHxxIQQ{MAX_DIMS}q")
INLINE = slice(HEADER.size, HEADER_BYTES)
"""Where a small payload lies in the header's message."""
INLINE_BYTES = HEADER_BYTES - HEADER.size
DIM_BYTES = 8


class Kind(IntEnum):
    """What a message is."""

    TENSOR = 1
    STRINGS = 2
    """A tensor of strings: of each its length, four bytes, then all of them in UTF-8."""
    ABSENT = 3
    """An optional that holds nothing, or an input that was not given."""
    SEQUENCE = 4
    """Announces as many tensors as its one dimension says; they are the next messages."""
    ORDER = 5
    """JSON from rank to rank: what to do, or what came of it."""
    ASK = 6
    """A target has room for a streamed weight."""
    BYE = 7
    """The last message of a link."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What the receiver has to know to take the payload."""

    kind: Kind
    value: int = 0
    """Number of the value among those of the plan."""
    request: int = 0
    element_type: int = 0
    """ONNX's number."""
    shape: tuple[int, ...] = ()
    size_bytes: int = 0
    """Of the payload."""
    is_on_device: bool = False
    """Whether the payload goes from accelerator to accelerator, beside the host's memory."""

    @property
    def is_inline(self) -> bool:
        """Return whether the payload travels in the header's message."""
        return self.size_bytes <= INLINE_BYTES and not self.is_on_device

    @property
    def shape_bytes(self) -> int:
        """Return the size of the message that the shape needs for itself, 0 for none."""
        return DIM_BYTES * len(self.shape) if len(self.shape) > MAX_DIMS else 0

    def pack(self, buffer: bytearray) -> None:
        """Write the header to the start of ``buffer``."""
        dims = self.shape if not self.shape_bytes else ()
        HEADER.pack_into(
            buffer,
            0,
            MAGIC,
            self.kind,
            self.element_type,
            self.is_on_device,
            len(self.shape),
            self.value,
            self.request,
            self.size_bytes,
            *dims,
            *(0,) * (MAX_DIMS - len(dims)),
        )

    def pack_shape(self) -> bytearray:
        """Return the shape as a message of its own."""
        return bytearray(struct.pack(f"<{len(self.shape)}q", *self.shape))

    @classmethod
    def unpack(cls, buffer: bytearray) -> "Header":
        """Return a header; of a shape that follows, only the rank is right."""
        magic, kind, element_type, is_on_device, rank, value, request, size, *dims = (
            HEADER.unpack_from(buffer)
        )
        if magic != MAGIC:
            raise ValueError("not a message of dplace")
        return cls(
            kind=Kind(kind),
            value=value,
            request=request,
            element_type=element_type,
            shape=tuple(dims[:rank]) if rank <= MAX_DIMS else (0,) * rank,
            size_bytes=size,
            is_on_device=is_on_device,
        )

    def with_shape(self, buffer: bytearray) -> "Header":
        """Return the header with the shape that ``pack_shape`` wrote."""
        return replace(self, shape=struct.unpack(f"<{len(self.shape)}q", buffer))


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A header with its payload."""

    header: Header
    payload: Buffer = field(default_factory=bytearray)
    owner: object = None
    """What keeps the payload's memory alive."""
    pieces: Iterator[Buffer] | None = None
    """Make the payload while it is sent, once, in place of ``payload``: of the size that the
    receiver expects."""
