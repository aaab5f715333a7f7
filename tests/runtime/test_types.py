"""Values of every ONNX type go in, cross between devices and come out."""

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, TypeProto, helper

from dplace.runtime.placed_session import PlacedSession
from dplace.runtime.values import DTYPES, copy_in, dtype_of, hold, to_ort_value, to_python
from tests.runtime.plans import given, graph, make_plan, node

FLOAT_SEQUENCE = helper.make_sequence_type_proto(helper.make_tensor_type_proto(1, None))
FLOAT_TENSOR = helper.make_tensor_type_proto(1, None)
FLOAT_OPTIONAL = helper.make_optional_type_proto(FLOAT_TENSOR)
X = np.array([[1.0, 0.0], [2.0, -1.0], [0.5, 3.0]], dtype=np.float32)

CROSSING = [
    "FLOAT16",
    "BFLOAT16",
    "DOUBLE",
    "FLOAT8E4M3FN",
    "FLOAT8E4M3FNUZ",
    "FLOAT8E5M2",
    "FLOAT8E5M2FNUZ",
    "INT4",
    "UINT4",
    "INT2",
    "UINT2",
    "INT8",
    "UINT16",
    "INT64",
    "BOOL",
    "STRING",
]


@pytest.mark.parametrize("name", CROSSING)
def test_a_tensor_of_each_type_crosses_and_comes_out(name: str, tmp_path: Path) -> None:
    kind = getattr(TensorProto, name)
    opset = 25 if "INT2" in name else 21
    to_kind = graph(
        [node("Cast", ["x"], ["y"], to=kind)], [given("x")], [given("y", kind)], opset=opset
    )
    to_float = graph(
        [node("Cast", ["y"], ["z"], to=1)], [given("y", kind)], [given("z")], opset=opset
    )
    plan = make_plan(
        tmp_path,
        {"there": ("cpu:0", to_kind), "back": ("cpu:1", to_float)},
        {"cpu:0": ["run there"], "cpu:1": ["run back"]},
        inputs=[given("x")],
        outputs=[given("y", kind), given("z")],
    )
    x = np.array([[1, 0, 1], [0, 1, 1]], dtype=np.float32)
    with PlacedSession(plan, folder=tmp_path) as session:
        y, z = session.run(None, {"x": x})
        np.testing.assert_array_equal(z, x)
        expected = dtype_of(f"tensor({name.lower()})")
        assert y.dtype == expected
        if name == "STRING":
            assert y.tolist() == [["1", "0", "1"], ["0", "1", "1"]]
        else:
            np.testing.assert_array_equal(y.astype(np.float32), x)
        assert session.run(None, {"x": x[:, :0]})[1].shape == (2, 0)


@pytest.mark.parametrize("name", [name for name in CROSSING if name != "STRING"])
def test_a_tensor_of_each_type_goes_in(name: str, tmp_path: Path) -> None:
    kind = getattr(TensorProto, name)
    opset = 25 if "INT2" in name else 21
    model = graph([node("Cast", ["x"], ["y"], to=1)], [given("x", kind)], [given("y")], opset=opset)
    plan = make_plan(
        tmp_path,
        {"cast": ("cpu:0", model)},
        {"cpu:0": ["run cast"]},
        inputs=[given("x", kind)],
        outputs=[given("y"), given("x", kind)],
        passthrough=[("x", "x")],
    )
    dtype = dtype_of(f"tensor({name.lower()})")
    numbers = np.array([[1, 0, 1], [0, 1, 1]], dtype=np.float32)
    with PlacedSession(plan, folder=tmp_path) as session:
        y, x = session.run(None, {"x": numbers.astype(dtype)})
        np.testing.assert_array_equal(y, numbers)
        assert x.dtype == dtype
        np.testing.assert_array_equal(x.astype(np.float32), numbers)


@pytest.mark.parametrize("name", sorted(set(DTYPES) - {"string", "complex64", "complex128"}))
@pytest.mark.parametrize("shape", [(), (0, 3), (5,), (3, 3)])
def test_every_bit_pattern_survives(name: str, shape: tuple[int, ...]) -> None:
    number, dtype = DTYPES[name]
    rng = np.random.default_rng(0)
    if dtype.itemsize == 1 and name not in ("uint8", "int8", "bool") and "float8" not in name:
        array = rng.integers(0, 2 if "2" in name else 8, shape).astype(np.int8).astype(dtype)
    elif name == "bool":
        array = np.asarray(rng.integers(0, 2, shape), dtype=bool)
    else:
        count = int(np.prod(shape)) * dtype.itemsize
        array = np.frombuffer(rng.bytes(count), dtype=np.uint8).view(dtype).reshape(shape)
    for value in (copy_in(array), hold(array)[0]):
        assert value.element_type() == number
        assert tuple(value.shape()) == shape
        back = to_python(value)
        assert back.dtype == dtype
        assert back.shape == shape
        assert back.tobytes() == array.tobytes()


