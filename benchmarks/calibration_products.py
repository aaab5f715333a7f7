"""Small models of matrix products, plain and in disguise, for benchmarks/calibration_models.py."""

import numpy as np
import onnx
from calibration_builder import Builder
from onnx import TensorProto


def convolutions() -> onnx.ModelProto:
    """Filters of one, three and seven over the sizes of ResNet and smaller ones."""
    build = Builder("convolutions")
    for channels, filters, size, kernel, stride in [
        (3, 64, 224, 7, 2),
        (64, 64, 56, 3, 1),
        (64, 256, 56, 1, 1),
        (256, 128, 28, 1, 1),
        (128, 128, 28, 3, 1),
        (512, 512, 7, 3, 1),
        (1024, 256, 14, 1, 1),
        (32, 32, 20, 3, 1),
        (48, 32, 14, 5, 1),
    ]:
        build.op(
            "Conv",
            build.input((1, channels, size, size)),
            build.weight((filters, channels, kernel, kernel)),
            strides=[stride] * 2,
            pads=[kernel // 2] * 4,
        )
    return build.model()


def depthwise_convolutions() -> onnx.ModelProto:
    """One filter a channel, as in MobileNet."""
    build = Builder("depthwise_convolutions")
    for channels, size, kernel, stride in [(32, 112, 3, 1), (144, 56, 3, 2), (384, 14, 3, 1)]:
        build.op(
            "Conv",
            build.input((1, channels, size, size)),
            build.weight((channels, 1, kernel, kernel)),
            group=channels,
            strides=[stride] * 2,
            pads=[kernel // 2] * 4,
        )
    return build.model()


def products() -> onnx.ModelProto:
    """Matrix products from tiny to a thousand squared, single and in batches."""
    build = Builder("products")
    for rows, inner, columns in [
        (128, 768, 768),
        (128, 768, 3072),
        (512, 512, 512),
        (32, 256, 256),
        (8, 512, 512),
        (64, 64, 64),
        (1024, 1024, 1024),
    ]:
        build.op("MatMul", build.input((rows, inner)), build.weight((inner, columns)))
    for batch, rows, inner in [(12, 128, 64), (8, 64, 32)]:
        build.op("MatMul", build.input((batch, rows, inner)), build.input((batch, inner, rows)))
    build.op("Gemm", build.input((64, 512)), build.weight((1000, 512)), transB=1)
    return build.model()


def vectors() -> onnx.ModelProto:
    """Products with one row."""
    build = Builder("vectors")
    for inner, columns in [(256, 256), (512, 1000), (768, 3072), (2048, 1000), (9216, 4096)]:
        build.op("MatMul", build.input((1, inner)), build.weight((inner, columns)))
    build.op("Gemm", build.input((1, 1024)), build.weight((1024, 1024)))
    return build.model()


def recurrent() -> onnx.ModelProto:
    """LSTM, GRU and RNN, with one row and with several."""
    build = Builder("recurrent")
    for op_type, gates in (("LSTM", 4), ("GRU", 3), ("RNN", 1)):
        for steps, batch, width, hidden in [
            (16, 1, 64, 64),
            (32, 1, 128, 256),
            (16, 8, 256, 256),
            (16, 1, 512, 512),
        ]:
            build.op(
                op_type,
                build.input((steps, batch, width)),
                build.weight((1, gates * hidden, width)),
                build.weight((1, gates * hidden, hidden)),
                build.weight((1, 2 * gates * hidden)),
                hidden_size=hidden,
            )
    return build.model()


def attention() -> onnx.ModelProto:
    """Fused attention, with and without projections."""
    build = Builder("attention")
    for length, width, heads in [(128, 768, 12), (64, 256, 4), (16, 64, 4)]:
        build.op(
            "Attention",
            build.input((1, length, width)),
            build.weight((width, 3 * width)),
            build.weight((3 * width,)),
            num_heads=heads,
            domain="com.microsoft",
        )
        qkv = [build.input((1, length, width)) for _ in range(3)]
        build.op("MultiHeadAttention", *qkv, num_heads=heads, domain="com.microsoft")
    return build.model()


def quantised() -> onnx.ModelProto:
    """Eight-bit products, convolutions and what surrounds them."""
    build = Builder("quantised")
    scale = build.constant(np.float32(0.02))
    zero = build.constant(np.uint8(100))
    zero_s8 = build.constant(np.int8(0))
    u8 = TensorProto.UINT8
    for rows_, inner, columns in [
        (128, 768, 768),
        (128, 768, 3072),
        (1, 768, 3072),
        (32, 256, 256),
    ]:
        weight = build.weight((inner, columns), np.int8)
        build.op("MatMulInteger", build.input((rows_, inner), u8), weight, zero, zero_s8)
        build.op(
            "QLinearMatMul",
            build.input((rows_, inner), u8),
            scale,
            zero,
            weight,
            scale,
            zero_s8,
            scale,
            zero,
        )
        build.op(
            "DynamicQuantizeMatMul",
            build.input((rows_, inner)),
            weight,
            scale,
            zero_s8,
            domain="com.microsoft",
        )
    for channels, filters, size, kernel in [
        (64, 64, 56, 3),
        (64, 256, 56, 1),
        (256, 256, 14, 3),
        (512, 512, 7, 3),
    ]:
        build.op(
            "QLinearConv",
            build.input((1, channels, size, size), u8),
            scale,
            zero,
            build.weight((filters, channels, kernel, kernel), np.int8),
            scale,
            zero_s8,
            scale,
            zero,
            pads=[kernel // 2] * 4,
        )
    build.op(
        "QLinearConv",
        build.input((1, 144, 56, 56), u8),
        scale,
        zero,
        build.weight((144, 1, 3, 3), np.int8),
        scale,
        zero_s8,
        scale,
        zero,
        pads=[1] * 4,
        group=144,
    )
    for shape in [(128, 768), (1, 64, 56, 56)]:
        build.op("QuantizeLinear", build.input(shape), scale, zero)
        build.op("DequantizeLinear", build.input(shape, u8), scale, zero)
        build.op("DynamicQuantizeLinear", build.input(shape), outputs=3)
        build.op(
            "QLinearAdd",
            build.input(shape, u8),
            scale,
            zero,
            build.input(shape, u8),
            scale,
            zero,
            scale,
            zero,
            domain="com.microsoft",
        )
        build.op(
            "QLinearSigmoid",
            build.input(shape, u8),
            scale,
            zero,
            scale,
            zero,
            domain="com.microsoft",
        )
    return build.model()
