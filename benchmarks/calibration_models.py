"""Small models, one op in a few sizes, for benchmarks/cpu_calibration.py."""

from collections.abc import Iterator

import numpy as np
import onnx
from calibration_builder import FLOAT, Builder
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


def elementwise() -> onnx.ModelProto:
    """One pass over one to three tensors."""
    build = Builder("elementwise")
    for shape in [(1, 64, 56, 56), (1, 256, 14, 14), (128, 3072), (16, 64)]:
        for op_type in ("Add", "Mul", "Div", "Max", "Greater"):
            build.op(op_type, build.input(shape), build.input(shape, number=1))
        for op_type in ("Relu", "Abs", "Sqrt", "Neg", "LeakyRelu", "HardSigmoid", "Not"):
            dtype = TensorProto.BOOL if op_type == "Not" else FLOAT
            build.op(op_type, build.input(shape, dtype))
        build.op(
            "Clip", build.input(shape), build.constant(np.float32(0)), build.constant(np.float32(6))
        )
        build.op("Cast", build.input(shape), to=TensorProto.INT32)
        build.op(
            "Where", build.input(shape, TensorProto.BOOL), build.input(shape), build.input(shape)
        )
        build.op("Add", build.input(shape), build.weight(shape[-1:]))
    return build.model()


def transcendental() -> onnx.ModelProto:
    """Exponentials and their kin."""
    build = Builder("transcendental")
    for shape in [(1, 64, 56, 56), (128, 3072), (16, 64)]:
        for op_type in [
            "Exp",
            "Sigmoid",
            "Tanh",
            "Erf",
            "Log",
            "Gelu",
            "Softplus",
            "Elu",
            "Sin",
            "Mish",
            "Softsign",
        ]:
            build.op(op_type, build.input(shape))
        build.op("Pow", build.input(shape), build.constant(np.float32(2)))
        build.op("Pow", build.input(shape), build.constant(np.float32(0.7)))
        build.op("FastGelu", build.input(shape), domain="com.microsoft")
        build.op("QuickGelu", build.input(shape), domain="com.microsoft")
    return build.model()


def rows() -> onnx.ModelProto:
    """Softmax, normalisation and reductions."""
    build = Builder("rows")
    for shape in [(1, 12, 128, 128), (1, 128, 768), (1, 16, 64), (4, 1000)]:
        width = shape[-1]
        build.op("Softmax", build.input(shape), axis=-1)
        build.op(
            "LayerNormalization", build.input(shape), build.weight((width,)), build.weight((width,))
        )
        for op_type in ("ReduceMean", "ReduceMax", "ReduceSumSquare", "ReduceL2"):
            build.op(op_type, build.input(shape), build.constant(np.array([-1])))
        build.op("ReduceSum", build.input(shape), build.constant(np.array([0])))
        build.op("ArgMax", build.input(shape), axis=-1)
        build.op("CumSum", build.input(shape), build.constant(np.array(len(shape) - 1)))
    for shape in [(1, 64, 56, 56), (1, 256, 14, 14)]:
        channels = shape[1]
        build.op(
            "InstanceNormalization",
            build.input(shape),
            build.weight((channels,)),
            build.weight((channels,)),
        )
        build.op("ReduceMean", build.input(shape), build.constant(np.array([2, 3])))
        build.op("LRN", build.input(shape), size=5)
        build.op(
            "BatchNormalization",
            build.input(shape),
            *[build.weight((channels,)) for _ in range(3)],
            build.constant(np.ones(channels, np.float32)),
        )
    build.op(
        "SkipLayerNormalization",
        build.input((1, 128, 768)),
        build.input((1, 128, 768)),
        build.weight((768,)),
        build.weight((768,)),
        domain="com.microsoft",
    )
    return build.model()