def test_negative_int4_are_packed_low_half_first() -> None:
    array = np.array([-8, 7, -1], dtype=ml_dtypes.int4)
    value = to_ort_value(array, "tensor(int4)")
    assert value.tensor_size_in_bytes() == 2
    assert to_python(value._ortvalue).astype(int).tolist() == [-8, 7, -1]


def test_sequences_cross_and_come_out(tmp_path: Path) -> None:
    split = graph(
        [node("SplitToSequence", ["x"], ["s"], axis=0)], [given("x")], [given("s", FLOAT_SEQUENCE)]
    )
    length = graph(
        [node("SequenceLength", ["s"], ["n"])],
        [given("s", FLOAT_SEQUENCE)],
        [given("n", TensorProto.INT64, [])],
    )
    plan = make_plan(
        tmp_path,
        {"split": ("cpu:0", split), "length": ("cpu:1", length)},
        {"cpu:0": ["run split"], "cpu:1": ["run length"]},
        inputs=[given("x")],
        outputs=[given("s", FLOAT_SEQUENCE), given("n", TensorProto.INT64, [])],
    )
    with PlacedSession(plan, folder=tmp_path) as session:
        rows, count = session.run(None, {"x": X})
        assert count == 3
        assert isinstance(rows, list)
        np.testing.assert_array_equal(np.concatenate(rows), X)
        (value,) = session.run_with_ort_values(
            ["s"], {"x": onnxruntime.OrtValue.ortvalue_from_numpy(X)}
        )
        assert value.data_type() == "seq(tensor(float))"


def test_sequences_go_in_as_lists_and_mix_with_values_from_other_parts(tmp_path: Path) -> None:
    position = graph(
        [node("Cast", ["p"], ["i"], to=TensorProto.INT64)],
        [given("p", shape=[])],
        [given("i", TensorProto.INT64, [])],
    )
    pick = graph(
        [node("SequenceAt", ["s", "i"], ["y"]), node("SequenceErase", ["s", "i"], ["t"])],
        [given("s", FLOAT_SEQUENCE), given("i", TensorProto.INT64, [])],
        [given("y"), given("t", FLOAT_SEQUENCE)],
    )
    count = graph(
        [node("SequenceLength", ["t"], ["n"])],
        [given("t", FLOAT_SEQUENCE)],
        [given("n", TensorProto.INT64, [])],
    )
    outputs = [given("y"), given("n", TensorProto.INT64, [])]
    plan = make_plan(
        tmp_path,
        {"position": ("cpu:0", position), "pick": ("cpu:1", pick), "count": ("cpu:0", count)},
        {"cpu:0": ["run position", "run count"], "cpu:1": ["run pick"]},
        inputs=[given("s", FLOAT_SEQUENCE), given("p", shape=[])],
        outputs=outputs,
    )
    with PlacedSession(plan, folder=tmp_path) as session:
        p = np.array(1, dtype=np.float32)
        y, n = session.run(None, {"s": [X, 2 * X, X[:1]], "p": p})
        np.testing.assert_array_equal(y, 2 * X)
        assert n == 2


def optional_plan(tmp_path: Path) -> PlacedSession:
    wrap = graph(
        [
            node("OptionalHasElement", ["o"], ["h"]),
            node(
                "If",
                ["h"],
                ["q"],
                then_branch=helper.make_graph(
                    [
                        node("OptionalGetElement", ["o"], ["e"]),
                        node("Neg", ["e"], ["f"]),
                        node("Optional", ["f"], ["g"]),
                    ],
                    "then",
                    [],
                    [given("g", FLOAT_OPTIONAL)],
                ),
                else_branch=helper.make_graph(
                    [node("Optional", [], ["g2"], type=FLOAT_TENSOR)],
                    "else",
                    [],
                    [given("g2", FLOAT_OPTIONAL)],
                ),
            ),
        ],
        [given("o", FLOAT_OPTIONAL)],
        [given("q", FLOAT_OPTIONAL)],
    )
    ask = graph(
        [node("OptionalHasElement", ["q"], ["r"])],
        [given("q", FLOAT_OPTIONAL)],
        [given("r", TensorProto.BOOL, [])],
    )
    plan = make_plan(
        tmp_path,
        {"wrap": ("cpu:0", wrap), "ask": ("cpu:1", ask)},
        {"cpu:0": ["run wrap"], "cpu:1": ["run ask"]},
        inputs=[given("o", FLOAT_OPTIONAL)],
        outputs=[given("q", FLOAT_OPTIONAL), given("r", TensorProto.BOOL, [])],
    )
    return PlacedSession(plan, folder=tmp_path)


