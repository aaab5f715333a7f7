"""Which ops compute the same bits with a weight that is fed: measured, not believed."""

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import onnx
import onnx.helper
import onnx.numpy_helper
import pytest
from numpy.typing import NDArray

from dplace.graph_io.fed_weights import (
    FLOAT_PRODUCTS,
    SAME_BITS,
    changes_bits,
    repacked_bytes,
)
from dplace.graph_io.lift import lift
from tests.graph_io.models import parse, prepare
from tests.zoo.plain_session import assert_bit_equal, plain_session

MS = "com.microsoft"
Array: TypeAlias = NDArray[Any]
RNG = np.random.default_rng(0)


def numbers(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


def bytes_(*shape: int) -> Array:
    return RNG.integers(0, 127, shape).astype(np.uint8)


class Trial(NamedTuple):
    """One op: what is computed, what is a weight, and the weights that are fed."""

    op: str
    inputs: str
    fed: str
    activations: Mapping[str, Array]
    weights: Mapping[str, Array]
    attributes: Mapping[str, Any] = {}


SCALES: dict[str, Array] = {
    "s": np.array(0.1, dtype=np.float32),
    "z": np.array(100, dtype=np.uint8),
    "t": np.array(0.02, dtype=np.float32),
    "y": np.array(0, dtype=np.uint8),
    "o": np.array(3.0, dtype=np.float32),
    "p": np.array(128, dtype=np.uint8),
}
QUANTISED = "x s z w t y o p"
PIXELS, ROW = {"x": numbers(2, 16, 9, 9)}, {"x": numbers(2, 300)}
SERIES = {"x": numbers(5, 2, 64)}

TRIALS = [
    *(Trial(op, "x w", "w", ROW, {"w": numbers(300)}) for op in ("Add", "Sub", "Mul", "Div")),
    Trial("Where", "c x w", "w", {"c": bytes_(2, 300) > 60, **ROW}, {"w": numbers(300)}),
    Trial("PRelu", "x w", "w", ROW, {"w": numbers(300)}),
    Trial("Concat", "x w", "w", ROW, {"w": numbers(1, 300)}, {"axis": 0}),
    Trial("Expand", "w n", "w", {"n": np.array([4, 300])}, {"w": numbers(300)}),
    Trial("Reshape", "w n", "w", {"n": np.array([3, 100])}, {"w": numbers(300)}),
    Trial("Gather", "w i", "w", {"i": np.array([3, 1])}, {"w": numbers(9, 20)}),
    Trial("Transpose", "w", "w", {}, {"w": numbers(9, 20)}),
    Trial("Cast", "w", "w", {}, {"w": numbers(9, 20)}, {"to": onnx.TensorProto.FLOAT16}),
    Trial("Einsum", "x w", "w", ROW, {"w": numbers(300, 40)}, {"equation": "bi,io->bo"}),
    Trial("DequantizeLinear", "w s", "w", {}, {"w": bytes_(300), "s": SCALES["s"]}),
    Trial("LayerNormalization", "x w", "w", ROW, {"w": numbers(300)}),
    Trial("SimplifiedLayerNormalization", "x w", "w", ROW, {"w": numbers(300)}),
    Trial(
        "BatchNormalization",
        "x w b m v",
        "w b m v",
        PIXELS,
        {**{name: numbers(16) for name in "wbm"}, "v": np.abs(numbers(16))},
    ),
    Trial("Conv", "x w", "w", PIXELS, {"w": numbers(32, 16, 3, 3)}),
    Trial("Conv", "x w", "w", PIXELS, {"w": numbers(16, 1, 3, 3)}, {"group": 16}),
    Trial("ConvTranspose", "x w", "w", PIXELS, {"w": numbers(16, 32, 3, 3)}),
    Trial("com.microsoft.nchwc:Conv", "x w", "w", PIXELS, {"w": numbers(32, 16, 3, 3)}),
    Trial(f"{MS}:FusedConv", "x w", "w", PIXELS, {"w": numbers(32, 16, 3, 3)}),
    Trial("ConvInteger", "x w", "w", {"x": bytes_(1, 16, 9, 9)}, {"w": bytes_(32, 16, 3, 3)}),
    Trial(
        "QLinearConv",
        QUANTISED,
        "w",
        {"x": bytes_(1, 16, 9, 9)},
        {"w": bytes_(32, 16, 3, 3), **SCALES},
    ),
    Trial(
        "QLinearMatMul", QUANTISED, "w", {"x": bytes_(4, 512)}, {"w": bytes_(512, 256), **SCALES}
    ),
    Trial(
        f"{MS}:QGemm",
        "x s z w t y  o p",
        "w",
        {"x": bytes_(4, 512)},
        {"w": bytes_(512, 256), **SCALES},
    ),
    Trial("MatMulInteger", "x w", "w", {"x": bytes_(4, 512)}, {"w": bytes_(512, 256)}),
    Trial(
        f"{MS}:MatMulIntegerToFloat",
        "x w s t",
        "w",
        {"x": bytes_(4, 512)},
        {"w": bytes_(512, 256), **{name: SCALES[name] for name in "st"}},
    ),
    Trial(
        f"{MS}:DynamicQuantizeMatMul",
        "x w t",
        "w",
        ROW,
        {"w": bytes_(300, 256), "t": SCALES["t"]},
    ),
    Trial(
        f"{MS}:DynamicQuantizeLSTM",
        "x w r      t y t y",
        "w r",
        SERIES,
        {
            "w": bytes_(1, 64, 512),
            "r": bytes_(1, 128, 512),
            "t": np.full(1, 0.01, dtype=np.float32),
            "y": np.zeros(1, dtype=np.uint8),
        },
        {"hidden_size": 128},
    ),
    Trial(
        f"{MS}:QAttention",
        "x w b s t  z y",
        "w",
        {"x": bytes_(2, 8, 256)},
        {"w": bytes_(256, 768), "b": numbers(768), **{name: SCALES[name] for name in "stzy"}},
        {"num_heads": 4},
    ),
    Trial(
        f"{MS}:EmbedLayerNormalization",
        "i  u v  g g",
        "u v",
        {"i": np.array([[3, 1]], dtype=np.int32)},
        {"u": numbers(9, 64), "v": numbers(9, 64), "g": numbers(64)},
    ),
    Trial(
        f"{MS}:SkipLayerNormalization",
        "x k w",
        "w",
        {"x": numbers(2, 3, 300), "k": numbers(2, 3, 300)},
        {"w": numbers(300)},
    ),
    Trial(f"{MS}:BiasGelu", "x w", "w", ROW, {"w": numbers(300)}),
    Trial(
        "RNN",
        "x w r",
        "w r",
        SERIES,
        {"w": numbers(1, 300, 64), "r": numbers(1, 300, 300)},
        {"hidden_size": 300},
    ),
    # Float products have the same bits where it is not the second matrix that is fed,
    Trial("MatMul", "w x", "w", {"x": numbers(512, 8)}, {"w": numbers(64, 512)}),
    Trial("Gemm", "x k w", "w", {"x": numbers(4, 512), "k": numbers(512, 8)}, {"w": numbers(8)}),
    # or where it is none of float32.
    Trial(
        "MatMul",
        "x w",
        "w",
        {"x": numbers(4, 512).astype(np.float64)},
        {"w": numbers(512, 64).astype(np.float64)},
    ),
]

PRODUCTS = [
    Trial("MatMul", "x w", "w", ROW, {"w": numbers(300, 64)}),
    Trial("Gemm", "x w", "w", ROW, {"w": numbers(300, 64)}),
    Trial(f"{MS}:FusedMatMul", "x w", "w", ROW, {"w": numbers(300, 64)}),
    Trial(f"{MS}:FusedGemm", "x w", "w", ROW, {"w": numbers(300, 64)}, {"activation": "Relu"}),
    Trial(
        f"{MS}:Attention",
        "x w b",
        "w",
        {"x": numbers(1, 1, 256)},
        {"w": numbers(256, 768), "b": numbers(768)},
        {"num_heads": 4},
    ),
    *(
        Trial(
            op,
            "x w r",
            "w r",
            {"x": numbers(3, 1, 256)},
            {"w": numbers(1, gates * 256, 256), "r": numbers(1, gates * 256, 256)},
            {"hidden_size": 256},
        )
        for op, gates in (("LSTM", 4), ("GRU", 3))
    ),
]


def outputs_of(trial: Trial, fed: list[str]) -> list[Any]:
    """Return what the op computes if the weights ``fed`` are inputs and the others constants."""
    domain, _, op = trial.op.rpartition(":")
    names = [name or "" for name in trial.inputs.split(" ")]
    attributes = dict(trial.attributes)
    node = onnx.helper.make_node(op, names, ["out"], domain=domain, **attributes)
    if op == "EmbedLayerNormalization":
        node.output.append("mask")
    feeds = {**trial.activations, **{name: trial.weights[name] for name in fed}}
    model = onnx.helper.make_model(
        onnx.helper.make_graph(
            [node],
            "g",
            [
                onnx.helper.make_tensor_value_info(
                    name, onnx.helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
                )
                for name, array in feeds.items()
            ],
            [onnx.ValueInfoProto(name="out")],
            [
                onnx.numpy_helper.from_array(array, name)
                for name, array in trial.weights.items()
                if name not in fed
            ],
        ),
        opset_imports=[
            onnx.helper.make_opsetid(name, version)
            for name, version in (("", 21), (MS, 1), ("com.microsoft.nchwc", 1))
        ],
        ir_version=10,
    )
    return list(plain_session(model, "none").run(None, feeds))


@pytest.mark.parametrize("trial", TRIALS, ids=lambda trial: trial.op)
def test_a_fed_weight_gives_the_same_bits(trial: Trial) -> None:
    assert trial.op in SAME_BITS
    assert_bit_equal(outputs_of(trial, trial.fed.split()), outputs_of(trial, []))


def test_every_op_of_the_list_is_tried() -> None:
    assert {trial.op for trial in (*TRIALS, *PRODUCTS)} == SAME_BITS
    assert {trial.op for trial in PRODUCTS} == set(FLOAT_PRODUCTS)


@pytest.mark.parametrize("trial", PRODUCTS, ids=lambda trial: trial.op)
def test_packed_products_differ_in_last_bits_only(trial: Trial) -> None:
    """They may be equal on other processors; then nothing is lost but a promise."""
    (fed,), (constant,) = outputs_of(trial, trial.fed.split()), outputs_of(trial, [])
    np.testing.assert_allclose(fed, constant, rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize(
    ("line", "changes"),
    [
        ("y = MatMul(x, w)", True),
        ("y = MatMul(w, x)", False),
        ("t = Transpose(w)  y = MatMul(x, t)", False),
        ("y = Add(x, w)", False),
        ("y = Max(x, w)", True),
    ],
)
def test_what_changes_bits(line: str, changes: bool) -> None:
    model = parse(f"g (float[128,128] x) => (float[128,128] y) {{ {line} }}", w=(128, 128))
    _, source = prepare(model)
    assert changes_bits(lift(source, [source.graph.weight_names.index("w")])) == changes
    assert not changes_bits(source)


def test_a_weight_that_the_model_returns_changes_nothing_where_it_stays() -> None:
    _, source = prepare(
        parse(
            "g (float[128,128] x) => (float[128,128] y, float[128,128] w) { y = MatMul(x, w) }",
            w=(128, 128),
        )
    )
    assert not changes_bits(source)


SQUARE = 4 * 128 * 128


@pytest.mark.parametrize(
    ("x", "line", "packed"),
    [
        ("128,128", "y = MatMul(x, w)", (SQUARE, 0)),
        ("1,128", "y = MatMul(x, w)", (0, 0)),
        ("3,1,128", "y = MatMul(x, w)", (SQUARE, 0)),
        ("128", "y = MatMul(x, w)", (0, 0)),
        ("128,128", "y = MatMul(w, x)", (0, 0)),
        ("128,128", "y = Add(x, w)", (0, 0)),
        ("2,128", "y = Gemm(x, w)", (SQUARE, 0)),
        ("2,128", "y = Gemm<transB=1>(x, w)", (0, SQUARE)),
        ("128,1", "y = Gemm<transA=1>(x, w)", (0, 0)),
        ("128,2", "y = Gemm<transA=1>(x, w)", (SQUARE, 0)),
        ("128,128", "a = MatMul(x, w)  y = MatMul(a, w)", (2 * SQUARE, 0)),
        ("2,128", "t = Transpose(w)  y = MatMul(x, t)", (SQUARE, 0)),
    ],
)
def test_fed_matrices_are_packed_each_time(x: str, line: str, packed: tuple[int, int]) -> None:
    rows = "n" if x != "128" else "128"
    model = parse(f"g (float[{x}] x) => (float[{rows}] y) {{ {line} }}", w=(128, 128))
    _, source = prepare(model)
    graph = source.graph
    mine = graph.op_weights == graph.weight_names.index("w")
    assert repacked_bytes(source)[mine].sum(axis=0).tolist() == list(packed)
    assert not repacked_bytes(source)[~mine].any()


@pytest.mark.parametrize(("x", "steps"), [("5,2,16", 5), ("5,1,16", 0)])
def test_recurrent_matrices_are_packed_at_every_step(x: str, steps: int) -> None:
    model = parse(
        f"g (float[{x}] x) => (float[n] y) {{ y = LSTM<hidden_size=16>(x, w, r) }}",
        w=(1, 64, 16),
        r=(1, 64, 16),
    )
    _, source = prepare(model)
    found = dict(zip(source.graph.weight_names, repacked_bytes(source).tolist(), strict=True))
    assert found == {"w": [0.0, 4096.0], "r": [0.0, steps * 4096.0]}
