"""Model-local functions: nested, overloaded, with attributes, called only inside a branch."""

import numpy as np

from tests.zoo.situation import Situation, calls, parse, weight

__all__ = ["SITUATIONS"]


def function_calls_function() -> Situation:
    """``local.f`` is used twice and calls ``local.g``, which nobody else does."""
    model = parse(
        """
        <ir_version: 8, opset_import: ["" : 17, "local" : 1]>
        g (float[N, 4] x) => (float[N, 4] y) {
            a = local.f (x)
            b = Tanh(a)
            y = local.f (b)
        }
        <domain: "local", opset_import: ["" : 17, "local" : 1]>
        f (p) => (q) { r = local.g (p)  q = Relu(r) }
        <domain: "local", opset_import: ["" : 17]>
        g (p) => (q) { q = Sin(p) }
        """
    )
    return Situation(
        model=model, feeds=calls({"x": (2, 4)}, {"x": (3, 4)}), source="onnx#3938, ort#10259"
    )


def function_called_only_in_branch() -> Situation:
    """The only call of ``local.f`` stands inside a branch of an If."""
    model = parse(
        """
        <ir_version: 8, opset_import: ["" : 17, "local" : 1]>
        g (float[N, 4] x, bool c) => (float[N, 4] y) {
            a = Relu(x)
            r = If (c) <
                then_branch = t () => (float[N, 4] p) { p = local.f (a) },
                else_branch = e () => (float[N, 4] q) { q = Neg(a) }
            >
            y = Tanh(r)
        }
        <domain: "local", opset_import: ["" : 17]>
        f (p) => (q) { r = Exp(p)  q = Add(r, p) }
        """
    )
    return Situation(
        model=model,
        feeds=lambda rng: [
            *calls({"x": (2, 4)}, c=np.array(True))(rng),
            *calls({"x": (2, 4)}, c=np.array(False))(rng),
        ],
        source="onnx#8435",
    )


def function_with_overloads() -> Situation:
    """Two functions of one name that differ only in their overload (IR 10)."""
    model = parse(
        """
        <ir_version: 10, opset_import: ["" : 20, "local" : 1]>
        g (float[N, 4] x) => (float[N, 4] y) {
            a = Sin(x)
            b = local.f:slope <alpha = 0.25> (a)
            c = local.f:turn (b)
            y = local.f:slope <alpha = 0.5> (c)
        }
        <domain: "local", overload: "slope", opset_import: ["" : 20]>
        f <alpha> (p) => (q) { q = LeakyRelu <alpha : float = @alpha> (p) }
        <domain: "local", overload: "turn", opset_import: ["" : 20]>
        f (p) => (q) { q = Neg(p) }
        """
    )
    return Situation(model=model, feeds=calls({"x": (2, 4)}), source="rule 2")


def function_with_default_attribute() -> Situation:
    """One call leaves an attribute at the function's default, another one sets it."""
    model = parse(
        """
        <ir_version: 9, opset_import: ["" : 18, "local" : 1]>
        g (float[N, 4] x) => (float[N, 4] y) {
            a = local.clipped (x)
            b = Exp(a)
            y = local.clipped <alpha = 0.5> (b)
        }
        <domain: "local", opset_import: ["" : 18]>
        clipped <alpha : float = 0.125> (p) => (q) {
            e = Elu <alpha : float = @alpha> (p)
            q = Mul(e, p)
        }
        """
    )
    return Situation(model=model, feeds=calls({"x": (2, 4)}), source="rule 2")


def function_holds_an_if() -> Situation:
    """A function's body has an If whose branches capture the function's own values."""
    model = parse(
        """
        <ir_version: 9, opset_import: ["" : 18, "local" : 1]>
        g (float[N, 4] x, bool c) => (float[N, 4] y) {
            a = Cos(x)
            b = local.pick (a, c)
            y = MatMul(b, w)
        }
        <domain: "local", opset_import: ["" : 18]>
        pick (p, choice) => (q) {
            inner = Exp(p)
            q = If (choice) <
                then_branch = t () => (float[N, 4] u) { u = Add(inner, p) },
                else_branch = e () => (float[N, 4] v) { v = Sub(inner, p) }
            >
        }
        """,
        {"w": weight(4, 4)},
    )
    return Situation(
        model=model,
        feeds=lambda rng: [
            *calls({"x": (2, 4)}, c=np.array(True))(rng),
            *calls({"x": (2, 4)}, c=np.array(False))(rng),
        ],
        source="rule 2",
    )


def function_imports_another_opset() -> Situation:
    """A function that imports an operator set the main graph does not."""
    model = parse(
        """
        <ir_version: 9, opset_import: ["" : 18, "local" : 1]>
        g (float[N, 4] x) => (float[N, 4] y) {
            a = Abs(x)
            b = local.gelu (a)
            y = Neg(b)
        }
        <domain: "local", opset_import: ["" : 18, "com.microsoft" : 1]>
        gelu (p) => (q) { r = com.microsoft.FastGelu (p)  q = Relu(r) }
        """
    )
    return Situation(model=model, feeds=calls({"x": (2, 4)}), source="rule 2", is_checked=False)


def function_leaves_out_an_input() -> Situation:
    """A function called without its last input and with an output that nobody reads."""
    model = parse(
        """
        <ir_version: 8, opset_import: ["" : 17, "local" : 1]>
        g (float[N, 4] x) => (float[N, 4] y) {
            low = Constant <value = float {-0.5}> ()
            a, unused = local.limit (x, low)
            y = Sin(a)
        }
        <domain: "local", opset_import: ["" : 17]>
        limit (p, low, high) => (q, r) { q = Clip(p, low, high)  r = Neg(q) }
        """
    )
    return Situation(model=model, feeds=calls({"x": (2, 4)}), source="rule 8")


def function_is_named_like_an_operator() -> Situation:
    """A function called Relu in a domain of its own, beside ONNX's Relu, and an unused one."""
    model = parse(
        """
        <ir_version: 8, opset_import: ["" : 17, "my.ops" : 3]>
        g (float[N, 4] x) => (float[N, 4] y) {
            a = my.ops.Relu (x)
            y = Relu(a)
        }
        <domain: "my.ops", opset_import: ["" : 17]>
        Relu (p) => (q) { q = Neg(p) }
        <domain: "my.ops", opset_import: ["" : 17]>
        Idle (p) => (q) { q = Exp(p) }
        """
    )
    return Situation(model=model, feeds=calls({"x": (2, 4)}), source="rule 2")


SITUATIONS = (
    function_calls_function,
    function_called_only_in_branch,
    function_with_overloads,
    function_with_default_attribute,
    function_holds_an_if,
    function_imports_another_opset,
    function_leaves_out_an_input,
    function_is_named_like_an_operator,
)
