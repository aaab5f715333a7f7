"""Values that are no plain tensors of numbers: sequences, optionals, maps, strings."""

import numpy as np
import onnx
from onnx import helper

from tests.zoo.situation import Situation, calls, parse

__all__ = ["SITUATIONS"]


def sequence_across() -> Situation:
    """A sequence made by one op and read by three others."""
    model = parse(
        """
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[N, 4] x) => (float[N, M] y, int64 count) {
            a = Relu(x)
            s = SplitToSequence <axis = 1, keepdims = 1> (a)
            one = Constant <value = int64 {1}> ()
            b = SequenceAt(s, one)
            c = ConcatFromSequence <axis = 1> (s)
            count = SequenceLength(s)
            d = Add(c, b)
            y = Neg(d)
        }
        """
    )
    return Situation(
        model=model,
        feeds=calls({"x": (2, 4)}, {"x": (3, 4)}),
        source="onnx/optimizer#134, onnx-mlir#1803",
    )


def sequence_in_and_out() -> Situation:
    """A sequence is fed, changed and returned; it may be empty."""
    model = parse(
        """
        <ir_version: 8, opset_import: ["" : 17]>
        g (seq(float[N, 4]) s, float[N, 4] x) => (seq(float[N, 4]) more, int64 count) {
            a = Neg(x)
            t = SequenceInsert(s, a)
            b = Relu(x)
            more = SequenceInsert(t, b)
            count = SequenceLength(t)
        }
        """
    )

    def feeds(rng: np.random.Generator) -> list[dict[str, object]]:
        x, first, second = (rng.standard_normal((2, 4)).astype(np.float32) for _ in range(3))
        return [{"s": [first, second], "x": x}, {"s": [first], "x": x}]

    return Situation(model=model, feeds=feeds, source="onnx-mlir#1803")


def sequence_of_strings() -> Situation:
    """Strings go into a sequence and come out joined."""
    model = parse(
        """
        <ir_version: 8, opset_import: ["" : 17]>
        g (string[N] words) => (string[M] y, seq(string[N]) both) {
            other = Constant <value = string[2] {"left", "right"}> ()
            s = SequenceConstruct(words, other)
            both = Identity(s)
            y = ConcatFromSequence <axis = 0> (s)
        }
        """
    )
    words = np.array(["über", "", "a b"], dtype=object)
    return Situation(model=model, feeds=calls(words=words), source="onnx-mlir#1803")


def sequence_map() -> Situation:
    """SequenceMap with a body that captures a value of the main graph."""
    model = parse(
        """
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[N, 4] x) => (float[M, 4] y) {
            gain = ReduceMax <keepdims = 0> (x)
            s = SplitToSequence <axis = 0, keepdims = 1> (x)
            t = SequenceMap (s) <body = b (float[K, 4] e) => (float[K, 4] r) {
                r = Mul(e, gain)
            }>
            y = ConcatFromSequence <axis = 0> (t)
        }
        """
    )
    return Situation(model=model, feeds=calls({"x": (3, 4)}), source="onnx/optimizer#134")


def optional_across() -> Situation:
    """An optional made by one op and read by two others; it cannot be bound to a device."""
    model = parse(
        """
        <ir_version: 8, opset_import: ["" : 18]>
        g (float[N, 4] x) => (float[N, 4] y, bool there) {
            a = Relu(x)
            o = Optional(a)
            there = OptionalHasElement(o)
            b = OptionalGetElement(o)
            y = Neg(b)
        }
        """
    )
    return Situation(model=model, feeds=calls({"x": (2, 4)}), source="ort#8339")


def optional_is_an_input() -> Situation:
    """An optional input that the caller fills or leaves empty."""
    model = parse(
        """
        <ir_version: 8, opset_import: ["" : 18]>
        g (float[N, 4] x, optional(float[N, 4]) o) => (float[N, 4] y) {
            a = Sin(x)
            there = OptionalHasElement(o)
            r = If (there) <
                then_branch = t () => (float[N, 4] p) {
                    v = OptionalGetElement(o)
                    p = Add(v, a)
                },
                else_branch = e () => (float[N, 4] q) { q = Neg(a) }
            >
            y = Tanh(r)
        }
        """
    )

    def feeds(rng: np.random.Generator) -> list[dict[str, object]]:
        x, other = (rng.standard_normal((2, 4)).astype(np.float32) for _ in range(2))
        return [{"x": x, "o": other}, {"x": x, "o": None}]

    return Situation(model=model, feeds=feeds, source="ort#8339")


def map_is_the_output() -> Situation:
    """A classifier of ai.onnx.ml whose last op makes a sequence of maps."""
    model = parse(
        """
        <ir_version: 8, opset_import: ["" : 17, "ai.onnx.ml" : 3]>
        g (float[N, 4] x) => (int64[N] label, seq(float[1]) z) {
            a = Relu(x)
            scores = Softmax <axis = 1> (a)
            label = ArgMax <axis = 1, keepdims = 0> (scores)
            b = Identity(scores)
            z = ai.onnx.ml.ZipMap <classlabels_int64s = [3, 5, 7, 9]> (b)
        }
        """
    )
    map_type = helper.make_map_type_proto(
        onnx.TensorProto.INT64, helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, [])
    )
    model.graph.output[1].type.CopyFrom(helper.make_sequence_type_proto(map_type))
    return Situation(model=model, feeds=calls({"x": (3, 4)}), source="onnx-facts 5.1")


def strings_across() -> Situation:
    """String tensors, one of them a constant, cross between ops."""
    model = parse(
        """
        <ir_version: 9, opset_import: ["" : 20, "ai.onnx.ml" : 3]>
        g (string[N] words) => (string[N] y, int64[N] ids, string[M] parted, int64[N] n) {
            dot = Constant <value = string {"."}> ()
            a = StringConcat(words, dot)
            b = Identity(a)
            y = StringConcat(b, a)
            ids = ai.onnx.ml.LabelEncoder <keys_strings = ["a.", "b."], values_int64s = [4, 7]> (b)
            pieces, n = StringSplit <delimiter = "."> (y)
            flat = Constant <value_ints = [-1]> ()
            parted = Reshape(pieces, flat)
        }
        """
    )
    words = np.array(["a", "b", "ß"], dtype=object)
    return Situation(model=model, feeds=calls(words=words), source="onnx-facts 2.3")


def loop_carries_a_sequence() -> Situation:
    """A Loop that starts from an empty sequence and fills it."""
    model = parse(
        """
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[4] x, int64 n) => (float[M] y) <bool yes = {1}> {
            a = Exp(x)
            empty = SequenceEmpty <dtype = 1> ()
            s = Loop (n, yes, empty) <body = b (int64 i, bool go, seq(float[4]) t)
                => (bool go_on, seq(float[4]) t2) {
                    go_on = Identity(go)
                    f = Cast <to = 1> (i)
                    v = Mul(a, f)
                    t2 = SequenceInsert(t, v)
                }>
            c = ConcatFromSequence <axis = 0> (s)
            y = Neg(c)
        }
        """
    )
    return Situation(
        model=model, feeds=calls({"x": (4,)}, n=np.array(3)), source="onnx/optimizer#134"
    )


SITUATIONS = (
    sequence_across,
    sequence_in_and_out,
    sequence_of_strings,
    sequence_map,
    optional_across,
    optional_is_an_input,
    map_is_the_output,
    strings_across,
    loop_carries_a_sequence,
)