def pooling() -> onnx.ModelProto:
    """Windows, in the blocked layout where channels allow it and in the plain one."""
    build = Builder("pooling")
    for channels, size, kernel, stride in [
        (64, 112, 3, 2),
        (192, 28, 3, 1),
        (512, 14, 2, 2),
        (30, 33, 5, 2),
    ]:
        x = build.input((1, channels, size, size))
        pads = [kernel // 2 if stride == 1 else 0] * 4
        build.op("MaxPool", x, kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=pads)
        build.op("AveragePool", x, kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=pads)
        build.op("GlobalAveragePool", x)
    return build.model()


def movement() -> onnx.ModelProto:
    """Copies in another order or place."""
    build = Builder("movement")
    for shape in [(1, 64, 56, 56), (1, 128, 12, 64), (1, 16, 4, 16)]:
        axes = (0, 2, 1, 3)
        build.op("Transpose", build.input(shape), perm=axes)
        build.op("Transpose", build.input(shape), perm=(0, 2, 3, 1))
        build.op("Concat", build.input(shape), build.input(shape), axis=1)
        build.op(
            "Slice", build.input(shape), *[build.constant(np.array([v])) for v in (1, shape[1], 1)]
        )
        build.op("Split", build.input(shape), outputs=2, num_outputs=2, axis=1)
        build.op("Pad", build.input(shape), build.constant(np.array([0, 0, 1, 1, 0, 0, 1, 1])))
        build.op("Expand", build.input(shape), build.constant(np.array([4, *shape[1:]])))
        build.op("Tile", build.input(shape), build.constant(np.array([1, 2, 1, 1])))
        build.op("DepthToSpace", build.input(shape), blocksize=2)
    build.op("Gather", build.weight((5000, 768)), build.constant(np.arange(128) * 37))
    build.op("Gather", build.input((1, 64, 56, 56)), build.constant(np.arange(0, 64, 2)), axis=1)
    scales = build.constant(np.array([1, 1, 2, 2], np.float32))
    for mode in ("nearest", "linear"):
        for shape in [(1, 64, 28, 28), (1, 30, 13, 13)]:
            build.op("Resize", build.input(shape), "", scales, mode=mode)
    return build.model()


def views() -> onnx.ModelProto:
    """Nodes that copy nothing, between others."""
    build = Builder("views")
    for _ in range(20):
        x = build.input((4, 4, 16))
        build.op(
            "Relu", build.op("Reshape", build.op("Relu", x), build.constant(np.array([16, 16])))
        )
        build.op("Relu", build.op("Unsqueeze", build.op("Relu", x), build.constant(np.array([0]))))
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


def others() -> onnx.ModelProto:
    """What fits nowhere else."""
    build = Builder("others")
    build.op("TopK", build.input((1, 1000)), build.constant(np.array([5])), outputs=2)
    build.op("TopK", build.input((64, 1000)), build.constant(np.array([100])), outputs=2)
    build.op("NonZero", build.input((64, 1000)))
    build.op("GridSample", build.input((1, 32, 28, 28)), build.input((1, 28, 28, 2)))
    build.op("DFT", build.input((1, 512, 1)))
    build.op("RandomNormalLike", build.input((64, 1000)))
    build.op(
        "Einsum",
        build.input((1, 8, 64, 32)),
        build.input((1, 8, 64, 32)),
        equation="bhqd,bhkd->bhqk",
    )
    build.op("CumSum", build.input((64, 1000)), build.constant(np.array(0)))
    build.op(
        "OneHot",
        build.input((64,), TensorProto.INT64),
        build.constant(np.array(1000)),
        build.constant(np.array([0, 1], np.float32)),
    )
    build.op(
        "ScatterND",
        build.input((64, 1000)),
        build.constant(np.arange(32)[:, None]),
        build.input((32, 1000)),
    )
    build.op(
        "ScatterElements",
        build.input((64, 1000)),
        build.constant(np.zeros((16, 1000), np.int64)),
        build.input((16, 1000)),
    )
    build.op(
        "GatherElements",
        build.input((64, 1000)),
        build.constant(np.zeros((64, 1000), np.int64)),
        axis=1,
    )
    build.op(
        "ConvTranspose", build.input((1, 64, 28, 28)), build.weight((64, 32, 2, 2)), strides=[2, 2]
    )
    build.op(
        "ConvTranspose",
        build.input((1, 128, 14, 14)),
        build.weight((128, 64, 4, 4)),
        strides=[2, 2],
        pads=[1] * 4,
    )
    return build.model()


def micro_models() -> Iterator[onnx.ModelProto]:
    """Yield every micro-model."""
    for make in (
        convolutions,
        depthwise_convolutions,
        products,
        vectors,
        elementwise,
        transcendental,
        rows,
        pooling,
        movement,
        views,
        recurrent,
        quantised,
        attention,
        others,
    ):
        yield make()
