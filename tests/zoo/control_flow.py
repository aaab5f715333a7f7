"""If, Loop and Scan: captures at any depth, shadowing, and what branches may return."""

import numpy as np

from tests.zoo.situation import Situation, calls, parse, weight

__all__ = ["SITUATIONS"]

YES, NO = np.array(True), np.array(False)


def if_reads_two_outer_values() -> Situation:
    """Both branches capture two values made before the If, and an outer initializer."""
    model = parse(
        """
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[N, 4] x, bool c) => (float[N, 4] y) {
            a = Relu(x)
            b = Sigmoid(x)
            r = If (c) <
                then_branch = t () => (float[N, 4] p) { s = Add(a, b)  p = MatMul(s, w) },
                else_branch = e () => (float[N, 4] q) { d = Sub(b, a)  q = MatMul(d, w) }
            >
            y = Tanh(r)
        }
        """,
        {"w": weight(4, 4)},
    )
    return Situation(
        model=model,
        feeds=lambda rng: [
            *calls({"x": (2, 4)}, c=YES)(rng),
            *calls({"x": (3, 4)}, c=NO)(rng),
        ],
        source="onnx#6229",
    )


def initializer_read_only_in_branch() -> Situation:
    """The outer initializer ``w`` has no reader but a node inside a branch."""
    model = parse(
        """
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[N, 4] x, bool c) => (float[N, 4] y) {
            a = Relu(x)
            r = If (c) <
                then_branch = t () => (float[N, 4] p) { p = MatMul(a, w) },
                else_branch = e () => (float[N, 4] q) { q = Identity(a) }
            >
            y = Neg(r)
        }
        """,
        {"w": weight(4, 4)},
    )
    return Situation(
        model=model,
        feeds=lambda rng: [*calls({"x": (2, 4)}, c=YES)(rng), *calls({"x": (2, 4)}, c=NO)(rng)],
        source="ort#32131, ort#729",
    )


def loop_in_if_reads_top_level() -> Situation:
    """Two levels down, a Loop body reads a value and an initializer of the main graph."""
    model = parse(
        """
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[4] x, bool c, int64 n) => (float[4] y) <bool yes = {1}> {
            scale = Exp(x)
            start = Neg(x)
            r = If (c) <
                then_branch = t () => (float[4] p) {
                    p = Loop (n, yes, start) <body = b (int64 i, bool go, float[4] s)
                        => (bool go_on, float[4] s2) {
                            go_on = Identity(go)
                            m = Mul(s, scale)
                            s2 = Add(m, bias)
                        }>
                },
                else_branch = e () => (float[4] q) { q = Abs(start) }
            >
            y = Tanh(r)
        }
        """,
        {"bias": weight(4)},
    )
    return Situation(
        model=model,
        feeds=lambda rng: [
            *calls({"x": (4,)}, c=YES, n=np.array(3))(rng),
            *calls({"x": (4,)}, c=NO, n=np.array(3))(rng),
            *calls({"x": (4,)}, c=YES, n=np.array(0))(rng),
        ],
        source="ort#28608, ort#4031",
    )


def captures_three_levels_down() -> Situation:
    """An If in a Loop in an If reads values of all the graphs around it."""
    model = parse(
        """
        <ir_version: 9, opset_import: ["" : 19]>
        g (float[4] x, bool c, int64 n) => (float[4] y) <bool yes = {1}> {
            top = Sin(x)
            r = If (c) <
                then_branch = t () => (float[4] p) {
                    middle = Cos(top)
                    p = Loop (n, yes, x) <body = b (int64 i, bool go, float[4] s)
                        => (bool go_on, float[4] s2) {
                            go_on = Identity(go)
                            two = Constant <value = int64[1] {2}> ()
                            rest = Mod(i, two)
                            flat = Squeeze(rest)
                            odd = Cast <to = 9> (flat)
                            s2 = If (odd) <
                                then_branch = o () => (float[4] u) { u = Add(s, top) },
                                else_branch = v () => (float[4] w) { w = Sub(s, middle) }
                            >
                        }>
                },
                else_branch = e () => (float[4] q) { q = Neg(top) }
            >
            y = Mul(r, top)
        }
        """
    )
    return Situation(
        model=model,
        feeds=lambda rng: [
            *calls({"x": (4,)}, c=YES, n=np.array(5))(rng),
            *calls({"x": (4,)}, c=NO, n=np.array(1))(rng),
        ],
        source="ort#28608",
    )


def scan_reads_outer_value() -> Situation:
    """A Scan body captures a value that another device may have made."""
    model = parse(
        """
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[T, 4] x) => (float[4] last, float[T, 4] all) {
            gain = ReduceMax <axes = [0], keepdims = 0> (x)
            zero = Sub(gain, gain)
            last, h = Scan (zero, x) <num_scan_inputs = 1, body = b (float[4] s, float[4] v)
                => (float[4] s2, float[4] o) {
                    m = Mul(v, gain)
                    s2 = Add(s, m)
                    o = MatMul(s2, w)
                }>
            all = Relu(h)
        }
        """,
        {"w": weight(4, 4)},
    )
    return Situation(
        model=model, feeds=calls({"x": (5, 4)}, {"x": (2, 4)}), source="ort#28608, ort#4031"
    )


