"""Weights in all the places that a model may keep them."""

import numpy as np
import onnx
from onnx import helper

from tests.zoo.situation import Situation, calls, parse, weight

__all__ = ["SITUATIONS"]


def ir3_initializers_are_inputs() -> Situation:
    """IR 3: each initializer has to be listed as an input too."""
    model = parse(
        """
        <ir_version: 3, opset_import: ["" : 9]>
        g (float[N, 4] x, float[4, 8] w1, float[8, 3] w2) => (float[N, 3] y) {
            a = MatMul(x, w1)
            b = Relu(a)
            y = MatMul(b, w2)
        }
        """,
        {"w1": weight(4, 8), "w2": weight(8, 3)},
    )
    return Situation(model=model, feeds=calls({"x": (2, 4)}), source="ort#9663, ort#4033, ort#4507")


def overridable_initializers() -> Situation:
    """IR 8, an initializer listed as an input: a default that the caller may replace."""
    model = parse(
        """
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[N, 4] x, float[4, 4] w, float[4] bias) => (float[N, 4] y) {
            a = MatMul(x, w)
            b = Relu(a)
            c = Add(b, bias)
            y = MatMul(c, w)
        }
        """,
        {"w": weight(4, 4), "bias": weight(4)},
    )
    return Situation(
        model=model,
        feeds=calls(
            {"x": (2, 4)},
            {"x": (2, 4), "bias": (4,)},
            {"x": (3, 4), "w": (4, 4), "bias": (4,)},
            {"x": (2, 4)},
        ),
        source="ort#1324",
    )


def overridable_initializer_read_in_branch() -> Situation:
    """A default that only a branch reads; the caller replaces it in the second call."""
    model = parse(
        """
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[N, 4] x, bool c, float[4, 4] w) => (float[N, 4] y) {
            a = Relu(x)
            r = If (c) <
                then_branch = t () => (float[N, 4] p) { p = MatMul(a, w) },
                else_branch = e () => (float[N, 4] q) { q = Neg(a) }
            >
            y = Tanh(r)
        }
        """,
        {"w": weight(4, 4)},
    )
    yes = np.array(True)
    return Situation(
        model=model,
        feeds=calls({"x": (2, 4)}, {"x": (2, 4), "w": (4, 4)}, c=yes),
        source="ort#1324, ort#32131",
    )


def weights_are_constant_nodes() -> Situation:
    """No initializer at all: every weight is an unnamed Constant node, as in PP-OCR."""
    model = parse(
        """
        <ir_version: 7, opset_import: ["" : 12]>
        g (float[N, 3, 8, 8] x) => (float[N, 6] y) {
            w1 = Constant <value = float[6, 3, 1, 1] {1, 2, 3, 4, 5, 6, 7, 8, 9,
                -1, -2, -3, -4, -5, -6, -7, -8, -9}> ()
            a = Conv(x, w1)
            low = Constant <value_float = 0.0> ()
            high = Constant <value_float = 6.0> ()
            b = Clip(a, low, high)
            s = GlobalAveragePool(b)
            shape = Constant <value_ints = [-1, 6]> ()
            y = Reshape(s, shape)
        }
        """
    )
    return Situation(
        model=model,
        feeds=calls({"x": (1, 3, 8, 8)}, {"x": (2, 3, 8, 8)}),
        source="onnx/optimizer#157, onnx/optimizer#221",
    )


def weight_is_computed() -> Situation:
    """Weights made by ConstantOfShape and arithmetic on constants, as in the light models."""
    model = parse(
        """
        <ir_version: 8, opset_import: ["" : 13]>
        g (float[N, 4] x) => (float[N, 4] y) <int64[2] shape = {4, 4}> {
            filled = ConstantOfShape <value = float[1] {0.5}> (shape)
            w = Add(filled, step)
            a = MatMul(x, w)
            b = Relu(a)
            y = MatMul(b, w)
        }
        """,
        {"step": weight(4, 4)},
    )
    return Situation(model=model, feeds=calls({"x": (2, 4)}), source="rule 4")


