"""Signatures: equal exactly for ops that cost the same."""

import numpy as np
import onnx.numpy_helper
import pytest

from dplace.profiles.signature import OpSignature, op_signatures
from tests.graph_io.models import parse, prepare


def signatures(text: str, dims: dict[str, int] | None = None) -> tuple[OpSignature, ...]:
    """Return the signatures of a model's ops, as it is written."""
    return op_signatures(prepare(parse(text), dims=dims)[1])


def test_equal_ops_share_a_signature_and_names_do_not_matter() -> None:
    first = signatures("g (float[2,8] x) => (float[2,8] y) { a = Relu(x)  y = Relu(a) }")
    second = signatures("h (float[2,8] in) => (float[2,8] out) { out = Relu(in) }")
    assert first[0] == first[1] == second[0]


def test_it_is_short_and_reads_well() -> None:
    (found,) = signatures("g (float[2,8] x) => (float[8,2] y) { y = Transpose<perm=[1,0]>(x) }")
    assert len(found.digest) == 16
    assert found.op_type == "Transpose"
    assert found.attributes == "perm=[1,0]"
    assert found.inputs == ("float[2,8]",)
    assert found.outputs == ("float[8,2]",)


@pytest.mark.parametrize(
    "other",
    [
        "g (float[2,9] x) => (float[2,9] y) { y = LeakyRelu<alpha=0.5>(x) }",
        "g (float16[2,8] x) => (float16[2,8] y) { y = LeakyRelu<alpha=0.5>(x) }",
        "g (float[2,8] x) => (float[2,8] y) { y = LeakyRelu<alpha=0.25>(x) }",
        "g (float[2,8] x) => (float[2,8] y) { y = LeakyRelu(x) }",
        "g (float[2,8] x) => (float[2,8] y) { y = Elu<alpha=0.5>(x) }",
    ],
)
def test_another_size_type_or_attribute_is_another_signature(other: str) -> None:
    base = signatures("g (float[2,8] x) => (float[2,8] y) { y = LeakyRelu<alpha=0.5>(x) }")
    assert base[0].digest != signatures(other)[0].digest


def test_a_dynamic_dimension_counts_with_the_size_it_is_bound_to() -> None:
    text = "g (float[N,8] x) => (float[N,8] y) { y = Relu(x) }"
    fixed = "g (float[4,8] x) => (float[4,8] y) { y = Relu(x) }"
    assert signatures(text, {"N": 4}) == signatures(fixed)
    assert signatures(text, {"N": 4}) != signatures(text, {"N": 5})


def test_a_weight_is_told_from_an_input() -> None:
    fed = signatures("g (float[4,4] x, float[4,4] w) => (float[4,4] y) { y = MatMul(x, w) }")
    model = parse("g (float[4,4] x) => (float[4,4] y) { y = MatMul(x, w) }", w=(4, 4))
    (held,) = op_signatures(prepare(model)[1])
    assert held.inputs == ("float[4,4]", "float[4,4] weight")
    assert held.digest != fed[0].digest


def test_the_values_of_weights_do_not_matter() -> None:
    found = []
    for value in (1.0, 2.0):
        model = parse("g (float[4] x) => (float[4] y) { y = Mul(x, w) }")
        array = np.full(4, value, np.float32)
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, "w"))
        found.append(op_signatures(prepare(model)[1]))
    assert found[0] == found[1]


def test_what_an_if_holds_counts() -> None:
    text = """g (bool c, float[4] x) => (float[4] y) {
        y = If (c) <
            then_branch = t () => (float[4] a) { a = Relu(x) },
            else_branch = e () => (float[4] b) { b = %s(x) }
        >
    }"""
    sqrt, again, neg = (signatures(text % op)[0].digest for op in ("Sqrt", "Sqrt", "Neg"))
    assert sqrt == again
    assert sqrt != neg


def test_ops_kept_whole_are_named_together() -> None:
    model = parse(
        "g (float[1,3,8,8] x) => (float[1,4,8,8] y) "
        "{ a = Conv<pads=[1,1,1,1]>(x, w)  y = Relu(a) }",
        w=(4, 3, 3, 3),
    )
    (found,) = op_signatures(prepare(model, mode="portable")[1])
    assert found.op_type == "Conv+Relu"


def test_a_constant_output_has_a_signature_too() -> None:
    model = parse("g (float[2] x) => (float[2] y, float[3] w) { y = Relu(x) }", w=(3,))
    found = op_signatures(prepare(model)[1])
    assert [signature.op_type for signature in found] == ["Relu", "Constant"]


def test_a_hundred_equal_layers_have_the_signatures_of_one() -> None:
    layers = "  ".join(f"a{i} = Sigmoid(b{i})  b{i + 1} = Neg(a{i})" for i in range(100))
    text = f"g (float[2,8] b0) => (float[2,8] b100) {{ {layers} }}"
    assert len({signature.digest for signature in signatures(text)}) == 2
