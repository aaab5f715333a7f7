"""Shapes of graphs: branches, joins, chains of shape arithmetic, odd orders, special ops."""

import numpy as np

from tests.zoo.situation import Situation, calls, parse, weight

__all__ = ["SITUATIONS", "interleaved_branches", "six_small_ops"]


def interleaved_branches(length: int = 20) -> Situation:
    """Two independent branches of ``length`` ops whose nodes alternate in the file, and a join."""
    ops = ["Sin", "Cos", "Tanh", "Atan", "Sigmoid"]
    lines = []
    for step in range(length):
        op = ops[step % len(ops)]
        lines += [f"l{step + 1} = {op}(l{step})", f"r{step + 1} = {op}(r{step})"]
    model = parse(
        '<ir_version: 8, opset_import: ["" : 17]> '
        "g (float[N, 4] l0, float[N, 4] r0) => (float[N, 4] y) {"
        + "\n".join(lines)
        + f"\n y = Add(l{length}, r{length}) }}"
    )
    return Situation(model=model, feeds=calls({"l0": (2, 4), "r0": (2, 4)}), source="ort#12318")


def six_small_ops() -> Situation:
    """A chain of six ops that are not fused, each of which may become a part."""
    model = parse(
        """
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[N, 4] x) => (float[N, 4] y) {
            a = Sin(x)  b = Cos(a)  c = Tanh(b)  d = Exp(c)  e = Atan(d)  y = Neg(e)
        }
        """
    )
    return Situation(
        model=model, feeds=calls({"x": (2, 4)}), source="ort#10273, ort#17011, ort#29351"
    )


def not_in_topological_order() -> Situation:
    """Nodes stand in the reverse of the order they run in, as some exporters write them."""
    model = parse(
        """
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[N, 4] x) => (float[N, 4] y) {
            y = Neg(c)
            c = Add(a, b)
            b = MatMul(a, w)
            a = Relu(x)
        }
        """,
        {"w": weight(4, 4)},
    )
    return Situation(
        model=model, feeds=calls({"x": (2, 4)}), source="pytorch#5280", is_checked=False
    )


def shape_chain_feeds_reshape() -> Situation:
    """A nanoGPT-like attention block: Shape, Gather and Concat feed Reshapes further on."""
    model = parse(
        """
        <ir_version: 8, opset_import: ["" : 17]>
        g (int64[B, T] ids) => (float[B, T, 11] logits) <
            int64 zero = {0}, int64 one = {1}, int64[1] axis = {0},
            int64[1] two = {2}, int64[1] four = {4}, int64[1] eight = {8},
            int64[3] thirds = {8, 8, 8}, float root = {0.5}
        > {
            h = Gather(table, ids)
            shape = Shape(ids)
            b = Gather(shape, zero)
            t = Gather(shape, one)
            b1 = Unsqueeze(b, axis)
            t1 = Unsqueeze(t, axis)
            heads = Concat <axis = 0> (b1, t1, two, four)
            whole = Concat <axis = 0> (b1, t1, eight)
            qkv = MatMul(h, w_qkv)
            q, k, v = Split <axis = 2> (qkv, thirds)
            qr = Reshape(q, heads)
            kr = Reshape(k, heads)
            vr = Reshape(v, heads)
            qh = Transpose <perm = [0, 2, 1, 3]> (qr)
            kh = Transpose <perm = [0, 2, 3, 1]> (kr)
            vh = Transpose <perm = [0, 2, 1, 3]> (vr)
            s = MatMul(qh, kh)
            s2 = Mul(s, root)
            square = Concat <axis = 0> (t1, t1)
            ones = ConstantOfShape <value = float[1] {1}> (square)
            upper = Trilu <upper = 0> (ones)
            none = Cast <to = 9> (upper)
            far = Constant <value = float {-10000}> ()
            s3 = Where(none, s2, far)
            p = Softmax <axis = 3> (s3)
            o = MatMul(p, vh)
            ot = Transpose <perm = [0, 2, 1, 3]> (o)
            oh = Reshape(ot, whole)
            r = Add(h, oh)
            logits = MatMul(r, w_out)
        }
        """,
        {"table": weight(11, 8), "w_qkv": weight(8, 24), "w_out": weight(8, 11)},
    )

    def feeds(rng: np.random.Generator) -> list[dict[str, object]]:
        return [{"ids": rng.integers(0, 11, size)} for size in ((2, 5), (1, 1), (3, 2))]

    return Situation(model=model, feeds=feeds, source="sonos/tract#1379")


