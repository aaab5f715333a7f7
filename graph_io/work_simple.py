"""Work of the ops that pass over their tensors once or a few times.

Operations per element are rough: what counts is that memory binds most of these, and how much
dearer than an addition an exponential is.
"""

import math
from collections.abc import Callable

from dplace.graph_io.work_view import Cost, NodeView

__all__ = ["SIMPLE_RULES"]

Rule = Callable[[NodeView], Cost]

MS = "com.microsoft:"
ML = "ai.onnx.ml:"


def _per_output(kernel_class: str, flop_per_element: float) -> Rule:
    """Return a rule that counts operations per element of the first output."""

    def rule(view: NodeView) -> Cost:
        return Cost(kernel_class=kernel_class, flop=flop_per_element * math.prod(view.output()))

    return rule


def _per_input(kernel_class: str, flop_per_element: float) -> Rule:
    """Return a rule that counts operations per element of the first input."""

    def rule(view: NodeView) -> Cost:
        return Cost(kernel_class=kernel_class, flop=flop_per_element * math.prod(view.input(0)))

    return rule


def _of_many(view: NodeView) -> Cost:
    """Element-wise over any number of inputs."""
    count = max(len(view.node.inputs) - 1, 1)
    return Cost(kernel_class="elementwise", flop=float(count) * math.prod(view.output()))


def _selected(view: NodeView) -> Cost:
    """Read only what is written: the data input may be far larger."""
    view.output()
    others = sum(view.input_bytes(index) for index in range(1, len(view.node.inputs)))
    return Cost(kernel_class="movement", flop=0.0, bytes_moved=2 * view.output_bytes() + others)


def _embedding(view: NodeView) -> Cost:
    """Gather rows of a few tables, add and normalise them."""
    return Cost(
        kernel_class="normalisation",
        flop=12.0 * math.prod(view.output()),
        bytes_moved=4 * view.output_bytes() + view.input_bytes(0),
    )


def _written(kernel_class: str, flop_per_element: float = 0.0) -> Rule:
    """Return the rule of an op whose inputs only say what to make."""

    def rule(view: NodeView) -> Cost:
        flop = flop_per_element * math.prod(view.output())
        return Cost(kernel_class=kernel_class, flop=flop, bytes_moved=view.output_bytes())

    return rule


def _resized(view: NodeView) -> Cost:
    per_element = {"nearest": 1, "linear": 10, "cubic": 40}.get(view.text("mode", "nearest"), 1)
    return Cost(kernel_class="movement", flop=float(per_element) * math.prod(view.output()))


def _pooled(view: NodeView) -> Cost:
    window = view.integers("kernel_shape") or ()
    flop = float(math.prod(window)) * math.prod(view.output())
    return Cost(kernel_class="pooling", flop=flop)


def _local_response(view: NodeView) -> Cost:
    flop = math.prod(view.input(0)) * (2.0 * view.integer("size", 1) + 40)
    return Cost(kernel_class="other", flop=flop)


def _power(view: NodeView) -> Cost:
    """A square is a product; any other exponent takes a logarithm and an exponential."""
    exponent = view.value(1)
    tensor = None if exponent is None else exponent.const_value
    elements = math.prod(view.output())
    if tensor is not None and tensor.size == 1 and float(tensor.numpy().reshape(-1)[0]) == 2.0:
        return Cost(kernel_class="elementwise", flop=float(elements))
    return Cost(kernel_class="other", flop=20.0 * elements)


def _sorted(view: NodeView) -> Cost:
    """Compare every element with a heap of those that are kept: TopK."""
    elements, axis = view.input(0), view.integer("axis", -1)
    kept = view.output()[axis]
    return Cost(kernel_class="other", flop=math.prod(elements) * (10 + 5 * math.log2(kept + 2)))


def _suppressed(view: NodeView) -> Cost:
    """Compare boxes pair by pair, after a sort: NonMaxSuppression."""
    boxes = view.input(0)
    classes = view.input(1)[1]
    flop = boxes[0] * classes * boxes[1] * (math.log2(boxes[1] + 2) + 30.0)
    return Cost(kernel_class="other", flop=flop)


def _fourier(view: NodeView) -> Cost:
    """Take n log2 n steps for a transform of n points (Cooley and Tukey, 1965), in scalar code."""
    out = view.output()
    axis = view.integer("axis", -2)
    length = out[axis] if view.node.op_type == "DFT" and -len(out) <= axis < len(out) else out[-2]
    points = math.prod(out) / 2
    return Cost(kernel_class="other", flop=15.0 * points * math.log2(length + 2))


def _aligned(view: NodeView) -> Cost:
    samples = (view.integer("sampling_ratio", 0) or 2) ** 2
    return Cost(kernel_class="other", flop=10.0 * samples * math.prod(view.output()))


