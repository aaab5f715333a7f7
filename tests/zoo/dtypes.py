"""Element types that numpy lacks or that few ops know, made and read by different ops."""

from collections.abc import Callable

import numpy as np
import onnx
from onnx import TensorProto, helper

from tests.zoo.situation import Situation, calls, parse, weight

__all__ = ["SITUATIONS"]


def cast_there_and_back(dtype: str, opset: int, ir_version: int) -> Callable[[], Situation]:
    """Return the situation in which values of an element type cross between ops.

    onnxruntime has no Identity for types below 8 bits, so there they only cross once.
    """

    def situation() -> Situation:
        to = TensorProto.DataType.Value(dtype)
        model = parse(
            f"""
            <ir_version: {ir_version}, opset_import: ["" : {opset}]>
            g (float[N, 4] x) => (float[N, 4] y) {{
                a = Relu(x)
                b = Cast <to = {to}> (a)
                {"c = Identity(b)" if "FLOAT" in dtype else ""}
                d = Cast <to = 1> ({"c" if "FLOAT" in dtype else "b"})
                y = Neg(d)
            }}
            """
        )
        return Situation(
            model=model,
            feeds=calls({"x": (2, 4)}, {"x": (3, 4)}),
            source="ort#13001, ort#31677",
        )

    situation.__name__ = f"{dtype.lower()}_across"
    situation.__doc__ = f"Values of type {dtype} cross between ops."
    return situation


def every_number_type_across() -> Situation:
    """All integer and float types that numpy knows, and bool, cross in one model."""
    kinds = ["INT8", "UINT8", "INT16", "UINT16", "INT32", "UINT32", "INT64", "UINT64"]
    kinds += ["FLOAT16", "DOUBLE", "BOOL"]
    lines = ["a = Abs(x)"]
    for number, kind in enumerate(kinds):
        to = TensorProto.DataType.Value(kind)
        lines.append(f"t{number} = Cast <to = {to}> (a)  i{number} = Identity(t{number})")
        lines.append(f"f{number} = Cast <to = 1> (i{number})")
    values = ", ".join(f"f{number}" for number in range(len(kinds)))
    lines.append(f"y = Sum({values})")
    model = parse(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[N, 4] x) => (float[N, 4] y) {'
        + "\n".join(lines)
        + "}"
    )
    return Situation(model=model, feeds=calls({"x": (2, 4)}), source="rule 6")


def float16_net() -> Situation:
    """A small net in half precision, fed and returned as such."""
    model = parse(
        """
        <ir_version: 8, opset_import: ["" : 17]>
        g (float16[N, 4] x) => (float16[N, 4] y) {
            a = MatMul(x, w)
            b = Relu(a)
            c = Softmax <axis = 1> (b)
            y = MatMul(c, w)
        }
        """,
        {"w": weight(4, 4, dtype="float16")},
    )
    return Situation(
        model=model,
        feeds=calls({"x": (3, 4)}, dtype="float16"),
        source="onnx-facts 0.7",
        only_native=True,
    )


def bfloat16_weight() -> Situation:
    """A weight stored as bfloat16 that is cast before its use."""
    model = parse(
        """
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[N, 4] x) => (float[N, 4] y) {
            a = Relu(x)
            w = Cast <to = 1> (stored)
            y = MatMul(a, w)
        }
        """
    )
    bits = weight(4, 4).view(np.uint32) >> 16
    tensor = helper.make_tensor(
        "stored", TensorProto.BFLOAT16, [4, 4], bits.astype(np.uint16).tobytes(), raw=True
    )
    model.graph.initializer.append(tensor)
    return Situation(model=model, feeds=calls({"x": (2, 4)}), source="ort#13001")


def four_bit_weight(dtype: str) -> Callable[[], Situation]:
    """Return the situation of a weight of 4 bits with one scale and zero point a column."""

    def situation() -> Situation:
        model = parse(
            """
            <ir_version: 10, opset_import: ["" : 21]>
            g (float[N, 4] x) => (float[N, 5] y) <
                float[5] scale = {0.5, 0.25, 1, 2, 0.125}
            > {
                a = Relu(x)
                w = DequantizeLinear <axis = 1> (stored, scale, zero)
                b = MatMul(a, w)
                y = Tanh(b)
            }
            """
        )
        kind = TensorProto.DataType.Value(dtype)
        values = [(7 * i) % 8 for i in range(20)]
        model.graph.initializer.append(helper.make_tensor("stored", kind, [4, 5], values))
        model.graph.initializer.append(helper.make_tensor("zero", kind, [5], [1, 2, 3, 4, 5]))
        return Situation(model=model, feeds=calls({"x": (2, 4)}), source="ort#31677, rule 4")

    situation.__name__ = f"{dtype.lower()}_weight"
    situation.__doc__ = f"A weight of type {dtype} behind a DequantizeLinear."
    return situation


def quantised_to_float8() -> Situation:
    """QuantizeLinear to float8 on one side, DequantizeLinear on the other."""
    model = parse(
        """
        <ir_version: 9, opset_import: ["" : 19]>
        g (float[N, 4] x) => (float[N, 4] y) <float scale = {0.25}> {
            a = Sin(x)
            q = QuantizeLinear(a, scale, zero)
            d = DequantizeLinear(q, scale)
            y = Neg(d)
        }
        """
    )
    model.graph.initializer.append(helper.make_tensor("zero", TensorProto.FLOAT8E4M3FN, [], [0.0]))
    return Situation(model=model, feeds=calls({"x": (2, 4)}), source="ort#13001")


def string_initializer() -> Situation:
    """Strings as an initializer, and a string output made from them."""
    model = parse(
        """
        <ir_version: 8, opset_import: ["" : 17]>
        g (int64[N] ids) => (string[N] y) {
            a = Abs(ids)
            y = Gather(names, a)
        }
        """
    )
    names = onnx.numpy_helper.from_array(np.array(["null", "één", ""], dtype=object), "names")
    model.graph.initializer.append(names)
    return Situation(model=model, feeds=calls(ids=np.array([2, -1, 0, 1])), source="onnx-facts 2.3")


SITUATIONS = (
    *(cast_there_and_back(dtype, 19, 9) for dtype in ("BFLOAT16", "FLOAT8E4M3FN", "FLOAT8E5M2")),
    *(cast_there_and_back(dtype, 21, 10) for dtype in ("INT4", "UINT4")),
    *(cast_there_and_back(dtype, 25, 13) for dtype in ("INT2", "UINT2")),
    every_number_type_across,
    float16_net,
    bfloat16_weight,
    four_bit_weight("INT4"),
    four_bit_weight("UINT4"),
    quantised_to_float8,
    string_initializer,
)