def test_optionals_cross_full_and_empty(tmp_path: Path) -> None:
    with optional_plan(tmp_path) as session:
        for full in (X, onnxruntime.OrtValue.ortvalue_from_numpy(X)):
            q, r = session.run(None, {"o": full})
            np.testing.assert_array_equal(q, -X)
            assert r
        for feeds in ({"o": None}, {}):
            q, r = session.run(None, feeds)
            assert q is None
            assert not r


def test_strings_go_in_cross_and_come_out(tmp_path: Path) -> None:
    string = TensorProto.STRING
    join = graph(
        [node("StringConcat", ["a", "b"], ["c"])],
        [given("a", string), given("b", string)],
        [given("c", string)],
    )
    again = graph(
        [node("StringConcat", ["c", "c"], ["d"])], [given("c", string)], [given("d", string)]
    )
    plan = make_plan(
        tmp_path,
        {"join": ("cpu:0", join), "again": ("cpu:1", again)},
        {"cpu:0": ["run join"], "cpu:1": ["run again"]},
        inputs=[given("a", string), given("b", string)],
        outputs=[given("d", string), given("a", string)],
        passthrough=[("a", "a")],
    )
    with PlacedSession(plan, folder=tmp_path) as session:
        for a in (np.array(["ä", ""]), np.array(["ä", ""], dtype=object), ["ä", ""]):
            d, back = session.run(None, {"a": a, "b": np.array(["b", "c"])})
            assert d.tolist() == ["äbäb", "cc"]
            assert back.tolist() == ["ä", ""]
        assert session.run(None, {"a": np.array("x"), "b": np.array("y")})[0].shape == ()


def test_maps_come_out_and_go_in(tmp_path: Path) -> None:
    maps = TypeProto()
    maps.sequence_type.elem_type.map_type.key_type = TensorProto.INT64
    maps.sequence_type.elem_type.map_type.value_type.CopyFrom(FLOAT_TENSOR)
    zipped = graph(
        [node("ZipMap", ["x"], ["m"], domain="ai.onnx.ml", classlabels_int64s=[7, 9])],
        [given("x", shape=[None, 2])],
        [given("m", maps)],
    )
    plan = make_plan(
        tmp_path,
        {"zip": ("cpu:0", zipped)},
        {"cpu:0": ["run zip"]},
        inputs=[given("x", shape=[None, 2])],
        outputs=[given("m", maps)],
    )
    with PlacedSession(plan, folder=tmp_path) as session:
        assert session.run(None, {"x": X[:2]})[0] == [{7: 1.0, 9: 0.0}, {7: 2.0, 9: -1.0}]

    words = TypeProto()
    words.map_type.key_type = TensorProto.STRING
    words.map_type.value_type.CopyFrom(FLOAT_TENSOR)
    vector = graph(
        [node("DictVectorizer", ["m"], ["v"], domain="ai.onnx.ml", string_vocabulary=["a", "b"])],
        [given("m", words)],
        [given("v")],
    )
    negate = graph([node("Neg", ["v"], ["w"])], [given("v")], [given("w")])
    plan = make_plan(
        tmp_path,
        {"vector": ("cpu:0", vector), "negate": ("cpu:1", negate)},
        {"cpu:0": ["run vector"], "cpu:1": ["run negate"]},
        inputs=[given("m", words)],
        outputs=[given("w")],
    )
    with PlacedSession(plan, folder=tmp_path) as session:
        np.testing.assert_array_equal(session.run(None, {"m": {"b": 2.0}})[0], [[0, -2]])


def test_bytes_of_a_saved_foreign_type_are_taken(tmp_path: Path) -> None:
    kind = TensorProto.BFLOAT16
    model = graph([node("Cast", ["x"], ["y"], to=1)], [given("x", kind)], [given("y")])
    plan = make_plan(
        tmp_path,
        {"cast": ("cpu:0", model)},
        {"cpu:0": ["run cast"]},
        inputs=[given("x", kind)],
        outputs=[given("y")],
    )
    np.savez(tmp_path / "x.npz", x=np.array([1.5, -2], dtype=ml_dtypes.bfloat16))
    loaded: Any = np.load(tmp_path / "x.npz")["x"]
    assert loaded.dtype.kind == "V"
    with PlacedSession(plan, folder=tmp_path) as session:
        assert session.run(None, {"x": loaded})[0].tolist() == [1.5, -2.0]
