"""What a model's inputs and outputs may be, beside fresh values."""

import numpy as np

from tests.zoo.situation import Situation, calls, parse, weight

__all__ = ["SITUATIONS"]


def output_also_crosses() -> Situation:
    """A value that is a graph output and is read further on."""
    model = parse(
        """
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[N, 4] x) => (float[N, 4] middle, float[N, 4] y) {
            a = MatMul(x, w)
            middle = Relu(a)
            b = MatMul(middle, w)
            y = Tanh(b)
        }
        """,
        {"w": weight(4, 4)},
    )
    return Situation(model=model, feeds=calls({"x": (2, 4)}, {"x": (1, 4)}), source="onnx#6920")


def output_is_an_input() -> Situation:
    """One output is the input itself; the other is computed; their order matters."""
    model = parse(
        """
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[N, 4] x, int64[M] ids) => (float[N, 4] y, int64[M] ids, float[N, 4] x) {
            a = Relu(x)
            y = Neg(a)
        }
        """
    )
    return Situation(model=model, feeds=calls({"x": (2, 4)}, ids=np.arange(5)), source="rule 7")


def output_is_an_initializer() -> Situation:
    """One output is a weight that an op reads too."""
    model = parse(
        """
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[N, 4] x) => (float[4, 4] w, float[N, 4] y) {
            a = MatMul(x, w)
            y = Relu(a)
        }
        """,
        {"w": weight(4, 4)},
    )
    return Situation(model=model, feeds=calls({"x": (2, 4)}), source="rule 7")


def output_is_an_overridable_initializer() -> Situation:
    """An output that is an initializer and an input at once."""
    model = parse(
        """
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[N, 4] x, float[4] w) => (float[N, 4] y, float[4] w) {
            a = Mul(x, w)
            y = Relu(a)
        }
        """,
        {"w": weight(4)},
    )
    return Situation(
        model=model, feeds=calls({"x": (2, 4)}, {"x": (2, 4), "w": (4,)}), source="rule 7"
    )


def output_is_a_constant_node() -> Situation:
    """An output that comes from a Constant node, and one that is folded."""
    model = parse(
        """
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[N, 4] x) => (float[3] k, float[3] folded, float[N, 4] y) {
            k = Constant <value = float[3] {1, 2, 3}> ()
            folded = Neg(k)
            a = Relu(x)
            y = Sin(a)
        }
        """
    )
    return Situation(model=model, feeds=calls({"x": (2, 4)}), source="rule 7")


def output_is_listed_twice() -> Situation:
    """The same value stands twice among the outputs."""
    model = parse(
        """
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[N, 4] x) => (float[N, 4] y, float[N, 4] a, float[N, 4] y) {
            a = Relu(x)
            y = Neg(a)
        }
        """
    )
    return Situation(model=model, feeds=calls({"x": (2, 4)}), source="rule 7")


def no_nodes() -> Situation:
    """No node at all: outputs are an input and an initializer."""
    model = parse(
        """
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[N, 4] x) => (float[N, 4] x, float[4] w) <float[4] w = {1, 2, 3, 4}> { }
        """
    )
    return Situation(model=model, feeds=calls({"x": (2, 4)}), source="rule 9")


def no_inputs() -> Situation:
    """Nothing is fed: a graph of constants, some of which do not fold."""
    model = parse(
        """
        <ir_version: 8, opset_import: ["" : 17]>
        g () => (float[3, 3] y) <int64[2] shape = {3, 3}> {
            a = ConstantOfShape <value = float[1] {0.5}> (shape)
            b = RandomNormalLike <seed = 3.0> (a)
            y = MatMul(a, b)
        }
        """
    )
    return Situation(model=model, feeds=calls(), source="rule 9")


def zero_size_tensors() -> Situation:
    """An empty batch, an empty weight, and a concatenation with nothing."""
    model = parse(
        """
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[N, 4] x) => (float[N, 4] y, float[N, 0] z) {
            a = MatMul(x, w)
            z = MatMul(a, narrow)
            b = Concat <axis = 1> (z, a)
            y = Relu(b)
        }
        """,
        {"w": weight(4, 4), "narrow": np.zeros((4, 0), np.float32)},
    )
    return Situation(model=model, feeds=calls({"x": (0, 4)}, {"x": (2, 4)}), source="onnx#6920")


def scalars_everywhere() -> Situation:
    """Values of rank 0 cross, of three types."""
    model = parse(
        """
        <ir_version: 8, opset_import: ["" : 17]>
        g (float x, int64 n) => (float y, bool big) {
            a = Exp(x)
            f = Cast <to = 1> (n)
            b = Mul(a, f)
            big = Greater(b, f)
            y = Sqrt(b)
        }
        """
    )
    return Situation(model=model, feeds=calls({"x": ()}, n=np.array(3)), source="rule 6")


def unknown_ranks() -> Situation:
    """Inputs and outputs without any shape, as some exporters write them."""
    model = parse(
        """
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[] x) => (float[] y) {
            a = Relu(x)
            b = Shape(a)
            c = Reshape(a, b)
            y = Neg(c)
        }
        """
    )
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.ClearField("shape")
    return Situation(
        model=model,
        feeds=calls({"x": (2, 4)}, {"x": (3,)}, {"x": ()}),
        source="onnx-tool#22",
        is_checked=False,
    )


def outputs_without_shape_or_wrong() -> Situation:
    """Declared output shapes say less, or else, than what comes out; onnxruntime only warns."""
    model = parse(
        """
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[N, M] x, int64[R] shape) => (float[7, 7] y, float[A, B, C] z) {
            y = Relu(x)
            z = Reshape(y, shape)
        }
        """
    )
    return Situation(
        model=model,
        feeds=calls({"x": (2, 6)}, shape=np.array([3, 2, 2])),
        source="ort#20375",
    )


def newest_ir_and_opset() -> Situation:
    """The newest IR version and operator set that onnxruntime 1.31 reads."""
    model = parse(
        """
        <ir_version: 13, opset_import: ["" : 26]>
        g (float[N, 4] x) => (float[N, 4] y) {
            a = Relu(x)
            b = MatMul(a, w)
            y = Softmax(b)
        }
        """,
        {"w": weight(4, 4)},
    )
    return Situation(model=model, feeds=calls({"x": (2, 4)}), source="onnx-facts 1.1")


SITUATIONS = (
    output_also_crosses,
    output_is_an_input,
    output_is_an_initializer,
    output_is_an_overridable_initializer,
    output_is_a_constant_node,
    output_is_listed_twice,
    no_nodes,
    no_inputs,
    zero_size_tensors,
    scalars_everywhere,
    unknown_ranks,
    outputs_without_shape_or_wrong,
    newest_ir_and_opset,
)
