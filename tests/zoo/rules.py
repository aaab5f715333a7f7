"""One situation for each of the thirteen rules that a correct splitter keeps."""

import numpy as np
from onnx import TensorProto, helper

from tests.zoo.control_flow import captures_three_levels_down
from tests.zoo.situation import Situation, calls, parse, set_initializers, weight

__all__ = ["SITUATIONS"]


def RULE_1_captures_and_shadowing() -> Situation:
    """Names of a body hide outer ones at one depth and not at another."""
    model = parse(
        """
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[4] x, int64 n, bool c) => (float[4] y) <bool yes = {1}> {
            a = Sin(x)
            s = Cos(x)
            r = Loop (n, yes, a) <body = b (int64 i, bool go, float[4] s)
                => (bool go_on, float[4] s2) {
                    go_on = Identity(go)
                    s2 = If (c) <
                        then_branch = t () => (float[4] p) { p = Add(s, w) },
                        else_branch = e () => (float[4] q) { q = Mul(s, a) }
                    >
                }>
            y = Add(r, s)
        }
        """,
        {"w": weight(4)},
    )
    return Situation(
        model=model,
        feeds=lambda rng: [
            *calls({"x": (4,)}, n=np.array(2), c=np.array(True))(rng),
            *calls({"x": (4,)}, n=np.array(3), c=np.array(False))(rng),
        ],
        source="onnx#2082",
    )


def RULE_2_functions_reached_by_every_road() -> Situation:
    """Functions called by a node, in a branch, and by another function under an overload."""
    model = parse(
        """
        <ir_version: 10, opset_import: ["" : 20, "local" : 1]>
        g (float[N, 4] x, bool c) => (float[N, 4] y) {
            a = local.f:deep (x)
            r = If (c) <
                then_branch = t () => (float[N, 4] p) { p = local.only_here (a) },
                else_branch = e () => (float[N, 4] q) { q = Neg(a) }
            >
            y = local.f:flat (r)
        }
        <domain: "local", overload: "deep", opset_import: ["" : 20, "local" : 1]>
        f (p) => (q) { r = local.below (p)  q = Sin(r) }
        <domain: "local", overload: "flat", opset_import: ["" : 20]>
        f (p) => (q) { q = Cos(p) }
        <domain: "local", opset_import: ["" : 20]>
        below (p) => (q) { q = Tanh(p) }
        <domain: "local", opset_import: ["" : 20, "local" : 1]>
        only_here (p) => (q) { r = local.below (p)  q = Exp(r) }
        """
    )
    return Situation(
        model=model,
        feeds=lambda rng: [
            *calls({"x": (2, 4)}, c=np.array(True))(rng),
            *calls({"x": (2, 4)}, c=np.array(False))(rng),
        ],
        source="onnx#3938, onnx#8435",
    )


def RULE_3_imports_and_ir_version() -> Situation:
    """IR 3 with initializers as inputs and three domains, each used on one side only."""
    model = parse(
        """
        <ir_version: 3, opset_import: ["" : 9, "ai.onnx.ml" : 1, "com.microsoft" : 1]>
        g (float[N, 4] x, float[4, 4] w, float[4] b) => (float[N, 4] y) {
            a = ai.onnx.ml.Scaler <offset = [0.5], scale = [2.0]> (x)
            c = MatMul(a, w)
            d = com.microsoft.BiasGelu (c, b)
            y = Neg(d)
        }
        """,
        {"w": weight(4, 4), "b": weight(4)},
    )
    return Situation(model=model, feeds=calls({"x": (2, 4)}), source="ort#9663, ort#1324")