def branch_returns_outer_value() -> Situation:
    """A branch's output is a value made outside; onnxruntime asks for an Identity between."""
    text = """
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[N, 4] x, bool c) => (float[N, 4] y) {
            a = Relu(x)
            r = If (c) <
                then_branch = t () => (float[N, 4] OUT) { NODE },
                else_branch = e () => (float[N, 4] q) { q = Neg(a) }
            >
            y = Tanh(r)
        }
        """
    return Situation(
        model=parse(text.replace("OUT", "a").replace("NODE", "")),
        mended=parse(text.replace("OUT", "p").replace("NODE", "p = Identity(a)")),
        may_refuse=True,
        feeds=calls({"x": (2, 4)}, c=YES),
        source="ort#11536",
        is_checked=False,
    )


def branch_returns_its_initializer() -> Situation:
    """A branch without nodes returns an initializer of its own; the other one reads nothing."""
    model = parse(
        """
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[4] x, bool c) => (float[4] y) {
            r = If (c) <
                then_branch = t () => (float[4] k) <float[4] k = {1, 2, 3, 4}> { },
                else_branch = e () => (float[4] q) {
                    q = Constant <value = float[4] {5, 6, 7, 8}> ()
                }
            >
            y = Mul(r, x)
        }
        """
    )
    return Situation(
        model=model,
        feeds=lambda rng: [*calls({"x": (4,)}, c=YES)(rng), *calls({"x": (4,)}, c=NO)(rng)],
        source="ort#11536",
    )


def both_branches_use_the_same_names() -> Situation:
    """Names inside the two branches are equal: each graph has a name space of its own."""
    model = parse(
        """
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[N, 4] x, bool c) => (float[N, 4] y) {
            a = Relu(x)
            r = If (c) <
                then_branch = t () => (float[N, 4] p) { s = Exp(a)  p = Add(s, x) },
                else_branch = e () => (float[N, 4] p) { s = Neg(a)  p = Add(s, x) }
            >
            y = Tanh(r)
        }
        """
    )
    return Situation(
        model=model,
        feeds=lambda rng: [*calls({"x": (2, 4)}, c=YES)(rng), *calls({"x": (2, 4)}, c=NO)(rng)],
        source="onnx#2082",
    )


def loop_collects_and_may_stop() -> Situation:
    """A Loop with a scan output of unknown length that ends by its own condition."""
    model = parse(
        """
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[4] x, int64 n) => (float[4] y, float[M, 4] steps) <bool yes = {1}> {
            half = Abs(x)
            y0, seen = Loop (n, yes, half) <body = b (int64 i, bool go, float[4] s)
                => (bool go_on, float[4] s2, float[4] o) {
                    s2 = Add(s, half)
                    total = ReduceSum <keepdims = 0> (s2)
                    limit = Constant <value = float {20}> ()
                    go_on = Less(total, limit)
                    o = Identity(s2)
                }>
            y = Neg(y0)
            steps = Relu(seen)
        }
        """
    )
    return Situation(
        model=model,
        feeds=lambda rng: [
            *calls({"x": (4,)}, n=np.array(50))(rng),
            *calls({"x": (4,)}, n=np.array(2))(rng),
            *calls({"x": (4,)}, n=np.array(0))(rng),
        ],
        source="ort#28608",
    )


def loop_without_limit_or_condition() -> Situation:
    """Empty trip count and empty condition: both optional inputs of Loop are left out."""
    model = parse(
        """
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[4] x) => (float[4] y) {
            size = Abs(x)
            y0 = Loop ("", "", size) <body = b (int64 i, bool go, float[4] s)
                => (bool go_on, float[4] s2) {
                    one = Constant <value = float {1}> ()
                    s2 = Add(s, one)
                    low = ReduceMin <keepdims = 0> (s2)
                    limit = Constant <value = float {6}> ()
                    go_on = Less(low, limit)
                }>
            y = Sqrt(y0)
        }
        """
    )
    return Situation(model=model, feeds=calls({"x": (4,)}), source="rule 8")


def if_gives_several_outputs() -> Situation:
    """An If with three outputs: one unused, one a graph output, one that goes on."""
    model = parse(
        """
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[N, 4] x, bool c) => (float[N, 4] first, float[N, 4] y) {
            a = Relu(x)
            first, unused, more = If (c) <
                then_branch = t () => (float[N, 4] p1, float[N, 4] p2, float[N, 4] p3) {
                    p1 = Exp(a)  p2 = Neg(a)  p3 = Add(a, x)
                },
                else_branch = e () => (float[N, 4] q1, float[N, 4] q2, float[N, 4] q3) {
                    q1 = Neg(x)  q2 = Exp(x)  q3 = Sub(a, x)
                }
            >
            y = Tanh(more)
        }
        """
    )
    return Situation(
        model=model,
        feeds=lambda rng: [*calls({"x": (1, 4)}, c=YES)(rng), *calls({"x": (3, 4)}, c=NO)(rng)],
        source="rule 8",
    )


SITUATIONS = (
    if_reads_two_outer_values,
    initializer_read_only_in_branch,
    loop_in_if_reads_top_level,
    captures_three_levels_down,
    scan_reads_outer_value,
    branch_returns_outer_value,
    branch_returns_its_initializer,
    both_branches_use_the_same_names,
    loop_collects_and_may_stop,
    loop_without_limit_or_condition,
    if_gives_several_outputs,
)