def contrib_op_without_value_info() -> Situation:
    """A com.microsoft op whose output type stands nowhere in the file and ONNX cannot infer."""
    model = parse(
        """
        <ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
        g (float[N, 8] x) => (float[N, 8] y) {
            a = Sin(x)
            b = com.microsoft.FastGelu (a)
            c = com.microsoft.BiasGelu (b, bias)
            d = com.microsoft.FusedMatMul <alpha = 0.5> (c, w)
            y = Neg(d)
        }
        """,
        {"bias": weight(8), "w": weight(8, 8)},
    )
    return Situation(
        model=model,
        feeds=calls({"x": (2, 8)}),
        source="ort#21194, ort#8755, ort#15898, ort#25412",
    )


def batch_norm_with_odd_scale() -> Situation:
    """Opset 7 BatchNormalization with ``spatial = 0``: scale and mean have the rank of a sample."""
    model = parse(
        """
        <ir_version: 3, opset_import: ["" : 7]>
        g (float[N, 3, 2, 2] x, float[3, 2, 2] s, float[3, 2, 2] b, float[3, 2, 2] m,
            float[3, 2, 2] v) => (float[N, 3, 2, 2] y) {
            a = Relu(x)
            n = BatchNormalization <spatial = 0> (a, s, b, m, v)
            y = Neg(n)
        }
        """,
        {
            "s": weight(3, 2, 2),
            "b": weight(3, 2, 2, seed=1),
            "m": weight(3, 2, 2, seed=2),
            "v": np.abs(weight(3, 2, 2, seed=3)) + 1,
        },
    )
    return Situation(model=model, feeds=calls({"x": (2, 3, 2, 2)}), source="ort#10500")


def unseeded_random() -> Situation:
    """Two random ops without a seed: no two sessions draw the same numbers."""
    model = parse(
        """
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[N, 4] x) => (float[N, 4] y) {
            a = RandomNormalLike(x)
            b = RandomNormalLike(x)
            c = Add(a, b)
            y = Add(c, x)
        }
        """
    )
    return Situation(
        model=model,
        feeds=calls({"x": (2, 4)}),
        source="ort#20054, ort#27771, ort#6877",
        repeats=False,
    )


def seeded_random() -> Situation:
    """Random ops with seeds: each draws its own repeatable sequence, call by call."""
    model = parse(
        """
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[N, 4] x) => (float[N, 4] y) {
            a = RandomNormalLike <seed = 1.0> (x)
            b = RandomUniformLike <seed = 2.0> (a)
            c = Add(a, b)
            y = Mul(c, x)
        }
        """
    )
    return Situation(model=model, feeds=calls({"x": (2, 4)}, {"x": (2, 4)}), source="ort#20054")


def dead_ends() -> Situation:
    """Ops whose outputs nobody reads, a chain of them too."""
    model = parse(
        """
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[N, 4] x) => (float[N, 4] y) {
            a = Relu(x)
            d1 = Sin(a)
            d2 = Cos(d1)
            y = Neg(a)
            d3 = Exp(y)
        }
        """
    )
    return Situation(model=model, feeds=calls({"x": (2, 4)}), source="rule 9")


def empty_optionals_and_unused_outputs() -> Situation:
    """Inputs and outputs that are left out in the middle and at the end."""
    model = parse(
        """
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[T, N, 4] x) => (float[1, N, 3] last, float[M, 3] y) <
            float[4] scales = {1, 1, 2, 1}, float top = {1}
        > {
            a = Clip(x, "", top)
            "", last = LSTM <hidden_size = 3> (a, w, r)
            all, "", cell = LSTM <hidden_size = 3> (a, w, r, "", "", last)
            b = Resize <mode = "nearest"> (all, "", scales)
            drop, "" = Dropout(b)
            flat = Constant <value_ints = [-1, 3]> ()
            c = Reshape(drop, flat)
            top3, idle = TopK(c, k)
            y = Neg(top3)
        }
        """,
        {"w": weight(1, 12, 4), "r": weight(1, 12, 3), "k": np.array([3])},
    )
    return Situation(model=model, feeds=calls({"x": (2, 3, 4)}, {"x": (4, 1, 4)}), source="rule 8")