def RULE_4_cheap_sources_are_cloned() -> Situation:
    """Constants, filled tensors, a dequantised weight and shape arithmetic read by many ops."""
    model = parse(
        """
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[B, T, 4] x) => (float[B, T, 4] y) <
            int64[1] four = {4}, int64 zero = {0}, int64[1] axis = {0},
            float sw = {0.05}, int8 zw = {0}
        > {
            half = Constant <value = float {0.5}> ()
            ones = ConstantOfShape <value = float[1] {1}> (four)
            w = DequantizeLinear(wq, sw, zw)
            shape = Shape(x)
            b = Gather(shape, zero)
            b1 = Unsqueeze(b, axis)
            rest = Constant <value_ints = [-1, 4]> ()
            to = Concat <axis = 0> (b1, rest)
            a1 = MatMul(x, w)
            a2 = Mul(a1, half)
            a3 = Add(a2, ones)
            a4 = Reshape(a3, to)
            a5 = MatMul(a4, w)
            a6 = Mul(a5, half)
            a7 = Add(a6, ones)
            a8 = Reshape(a7, to)
            y = Reshape(a8, shape)
        }
        """,
        {"wq": np.arange(-8, 8, dtype=np.int8).reshape(4, 4)},
    )
    return Situation(
        model=model,
        feeds=calls({"x": (2, 3, 4)}, {"x": (1, 5, 4)}),
        source="Olive#1515, sonos/tract#1379",
    )


def RULE_5_shared_weight() -> Situation:
    """A weight read by the first and by the last op, and by no other."""
    model = parse(
        """
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[N, 16] x) => (float[N, 16] y) {
            a = MatMul(x, w)
            b = Tanh(a)
            c = Sin(b)
            y = MatMul(c, w)
        }
        """,
        {"w": weight(16, 16)},
    )
    return Situation(model=model, feeds=calls({"x": (2, 16)}), source="rule 5")


def RULE_6_every_cut_value_is_typed() -> Situation:
    """No value_info; types that only onnxruntime knows; a sequence; a value of unknown rank."""
    model = parse(
        """
        <ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
        g (float[N, 8] x, int64[R] to) => (float[M] y) <int64[1] flat = {-1}> {
            a = com.microsoft.FastGelu (x)
            b = Cast <to = 10> (a)
            c = Cast <to = 1> (b)
            s = SplitToSequence <axis = 1, keepdims = 1> (c)
            d = ConcatFromSequence <axis = 1> (s)
            e = Reshape(d, to)
            f = Sin(e)
            y = Reshape(f, flat)
        }
        """
    )
    return Situation(
        model=model,
        feeds=lambda rng: [
            *calls({"x": (2, 8)}, to=np.array([4, 4]))(rng),
            *calls({"x": (1, 8)}, to=np.array([2, 2, 2]))(rng),
        ],
        source="onnx/optimizer#221, ort#21194",
    )


def RULE_7_outputs_keep_order_and_names() -> Situation:
    """Outputs: inner, an initializer, an input, the last, one twice, one from a Constant."""
    model = parse(
        """
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[N, 4] x) => (float[N, 4] b, float[4] w, float[N, 4] x, float[N, 4] y,
                float[N, 4] a, float[N, 4] y, float[2] k) <float[4] w = {4, 3, 2, 1}> {
            k = Constant <value = float[2] {7, 8}> ()
            a = Mul(x, w)
            b = Sin(a)
            y = Neg(b)
        }
        """
    )
    return Situation(model=model, feeds=calls({"x": (2, 4)}), source="rule 7")


def RULE_8_holes_and_missing_names() -> Situation:
    """Empty input and output names in the middle; nodes without a name."""
    model = parse(
        """
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[T, N, 4] x) => (float[1, N, 3] y) <float top = {0.5}> {
            a = Clip(x, "", top)
            "", "", c = LSTM <hidden_size = 3> (a, w, r, "", "", h)
            d = Clip(c, "", top)
            y = Neg(d)
        }
        """,
        {"w": weight(1, 12, 4), "r": weight(1, 12, 3), "h": weight(1, 2, 3)},
    )
    return Situation(model=model, feeds=calls({"x": (2, 2, 4)}), source="ort#3854, onnx#1018")


