"""ONNX in: from a path, from standard input or from memory to a checked Model."""

import hashlib
import sys
from pathlib import Path

import onnx
import onnx_ir as ir
from google.protobuf.message import DecodeError

from dplace.errors import ModelError
from dplace.graph_io.external import external_problems, has_external_data, inline_attributes
from dplace.graph_io.model import Model
from dplace.graph_io.plain import plain_spelling
from dplace.graph_io.structure import structure_problems

__all__ = ["from_proto", "read_model"]

_SHOWN_PROBLEMS = 3


def read_model(source: str | Path | onnx.ModelProto) -> Model:
    """Read and check a model.

    Args:
        source: A path, ``-`` for standard input, or a model in memory.

    Raises:
        ModelError: It is not an ONNX model, or it is broken; the message names what.
    """
    if isinstance(source, onnx.ModelProto):
        return from_proto(source, name=source.graph.name or "model")
    if str(source) == "-":
        return from_proto(_parse(sys.stdin.buffer.read(), "standard input"), name="stdin")
    path = Path(source)
    if path.is_dir():
        raise ModelError(f"{path}: expected an ONNX file, got a folder")
    try:
        serialized = path.read_bytes()
    except FileNotFoundError as error:
        raise ModelError(f"{path}: there is no such file") from error
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror}") from error
    digest = "sha256:" + hashlib.sha256(serialized).hexdigest()
    return from_proto(_parse(serialized, str(path)), name=path.stem, path=path, digest=digest)


def _parse(serialized: bytes, source: str) -> onnx.ModelProto:
    if not serialized:
        raise ModelError(f"{source}: expected an ONNX model, got an empty file")
    try:
        proto: onnx.ModelProto = onnx.ModelProto.FromString(serialized)
    except DecodeError as error:
        raise ModelError(
            f"{source}: not an ONNX model, or a truncated one (it does not parse as protobuf)"
        ) from error
    if proto.ir_version < 1 or not proto.HasField("graph") or not proto.opset_import:
        raise ModelError(
            f"{source}: not an ONNX model, or a truncated one (expected ir_version, opset_import "
            "and a graph)"
        )
    return proto


def from_proto(
    proto: onnx.ModelProto,
    *,
    name: str,
    path: Path | None = None,
    digest: str | None = None,
) -> Model:
    """Check a model and turn it into a Model; external data is looked up beside ``path``.

    Raises:
        ModelError: The model is broken; the message names the first faults and counts the rest.
    """
    label = str(path) if path is not None else name
    problems = structure_problems(proto)
    if path is not None:
        problems += external_problems(proto, path.parent)
    elif has_external_data(proto):
        problems.append("its weights lie in other files, so give its path instead")
    if problems:
        more = len(problems) - _SHOWN_PROBLEMS
        tail = f"; and {more} more" if more > 0 else ""
        raise ModelError(f"{label}: " + "; ".join(problems[:_SHOWN_PROBLEMS]) + tail)
    if digest is None:
        digest = "sha256:" + hashlib.sha256(proto.SerializeToString(deterministic=True)).hexdigest()
    if path is not None and has_external_data(proto):
        inline_attributes(proto, path.parent)
    proto = plain_spelling(proto)
    try:
        model = ir.serde.deserialize_model(proto)
        if path is not None:
            ir.external_data.set_base_dir(model.graph, path.parent)
        model.graph.sort()
    except (ir.serde.SerdeError, ValueError, TypeError) as error:
        cause: BaseException = error
        while cause.__cause__ is not None:
            cause = cause.__cause__
        raise ModelError(f"{label}: the graph cannot be read: {_one_line(cause)}") from error
    overridable = _settle_initializers(model)
    return Model(
        name=name, path=path, digest=digest, proto=proto, ir=model, overridable=overridable
    )


def _settle_initializers(model: ir.Model) -> tuple[str, ...]:
    """Take initializers off the list of inputs where they are constants, return the others.

    Below IR 4 every initializer has to be listed and is a constant all the same; onnxruntime
    sees it so too. The model is lifted to IR 4, where a constant is not listed.
    """
    listed = [value for value in model.graph.inputs if value.is_initializer()]
    if model.ir_version >= 4:
        return tuple(value.name or "" for value in listed)
    for value in listed:
        model.graph.inputs.remove(value)
    model.ir_version = 4
    return ()


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300]
