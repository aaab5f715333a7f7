"""Quantised models: QDQ pairs, integer ops, dynamically quantised matrix products."""

import numpy as np

from tests.zoo.situation import Situation, calls, parse, weight

__all__ = ["SITUATIONS"]


def whole_numbers(*shape: int, dtype: str) -> np.ndarray[tuple[int, ...], np.dtype[np.generic]]:
    """Return random integers over the whole range of an 8-bit type."""
    limits = np.iinfo(dtype)
    rng = np.random.default_rng(shape)
    return rng.integers(limits.min, limits.max, shape, dtype=dtype, endpoint=True)


def qdq_net() -> Situation:
    """Conv and Gemm between QuantizeLinear and DequantizeLinear, weights and bias quantised."""
    model = parse(
        """
        <ir_version: 8, opset_import: ["" : 13]>
        g (float[N, 3, 6, 6] x) => (float[N, 5] y) <
            float sx = {0.03}, uint8 zx = {128}, float sw = {0.01}, int8 zw = {0},
            float sb = {0.0003}, int32 zb = {0}, float so = {0.02}, uint8 zo = {0}
        > {
            xq = QuantizeLinear(x, sx, zx)
            xd = DequantizeLinear(xq, sx, zx)
            wd = DequantizeLinear(w1, sw, zw)
            bd = DequantizeLinear(b1, sb, zb)
            c = Conv(xd, wd, bd)
            r = Relu(c)
            rq = QuantizeLinear(r, so, zo)
            rd = DequantizeLinear(rq, so, zo)
            p = GlobalAveragePool(rd)
            pq = QuantizeLinear(p, so, zo)
            pd = DequantizeLinear(pq, so, zo)
            f = Flatten(pd)
            wd2 = DequantizeLinear(w2, sw, zw)
            m = MatMul(f, wd2)
            mq = QuantizeLinear(m, so, zx)
            y = DequantizeLinear(mq, so, zx)
        }
        """,
        {
            "w1": whole_numbers(8, 3, 3, 3, dtype="int8"),
            "b1": np.arange(8, dtype="int32"),
            "w2": whole_numbers(8, 5, dtype="int8"),
        },
    )
    return Situation(
        model=model,
        feeds=calls({"x": (1, 3, 6, 6)}, {"x": (2, 3, 6, 6)}),
        source="onnx-tool#49, Olive#1515",
    )


def qdq_branches_share_a_quantised_value() -> Situation:
    """One DequantizeLinear read by two ops; its Quantize stands on the other side of a cut."""
    model = parse(
        """
        <ir_version: 8, opset_import: ["" : 13]>
        g (float[N, 8] x) => (float[N, 8] y) <float s = {0.02}, uint8 z = {100},
                float sw = {0.01}, int8 zw = {0}> {
            q = QuantizeLinear(x, s, z)
            d = DequantizeLinear(q, s, z)
            wd = DequantizeLinear(w, sw, zw)
            a = MatMul(d, wd)
            aq = QuantizeLinear(a, s, z)
            ad = DequantizeLinear(aq, s, z)
            b = Sigmoid(d)
            bq = QuantizeLinear(b, s, z)
            bd = DequantizeLinear(bq, s, z)
            c = Add(ad, bd)
            cq = QuantizeLinear(c, s, z)
            y = DequantizeLinear(cq, s, z)
        }
        """,
        {"w": whole_numbers(8, 8, dtype="int8")},
    )
    return Situation(model=model, feeds=calls({"x": (3, 8)}), source="Olive#1515")


def integer_ops() -> Situation:
    """DynamicQuantizeLinear and MatMulInteger, as dynamic quantisation writes them."""
    model = parse(
        """
        <ir_version: 8, opset_import: ["" : 13]>
        g (float[N, 8] x) => (float[N, 4] y) <float sw = {0.01}, int8 zw = {0}> {
            a = Sin(x)
            q, s, z = DynamicQuantizeLinear(a)
            i = MatMulInteger(q, w, z, zw)
            f = Cast <to = 1> (i)
            scale = Mul(s, sw)
            o = Mul(f, scale)
            p = Add(o, bias)
            y = Relu(p)
        }
        """,
        {"w": whole_numbers(8, 4, dtype="int8"), "bias": weight(4)},
    )
    return Situation(model=model, feeds=calls({"x": (3, 8)}), source="onnx-tool#49")


def operator_form() -> Situation:
    """QLinearConv and QLinearMatMul: int8 values cross."""
    model = parse(
        """
        <ir_version: 8, opset_import: ["" : 13]>
        g (float[N, 3, 4, 4] x) => (float[N, 5] y) <
            float s = {0.02}, uint8 z = {128}, float sw = {0.01}, int8 zw = {0},
            int64[2] flat = {-1, 32}
        > {
            q = QuantizeLinear(x, s, z)
            c = QLinearConv(q, s, z, w1, sw, zw, s, z)
            r = Reshape(c, flat)
            m = QLinearMatMul(r, s, z, w2, sw, zw, s, z)
            y = DequantizeLinear(m, s, z)
        }
        """,
        {
            "w1": whole_numbers(8, 3, 3, 3, dtype="int8"),
            "w2": whole_numbers(32, 5, dtype="int8"),
        },
    )
    return Situation(model=model, feeds=calls({"x": (2, 3, 4, 4)}), source="onnx-tool#49")


SITUATIONS = (qdq_net, qdq_branches_share_a_quantised_value, integer_ops, operator_form)