def RULE_9_no_empty_parts() -> Situation:
    """Ops that a device may get alone although nothing of it need run: constants, dead ends."""
    model = parse(
        """
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[N, 4] x) => (float[N, 4] y, float[4] k, float[N, 4] x) {
            k = Constant <value = float[4] {1, 2, 3, 4}> ()
            dead = Sin(x)
            a = Add(x, k)
            y = Neg(a)
            dead2 = Cos(y)
        }
        """
    )
    return Situation(model=model, feeds=calls({"x": (2, 4)}), source="rule 9")


def RULE_10_parts_form_no_cycle() -> Situation:
    """Two chains that cross each other: one part a device would wait for itself."""
    model = parse(
        """
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[N, 4] x) => (float[N, 4] y, float[N, 4] z) {
            a1 = Sin(x)
            b1 = Cos(x)
            a2 = Add(a1, b1)
            b2 = Sub(b1, a1)
            a3 = Mul(a2, b2)
            b3 = Add(b2, a2)
            y = Tanh(a3)
            z = Mul(b3, a3)
        }
        """
    )
    return Situation(model=model, feeds=calls({"x": (2, 4)}), source="ort#5940")


def RULE_11_random_ops() -> Situation:
    """Unseeded random ops: the numbers differ from session to session, the plan says so."""
    model = parse(
        """
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[N, 4] x) => (float[N, 4] y) {
            a = RandomUniformLike(x)
            b = RandomNormalLike(x)
            c = Add(a, b)
            y = Mul(c, x)
        }
        """
    )
    return Situation(
        model=model, feeds=calls({"x": (2, 4)}), source="ort#27771, ort#20054", repeats=False
    )


def RULE_12_what_else_a_model_carries() -> Situation:
    """A sparse weight, a quantization annotation, metadata and doc strings."""
    model = parse(
        """
        <ir_version: 10, opset_import: ["" : 20]>
        g (float[N, 4] x) => (float[N, 4] y) <float scale = {0.5}> {
            a = Sin(x)
            b = MatMul(a, w)
            y = Mul(b, scale)
        }
        """
    )
    values = helper.make_tensor("w", TensorProto.FLOAT, [3], [1.5, -2.0, 0.25])
    places = helper.make_tensor("w_at", TensorProto.INT64, [3, 2], [0, 0, 1, 2, 3, 3])
    model.graph.sparse_initializer.append(helper.make_sparse_tensor(values, places, [4, 4]))
    annotation = model.graph.quantization_annotation.add(tensor_name="a")
    annotation.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="scale")
    model.metadata_props.add(key="licence", value="none")
    model.doc_string = "a model"
    for node in model.graph.node:
        node.metadata_props.add(key="from", value=node.op_type)
        node.doc_string = "a node"
    return Situation(model=model, feeds=calls({"x": (2, 4)}), source="ort#8339", is_checked=False)


def RULE_13_weights_in_several_places() -> Situation:
    """Weights of the main graph and of a body; external_data.py has the large ones."""
    situation = captures_three_levels_down()
    body = situation.model.graph.node[1].attribute[0].g
    set_initializers(body, {"inner": weight(4)})
    body.node[0].op_type = "Mul"
    body.node[0].input.append("inner")
    set_initializers(situation.model.graph, {"outer": weight(4, seed=1)})
    situation.model.graph.node[0].op_type = "Add"
    situation.model.graph.node[0].input.append("outer")
    return Situation(model=situation.model, feeds=situation.feeds, source="onnx#6172, onnx#5249")


SITUATIONS = (
    RULE_1_captures_and_shadowing,
    RULE_2_functions_reached_by_every_road,
    RULE_3_imports_and_ir_version,
    RULE_4_cheap_sources_are_cloned,
    RULE_5_shared_weight,
    RULE_6_every_cut_value_is_typed,
    RULE_7_outputs_keep_order_and_names,
    RULE_8_holes_and_missing_names,
    RULE_9_no_empty_parts,
    RULE_10_parts_form_no_cycle,
    RULE_11_random_ops,
    RULE_12_what_else_a_model_carries,
    RULE_13_weights_in_several_places,
)
