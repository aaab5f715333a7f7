"""A file of weights: bytes streamed from where they lie, never a whole model in memory."""

import hashlib
import os
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

import onnx
import onnx_ir as ir

__all__ = ["WeightsFile", "file_digest", "loaded"]

_INLINE_BYTES = 1024
"""Tensors below this size stay in the ONNX file: shapes and scales have to be there."""
_ALIGNMENT = 4096
"""onnxruntime maps a tensor that starts on a page and copies any other."""
_CHUNK_BYTES = 4 * 2**20


class WeightsFile:
    """Collects the large weights of one device; a weight used by several parts is kept once.

    Use as a context manager. Nothing is created until a first weight comes.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: BinaryIO | None = None
        self._placed: dict[ir.TensorProtocol, ir.ExternalTensor] = {}
        self._end = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._file is not None:
            # Trailing zeros may have been skipped over.
            self._file.truncate(self._end)
            self._file.close()

    @property
    def exists(self) -> bool:
        """Return whether any weight was placed."""
        return self._file is not None

    def place(self, tensor: ir.TensorProtocol) -> ir.TensorProtocol:
        """Return a tensor for the part: a reference into this file, or the small one itself."""
        if tensor.dtype == ir.DataType.STRING:
            return tensor
        if tensor.nbytes < _INLINE_BYTES:
            # A small external tensor comes inline, so that the part does not point elsewhere.
            if isinstance(tensor, ir.ExternalTensor):
                return loaded(tensor)
            return tensor
        if tensor not in self._placed:
            placed = self._append(tensor)
            self._placed[tensor] = self._placed[placed] = placed
        return self._placed[tensor]

    def offset_of(self, tensor: ir.TensorProtocol) -> int:
        """Return where a tensor lies in this file, small as it may be; append it at first."""
        if tensor not in self._placed:
            self._placed[tensor] = self._append(tensor)
        return self._placed[tensor].offset or 0

    def _append(self, tensor: ir.TensorProtocol) -> ir.ExternalTensor:
        if self._file is None:
            self._file = self.path.open("wb")
        offset = -(-self._end // _ALIGNMENT) * _ALIGNMENT
        self._file.seek(offset)
        if isinstance(tensor, ir.ExternalTensor):
            _copy_range(tensor, self._file)
        else:
            self._file.write(tensor.tobytes())
        self._end = offset + tensor.nbytes
        return ir.ExternalTensor(
            self.path.name,
            offset,
            tensor.nbytes,
            tensor.dtype,
            shape=ir.Shape(tensor.shape.numpy()),
            name=tensor.name or "",
            base_dir=self.path.parent,
        )


def loaded(tensor: ir.TensorProtocol) -> ir.TensorProtocol:
    """Return a tensor whose bytes are in memory.

    External data is read as it lies, for onnx_ir refuses files with several hard links, which
    onnxruntime takes; where they may lie was checked when the model was read.
    """
    if not isinstance(tensor, ir.ExternalTensor):
        return tensor
    with Path(tensor.path).open("rb") as file:
        file.seek(tensor.offset or 0)
        raw = file.read(tensor.nbytes)
    return ir.serde.TensorProtoTensor(
        onnx.TensorProto(
            name=tensor.name or "",
            data_type=tensor.dtype.value,
            dims=list(tensor.shape.numpy()),
            raw_data=raw,
        )
    )


def _copy_range(tensor: ir.ExternalTensor, target: BinaryIO) -> None:
    """Copy the tensor's bytes in small pieces; holes of a sparse file stay holes."""
    zeros = bytes(_CHUNK_BYTES)
    left = tensor.nbytes
    with Path(tensor.path).open("rb", buffering=0) as source:
        source.seek(tensor.offset or 0)
        while left:
            chunk = source.read(min(left, _CHUNK_BYTES))
            if not chunk:
                raise OSError(f"{tensor.path}: ended {left} bytes early")
            if chunk == zeros[: len(chunk)]:
                target.seek(len(chunk), os.SEEK_CUR)
            else:
                target.write(chunk)
            left -= len(chunk)


def file_digest(path: Path) -> str:
    """Return ``sha256:`` and the digest of a file."""
    with path.open("rb") as file:
        return "sha256:" + hashlib.file_digest(file, "sha256").hexdigest()