def _determinant(view: NodeView) -> Cost:
    shape = view.input(0)
    return Cost(kernel_class="other", flop=2 / 3 * math.prod(shape) * shape[-1])


def _trees(view: NodeView) -> Cost:
    """Walk every tree once per row; as deep as a balanced one."""
    ids = view.integers("nodes_treeids") or view.integers("tree_roots") or (0,)
    trees = max(len(set(ids)), 1)
    nodes = len(view.integers("nodes_nodeids") or view.integers("nodes_featureids") or ids)
    depth = math.log2(nodes / trees + 2)
    rows = view.input(0)[0] if view.input(0) else 1
    return Cost(kernel_class="other", flop=2.0 * rows * trees * depth)


def _support_vectors(view: NodeView) -> Cost:
    vectors = sum(view.integers("vectors_per_class") or (view.integer("n_supports", 1),))
    return Cost(kernel_class="matmul", flop=4.0 * math.prod(view.input(0)) * vectors)


def _view(view: NodeView) -> Cost:
    """Nothing is computed or copied; the executor still steps over the node."""
    return Cost(kernel_class="free", flop=0.0, bytes_moved=0.0)


def _folded(view: NodeView) -> Cost:
    """Constants are there before the first run."""
    return Cost(kernel_class="free", flop=0.0, bytes_moved=0.0, launches=0)


def _names(text: str, domain: str = "") -> list[str]:
    return [domain + name for name in text.split()]


def _table(kernel_class: str, rows: dict[float, str], domain: str = "") -> dict[str, Rule]:
    """Return rules per output element: operations, then the op types that take so many."""
    return {
        name: _per_output(kernel_class, flop)
        for flop, names in rows.items()
        for name in _names(names, domain)
    }


def _same(rule: Rule, names: str, domain: str = "") -> dict[str, Rule]:
    return dict.fromkeys(_names(names, domain), rule)