def weight_is_shared() -> Situation:
    """One weight read by four ops, one of which transposes it."""
    model = parse(
        """
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[N, 4] x) => (float[N, 4] y) {
            a = MatMul(x, w)
            b = Relu(a)
            c = Gemm <transB = 1> (b, w)
            d = Tanh(c)
            wt = Transpose <perm = [1, 0]> (w)
            e = MatMul(d, wt)
            y = Add(e, w)
        }
        """,
        {"w": weight(4, 4)},
    )
    return Situation(model=model, feeds=calls({"x": (4, 4)}), source="rule 5")


def sparse_initializer() -> Situation:
    """A weight that is stored as a sparse tensor in coordinate form."""
    model = parse(
        """
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[N, 4] x) => (float[N, 4] y) {
            a = Relu(x)
            b = MatMul(a, w)
            y = Neg(b)
        }
        """
    )
    values = helper.make_tensor("w", onnx.TensorProto.FLOAT, [3], [1.5, -2.0, 0.25])
    indices = helper.make_tensor("w_indices", onnx.TensorProto.INT64, [3], [0, 6, 11])
    model.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [4, 4]))
    return Situation(model=model, feeds=calls({"x": (2, 4)}), source="rule 12", is_checked=False)


def sparse_constant_node() -> Situation:
    """A Constant node that holds a sparse tensor."""
    model = parse(
        """
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[N, 4] x) => (float[N, 4] y) {
            a = Relu(x)
            w = Constant ()
            b = MatMul(a, w)
            y = Neg(b)
        }
        """
    )
    values = helper.make_tensor("", onnx.TensorProto.FLOAT, [2], [1.5, -2.0])
    indices = helper.make_tensor("", onnx.TensorProto.INT64, [2], [1, 14])
    sparse = helper.make_sparse_tensor(values, indices, [4, 4])
    model.graph.node[1].attribute.append(helper.make_attribute("sparse_value", sparse))
    return Situation(model=model, feeds=calls({"x": (2, 4)}), source="rule 12")


def initializer_and_input_unused() -> Situation:
    """An initializer that no op reads, and an input that no op reads."""
    model = parse(
        """
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[N, 4] x, float[N] idle) => (float[N, 4] y) <float[2] unused = {1, 2}> {
            a = Sin(x)
            y = Cos(a)
        }
        """
    )
    return Situation(model=model, feeds=calls({"x": (2, 4), "idle": (2,)}), source="onnx#6368")


def initializer_in_typed_fields() -> Situation:
    """Weights in ``float_data``, ``int32_data`` (float16 as bits, bool), ``int64_data``, ..."""
    model = parse(
        """
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[N, 4] x) => (float[N, 4] y) <
            float[4] w = {1, 2, 3, 4},
            float16[4] h = {14336, 15872, 16640, 17152},
            bool[4] mask = {1, 0, 1, 1},
            int64[1] axis = {1},
            double[1] d = {0.125}
        > {
            a = Mul(x, w)
            hf = Cast <to = 1> (h)
            b = Add(a, hf)
            c = Where(mask, b, x)
            m = ReduceMean <axes = [1]> (c)
            e = Cast <to = 1> (d)
            f = Add(m, e)
            s = Squeeze(f, axis)
            u = Unsqueeze(s, axis)
            y = Sub(c, u)
        }
        """
    )
    return Situation(model=model, feeds=calls({"x": (2, 4)}), source="rule 5")


SITUATIONS = (
    ir3_initializers_are_inputs,
    overridable_initializers,
    overridable_initializer_read_in_branch,
    weights_are_constant_nodes,
    weight_is_computed,
    weight_is_shared,
    sparse_initializer,
    sparse_constant_node,
    initializer_and_input_unused,
    initializer_in_typed_fields,
)
