"""Small models, one op in a few sizes, for benchmarks/cpu_calibration.py.

Here are those that pass over memory; ``calibration_products.py`` has those that multiply matrices.
"""

from collections.abc import Iterator

import numpy as np
import onnx
from calibration_builder import FLOAT, Builder
from calibration_products import (
    attention,
    convolutions,
    depthwise_convolutions,
    products,
    quantised,
    recurrent,
    vectors,
)
from onnx import TensorProto


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