SIMPLE_RULES: dict[str, Rule] = {
    **_table(
        "elementwise",
        {
            1: "Abs Add And BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Ceil Clip Equal "
            "Floor Greater GreaterOrEqual IsInf IsNaN Less LessOrEqual Mul Neg Not Or Relu Round "
            "Sign Sub ThresholdedRelu Xor Cast CastLike",
            2: "LeakyRelu PRelu Shrink HardSigmoid HardSwish Dropout",
            4: "Div Mod Reciprocal Softsign Sqrt DequantizeLinear QuantizeLinear",
            6: "RotaryEmbedding",
            8: "Where",
        },
    ),
    **_same(_of_many, "Max Mean Min Sum"),
    # Written with vectors in every library; what is below runs one element at a time on CPUs.
    **_table(
        "transcendental",
        {10: "Exp Sigmoid Swish Tanh SwiGLU", 14: "Erf", 18: "Gelu"},
    ),
    **_table(
        "other",
        {
            5: "Log Celu Elu Selu Sin Cos Cosh Sinh Atan Asin Acos Tan Acosh Asinh Atanh",
            30: "Bernoulli Mish Softplus",
        },
    ),
    "Pow": _power,
    **_same(
        _written("other", 30),
        "RandomNormal RandomNormalLike RandomUniform RandomUniformLike Multinomial HannWindow "
        "HammingWindow BlackmanWindow MelWeightMatrix",
    ),
    **_same(
        _per_input("reduction", 1),
        "ReduceL1 ReduceMax ReduceMean ReduceMin ReduceSum",
    ),
    **_same(_per_input("reduction", 2), "ReduceL2 ReduceProd ReduceSumSquare"),
    **_same(_per_input("reduction", 8), "ArgMax ArgMin CumSum CumProd"),
    **_same(_per_input("reduction", 10), "ReduceLogSum ReduceLogSumExp"),
    **_same(_per_input("reduction", 3), "DynamicQuantizeLinear"),
    **_same(
        _per_input("softmax", 12),
        "Softmax LogSoftmax Hardmax NegativeLogLikelihoodLoss SoftmaxCrossEntropyLoss",
    ),
    **_same(
        _per_input("normalisation", 8),
        "LayerNormalization SimplifiedLayerNormalization RMSNormalization GroupNormalization "
        "InstanceNormalization MeanVarianceNormalization LpNormalization",
    ),
    "BatchNormalization": _per_input("normalisation", 2),
    "LRN": _local_response,
    **_same(_pooled, "AveragePool MaxPool LpPool"),
    **_same(_per_input("pooling", 1), "GlobalAveragePool GlobalMaxPool MaxRoiPool"),
    "GlobalLpPool": _per_input("pooling", 20),
    "RoiAlign": _aligned,
    "GridSample": _per_output("other", 10),
    **_table(
        "movement",
        {
            0: "Concat Expand Pad ReverseSequence Split Tile Transpose Trilu "
            " MaxUnpool ConcatFromSequence SplitToSequence SequenceInsert SequenceErase "
            "Scatter ScatterElements ScatterND TensorScatter BitCast",
            1: "Col2Im",
            10: "DepthToSpace SpaceToDepth",
        },
    ),
    **_same(
        _selected,
        "Gather GatherElements GatherND Slice Compress CenterCropPad SequenceAt",
    ),
    **_same(_resized, "Resize Upsample"),
    **_same(_written("movement"), "ConstantOfShape EyeLike Range"),
    "OneHot": _written("movement", 15),
    "AffineGrid": _written("elementwise", 6),
    "TopK": _sorted,
    "NonZero": _per_input("other", 30),
    "Unique": _per_input("other", 100),
    "NonMaxSuppression": _suppressed,
    **_same(_fourier, "DFT STFT"),
    "Det": _determinant,
    **_same(
        _view,
        "Flatten Identity Reshape Shape Size Squeeze Unsqueeze Optional OptionalGetElement "
        "OptionalHasElement SequenceConstruct SequenceEmpty SequenceLength",
    ),
    "Constant": _folded,
    **_same(
        _per_input("other", 50),
        "StringConcat StringNormalizer StringSplit RegexFullMatch TfIdfVectorizer ImageDecoder",
    ),
    # Optimizers: a few operations per weight; the gradient op is another graph's business.
    **_same(_per_output("elementwise", 10), "Adagrad Adam Momentum", "ai.onnx.preview.training:"),
    **_same(_trees, "TreeEnsemble TreeEnsembleClassifier TreeEnsembleRegressor", ML),
    **_same(_support_vectors, "SVMClassifier SVMRegressor", ML),
    **_table(
        "elementwise",
        {
            2: "ArrayFeatureExtractor Binarizer CastMap FeatureVectorizer Imputer Normalizer "
            "Scaler",
            20: "CategoryMapper DictVectorizer LabelEncoder OneHotEncoder ZipMap",
        },
        ML,
    ),
    **_table(
        "elementwise",
        {
            2: "BiasAdd BiasDropout BitmaskDropout BitmaskBiasDropout GatedAdd QLinearLeakyRelu "
            "MulInteger IsAllFinite ExpandDims",
            4: "DequantizeLinear QuantizeLinear DequantizeBFP QuantizeBFP DequantizeWithOrder "
            "QuantizeWithOrder",
            3: "QLinearAdd QLinearMul QLinearWhere",
            6: "ComplexMul ComplexMulConj RotaryEmbedding GemmaRotaryEmbedding MRotaryEmbedding",
        },
        MS,
    ),
    **_table(
        "transcendental",
        {
            10: "QLinearSigmoid",
            18: "BiasGelu BiasSplitGelu FastGelu Gelu QOrderedGelu QuickGelu ScaledSiLU EngramGate "
            "LinearAttentionGate",
        },
        MS,
    ),
    **_same(_per_input("softmax", 12), "BiasSoftmax QLinearSoftmax", MS),
    **_same(
        _per_input("normalisation", 10),
        "GroupNorm SkipGroupNorm GatedRMSNorm BranchwiseRMSNorm QOrderedLayerNormalization",
        MS,
    ),
    # One element at a time on CPUs, eight times as slow as LayerNormalization.
    **_same(
        _per_input("normalisation", 60),
        "SkipLayerNormalization SkipSimplifiedLayerNormalization",
        MS,
    ),
    **_same(_embedding, "EmbedLayerNormalization QEmbedLayerNormalization", MS),
    **_same(_per_input("reduction", 2), "QLinearReduceMean ReduceSumInteger", MS),
    **_same(_pooled, "NhwcMaxPool QLinearAveragePool MaxpoolWithMask", MS),
    **_same(_per_input("pooling", 2), "QLinearGlobalAveragePool", MS),
    "com.microsoft:QLinearConcat": _per_output("movement", 2),
    **_table("movement", {0: "Pad RemovePadding RestorePadding Trilu UnfoldTensor"}, MS),
    **_same(_selected, "GatherND GatherBlockQuantized TorchEmbedding", MS),
    **_same(_written("movement"), "Range RelativePositionBias", MS),
    "com.microsoft:Unique": _per_input("other", 100),
    **_same(_aligned, "GridSample CropAndResize", MS),
    **_same(_fourier, "Rfft Irfft", MS),
    "com.microsoft:Inverse": _determinant,
    **_same(_pooled, "AveragePool MaxPool", "com.microsoft.nchwc:"),
    **_same(_per_input("pooling", 1), "GlobalAveragePool GlobalMaxPool", "com.microsoft.nchwc:"),
    **_table("movement", {0: "ReorderInput ReorderOutput"}, "com.microsoft.nchwc:"),
    "com.microsoft.nchwc:Upsample": _resized,
    **_same(_per_output("movement", 0), "MemcpyFromHost MemcpyToHost"),
}
"""By op type, with the domain before it unless it is ONNX's own."""
