"""One node as the work rules see it: concrete shapes, sizes in bytes, plain attributes."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import onnx_ir as ir

__all__ = ["Cost", "NodeView", "Shape", "ShapeOf", "UnknownShapeError", "dtype_name"]

Shape = tuple[int, ...]
ShapeOf = Callable[[ir.Value], Shape | None]
"""Gives the concrete shape of a value, or None where it is not known."""

_NAMES = {
    ir.DataType.FLOAT: "float32",
    ir.DataType.DOUBLE: "float64",
    # What they compute in is as wide; only the sign differs.
    ir.DataType.UINT8: "int8",
    ir.DataType.UINT16: "int16",
    ir.DataType.UINT32: "int32",
    ir.DataType.UINT64: "int64",
}
_STRING_BYTES = 16
_UNTYPED_BYTES = 4
_FALLBACK_BYTES = 4096.0
"""Size taken for a value when nothing about the node's values is known."""


class UnknownShapeError(Exception):
    """A rule needs a shape that nobody knows; never leaves ``node_work``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What a rule says of a node; None is filled in from the node's values."""

    kernel_class: str
    flop: float
    bytes_moved: float | None = None
    dtype: str | None = None
    launches: int = 1
    known: bool = True


def dtype_name(dtype: ir.DataType | None) -> str:
    """Return the name that device profiles use for a type: ``float32``, ``int8``, ..."""
    if dtype is None:
        return "float32"
    return _NAMES.get(dtype, dtype.name.lower())


def item_bytes(dtype: ir.DataType | None) -> float:
    """Return the bytes of one element; 0.5 for four bits."""
    if dtype is None or dtype == ir.DataType.UNDEFINED:
        return _UNTYPED_BYTES
    if dtype == ir.DataType.STRING:
        return _STRING_BYTES
    return float(dtype.itemsize)


class NodeView:
    """A node together with the concrete shapes of its values."""

    __slots__ = ("_shape_of", "node")

    def __init__(self, node: ir.Node, shape_of: ShapeOf) -> None:
        self.node = node
        self._shape_of = shape_of

    def value(self, index: int) -> ir.Value | None:
        """Return an input, or None where it is left out."""
        inputs = self.node.inputs
        return inputs[index] if index < len(inputs) else None

    def input(self, index: int) -> Shape:
        """Return the shape of an input.

        Raises:
            UnknownShapeError: It is left out or has no known shape.
        """
        shape = self.input_or_none(index)
        if shape is None:
            raise UnknownShapeError
        return shape

    def input_or_none(self, index: int) -> Shape | None:
        """Return the shape of an input, or None where it is left out or not known."""
        value = self.value(index)
        return None if value is None else self.shape_of(value)

    def output(self, index: int = 0) -> Shape:
        """Return the shape of an output.

        Raises:
            UnknownShapeError: There is no such output, or it has no known shape.
        """
        shape = self.output_or_none(index)
        if shape is None:
            raise UnknownShapeError
        return shape

    def output_or_none(self, index: int = 0) -> Shape | None:
        """Return the shape of an output, or None where there is none or it is not known."""
        outputs = self.node.outputs
        return self.shape_of(outputs[index]) if index < len(outputs) else None

    def shape_of(self, value: ir.Value) -> Shape | None:
        """Return the concrete shape of a value, from its declaration if need be."""
        shape = self._shape_of(value)
        if shape is None and value.shape is not None:
            dims = tuple(dim for dim in value.shape.dims if isinstance(dim, int))
            return dims if len(dims) == len(value.shape.dims) else None
        return shape

    def bytes_of(self, value: ir.Value) -> float | None:
        """Return the size of a value in bytes, or None where its shape is not known."""
        shape = self.shape_of(value)
        return None if shape is None else math.prod(shape) * item_bytes(value.dtype)

    def input_bytes(self, index: int) -> float:
        """Return the size of an input in bytes; 0 where it is left out or not known."""
        value = self.value(index)
        return 0.0 if value is None else self.bytes_of(value) or 0.0

    def output_bytes(self) -> float:
        """Return the size of all outputs in bytes; what is not known counts as 0."""
        return sum(self.bytes_of(value) or 0.0 for value in self.node.outputs)

    def all_bytes(self) -> float:
        """Return the size of all inputs and outputs, each value once.

        A value of unknown size counts as much as the largest of known size.
        """
        values = dict.fromkeys(value for value in self.node.inputs if value is not None)
        used = [value for value in self.node.outputs if value.name]
        sizes = [self.bytes_of(value) for value in (*values, *used)]
        known = [size for size in sizes if size is not None]
        largest = max(known, default=_FALLBACK_BYTES)
        return sum(known) + largest * (len(sizes) - len(known))

    @property
    def dtype(self) -> str:
        """Return the type that the node computes in: its first floating input's, or its first's."""
        dtypes = [value.dtype for value in self.node.inputs if value is not None and value.dtype]
        for dtype in dtypes:
            if dtype.is_floating_point():
                return dtype_name(dtype)
        dtypes += [value.dtype for value in self.node.outputs if value.dtype]
        return dtype_name(dtypes[0] if dtypes else None)

    def integer(self, name: str, default: int = 0) -> int:
        """Return an integer attribute."""
        attribute = self.node.attributes.get(name)
        if attribute is None or attribute.is_ref() or attribute.type != ir.AttributeType.INT:
            return default
        return attribute.as_int()

    def integers(self, name: str) -> Shape | None:
        """Return a list attribute of integers, or None where it is left out."""
        attribute = self.node.attributes.get(name)
        if attribute is None or attribute.is_ref() or attribute.type != ir.AttributeType.INTS:
            return None
        return tuple(attribute.as_ints())

    def text(self, name: str, default: str = "") -> str:
        """Return a text attribute."""
        attribute = self.node.attributes.get(name)
        if attribute is None or attribute.is_ref() or attribute.type != ir.AttributeType.STRING:
            return default
        return attribute.as_string()