def domain_has_two_names() -> Situation:
    """Nodes in domain "" and "ai.onnx", which is the same; only the second is imported."""
    model = parse(
        """
        <ir_version: 8, opset_import: ["ai.onnx" : 17, "ai.onnx.ml" : 3]>
        g (float[N, 4] x) => (float[N, 4] y) {
            a = Relu(x)
            b = Sin(a)
            y = Neg(b)
        }
        """
    )
    model.graph.node[1].domain = "ai.onnx"
    return Situation(model=model, feeds=calls({"x": (2, 4)}), source="rule 3", is_checked=False)


def contrib_domain_is_not_imported() -> Situation:
    """A com.microsoft op without an import of its domain, which onnxruntime lets pass."""
    model = parse(
        """
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[N, 4] x) => (float[N, 4] y) {
            a = Sin(x)
            b = com.microsoft.FastGelu (a)
            y = Neg(b)
        }
        """
    )
    return Situation(
        model=model, feeds=calls({"x": (2, 4)}), source="rule 3", may_refuse=True, is_checked=False
    )


def layers_in_a_row(num: int = 6) -> Situation:
    """Six equal layers whose ops onnxruntime fuses (LayerNorm, Gelu, skip)."""
    lines = ["h0 = MatMul(x, w0)"]
    for i in range(num):
        lines.append(
            f"""
            m{i} = ReduceMean <axes = [-1]> (h{i})
            c{i} = Sub(h{i}, m{i})
            s{i} = Mul(c{i}, c{i})
            v{i} = ReduceMean <axes = [-1]> (s{i})
            e{i} = Add(v{i}, eps)
            d{i} = Sqrt(e{i})
            n{i} = Div(c{i}, d{i})
            g{i} = Mul(n{i}, gamma)
            b{i} = Add(g{i}, beta)
            p{i} = MatMul(b{i}, w{i + 1})
            t{i} = Div(p{i}, root)
            r{i} = Erf(t{i})
            o{i} = Add(r{i}, one)
            u{i} = Mul(p{i}, o{i})
            z{i} = Mul(u{i}, half)
            h{i + 1} = Add(h{i}, z{i})"""
        )
    model = parse(
        '<ir_version: 8, opset_import: ["" : 17]> '
        f"g (float[N, 8] x) => (float[N, 8] h{num}) <float eps = {{0.00001}}, "
        "float root = {1.41421356}, float one = {1}, float half = {0.5}> {"
        + "\n".join(lines)
        + "}",
        {"gamma": weight(8), "beta": weight(8, seed=1)}
        | {f"w{i}": weight(8, 8, seed=i) for i in range(num + 1)},
    )
    return Situation(model=model, feeds=calls({"x": (3, 8)}), source="onnx-facts 0.7")


def convolutions_with_branches() -> Situation:
    """A dynamic residual CNN: layouts change, Conv fuses with Relu and Add."""
    model = parse(
        """
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[N, 3, H, W] x) => (float[N, 5] y) {
            a = Conv <pads = [1, 1, 1, 1]> (x, w1, b1)
            r1 = Relu(a)
            b = Conv <pads = [1, 1, 1, 1]> (r1, w2)
            n = BatchNormalization(b, s, o, m, v)
            r2 = Relu(n)
            c = Conv(r1, w3)
            d = Add(r2, c)
            r3 = Relu(d)
            e = MaxPool <kernel_shape = [2, 2]> (r3)
            f = AveragePool <kernel_shape = [2, 2]> (d)
            j = Concat <axis = 1> (e, f)
            k = GlobalAveragePool(j)
            l = Flatten(k)
            y = Gemm(l, w4)
        }
        """,
        {
            "w1": weight(16, 3, 3, 3),
            "b1": weight(16),
            "w2": weight(16, 16, 3, 3),
            "w3": weight(16, 16, 1, 1),
            "s": weight(16, seed=1),
            "o": weight(16, seed=2),
            "m": weight(16, seed=3),
            "v": np.abs(weight(16, seed=4)) + 1,
            "w4": weight(32, 5),
        },
    )
    return Situation(
        model=model,
        feeds=calls({"x": (1, 3, 8, 8)}, {"x": (2, 3, 6, 10)}),
        source="onnx-tool#22, onnx-tool#103",
    )


SITUATIONS = (
    interleaved_branches,
    six_small_ops,
    not_in_topological_order,
    shape_chain_feeds_reshape,
    contrib_op_without_value_info,
    batch_norm_with_odd_scale,
    unseeded_random,
    seeded_random,
    dead_ends,
    empty_optionals_and_unused_outputs,
    domain_has_two_names,
    contrib_domain_is_not_imported,
    layers_in_a_row,
    convolutions_with_branches,
)
