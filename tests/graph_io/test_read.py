"""Reading: what is accepted as it is, what is lifted, and what is refused with its place."""

from pathlib import Path

import numpy as np
import onnx
import onnx.helper
import onnx.numpy_helper
import pytest

from dplace.errors import ModelError
from dplace.graph_io.read import read_model
from tests.graph_io.models import parse


def test_initializers_listed_as_inputs_are_constants_below_ir_4() -> None:
    model = parse("g (float[2] x, float[2] w) => (float[2] y) { y = Add(x, w) }")
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.ones(2, np.float32), "w"))
    model.ir_version = 3
    read = read_model(model)
    assert [value.name for value in read.ir.graph.inputs] == ["x"]
    assert read.overridable == ()
    assert read.ir.ir_version == 4


def test_initializers_listed_as_inputs_can_be_fed_from_ir_4_on() -> None:
    model = parse("g (float[2] x, float[2] w) => (float[2] y) { y = Add(x, w) }")
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.ones(2, np.float32), "w"))
    assert read_model(model).overridable == ("w",)


def test_sparse_initializers_become_dense() -> None:
    model = parse("g (float[2,2] x) => (float[2,2] y) { y = Add(x, w) }")
    values = onnx.numpy_helper.from_array(np.array([5.0], np.float32), "w")
    indices = onnx.numpy_helper.from_array(np.array([3], np.int64), "w_indices")
    sparse = onnx.SparseTensorProto(values=values, indices=indices, dims=[2, 2])
    model.graph.sparse_initializer.append(sparse)
    tensor = read_model(model).ir.graph.initializers["w"].const_value
    assert tensor is not None
    assert tensor.numpy().tolist() == [[0, 0], [0, 5]]


def test_nodes_are_sorted() -> None:
    model = parse("g (float[2] x) => (float[2] y) { a = Relu(x)  y = Neg(a) }")
    nodes = [onnx.NodeProto.FromString(n.SerializeToString()) for n in reversed(model.graph.node)]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    assert [node.op_type for node in read_model(model).ir.graph] == ["Relu", "Neg"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("g (float x) => (float y) { y = Relu(x)  y = Neg(x) }", '"y" is made twice'),
        ("g (float x) => (float y) { y = Add(x, nowhere) }", 'reads "nowhere", which nothing'),
        ("g (float x) => (float z) { y = Relu(x) }", 'output "z" is made by nothing'),
        ("g (float x) => (float y) { y = my.domain.Op(x) }", "domain 'my.domain' is not among"),
        ("g (float x) => (float y) { a = Add(x, y)  y = Neg(a) }", "the graph has a cycle"),
    ],
)
def test_a_broken_graph_is_refused_with_its_place(text: str, words: str) -> None:
    with pytest.raises(ModelError) as caught:
        read_model(parse(text))
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_all_faults_are_counted() -> None:
    text = "g (float x) => (float y) { y = Add(a, b)  z = Add(c, d)  w = Add(e, f) }"
    with pytest.raises(ModelError, match="and 3 more"):
        read_model(parse(text))


def test_a_value_of_an_inner_scope_is_not_visible_outside() -> None:
    text = """g (bool c, float x) => (float y) {
        a = If(c) <
            then_branch = t () => (float p) { inner = Neg(x)  p = Relu(inner) },
            else_branch = e () => (float q) { q = Identity(x) }
        >
        y = Add(a, inner)
    }"""
    with pytest.raises(ModelError, match='reads "inner"'):
        read_model(parse(text))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "empty file"),
        (b"hello, this is no model", "not an ONNX model"),
        (b"\x08\x09", "expected ir_version, opset_import"),
    ],
)
def test_what_is_no_model_is_refused(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(content)
    with pytest.raises(ModelError, match=words):
        read_model(path)


def test_a_truncated_file_is_refused_wherever_it_ends(tmp_path: Path) -> None:
    model = parse("g (float[64] x) => (float[64] y) { y = Add(x, w) }")
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.ones(64, np.float32), "w"))
    whole = model.SerializeToString()
    for end in range(1, len(whole) - 1, 7):
        path = tmp_path / "m.onnx"
        path.write_bytes(whole[:end])
        with pytest.raises(ModelError):
            read_model(path)


def test_a_missing_file_and_a_folder_are_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="there is no such file"):
        read_model(tmp_path / "m.onnx")
    with pytest.raises(ModelError, match="got a folder"):
        read_model(tmp_path)
