"""Weights as values: which may be, what the graph is then, and what the parts read."""

from pathlib import Path

import numpy as np
import onnx
import onnx.helper
import onnx.numpy_helper
import pytest

from dplace.errors import ModelError
from dplace.graph_io.build import PlaceableModel
from dplace.graph_io.lift import lift, liftable
from dplace.graph_io.split import part_model
from dplace.graph_io.weights import WeightsFile
from tests.graph_io.models import parse, prepare

LARGE = (128, 128)
"""65,536 bytes of float32, the least that is lifted."""


def placeable_of(text: str, **weights: tuple[int, ...]) -> PlaceableModel:
    return prepare(parse(text, **weights))[1]


@pytest.fixture
def chain() -> PlaceableModel:
    """Two products with large weights, the second with both, and a small bias."""
    return placeable_of(
        """g (float[2,128] x) => (float[2,128] y) {
            a = MatMul(x, w)
            b = Add(a, bias)
            t = MatMul(b, v)
            y = MatMul(t, w)
        }""",
        w=LARGE,
        v=LARGE,
        bias=(128,),
    )


def test_lifted_weights_are_values_behind_the_others(chain: PlaceableModel) -> None:
    before = chain.graph
    lifted = lift(chain, [before.weight_names.index("w")])
    graph = lifted.graph
    assert graph.value_names == ("x", "a", "b", "t", "y", "w")
    assert graph.value_producer.tolist() == [-1, 0, 1, 2, 3, -1]
    assert graph.value_bytes[-1] == 128 * 128 * 4
    assert graph.value_movable[-1]
    assert graph.graph_inputs.tolist() == [0]
    assert graph.consumers_of(5).tolist() == [0, 3]
    assert graph.inputs_of(0).tolist() == [0, 5]
    assert graph.inputs_of(3).tolist() == [3, 5]
    assert graph.weight_names == ("bias", "v")
    assert graph.weight_bytes.tolist() == [512, 65536]
    assert [graph.weights_of(op).tolist() for op in range(4)] == [[], [0], [1], []]
    assert lifted.values[5] is lifted.model.ir.graph.initializers["w"]
    assert [value.name for value in lifted.weights] == ["bias", "v"]
    # What was there before is as it was.
    assert graph.outputs_of(2).tolist() == before.outputs_of(2).tolist()
    assert before.weight_names == ("w", "bias", "v")


def test_values_stand_in_the_order_of_their_first_reader(chain: PlaceableModel) -> None:
    names = chain.graph.weight_names
    graph = lift(chain, [names.index("v"), names.index("w")]).graph
    assert graph.value_names[-2:] == ("w", "v")
    assert graph.inputs_of(2).tolist() == [2, 6]


def test_lifting_nothing_changes_nothing(chain: PlaceableModel) -> None:
    graph = lift(chain, []).graph
    assert graph.value_names == chain.graph.value_names
    assert graph.op_weights.tolist() == chain.graph.op_weights.tolist()
    assert graph.input_values.tolist() == chain.graph.input_values.tolist()


def test_weights_that_are_left_out_are_neither_weights_nor_values(chain: PlaceableModel) -> None:
    graph = lift(chain, [0, 2], leave_out=True).graph
    assert graph.value_names == chain.graph.value_names
    assert graph.weight_names == ("bias",)
    assert graph.inputs_of(0).tolist() == [0]


def test_what_a_clone_makes_of_a_lifted_weight_is_there_while_its_op_runs() -> None:
    source = placeable_of(
        """g (float[2,128] x) => (float[2,128] y) {
            wt = Transpose(w)
            a = MatMul(x, wt)
            y = MatMul(a, wt)
        }""",
        w=LARGE,
    )
    assert source.graph.op_names == ("a", "y")
    assert set(source.graph.weight_names) == {"w", "wt"}
    assert liftable(source, level="none").may_be[source.graph.weight_names.index("w")]
    graph = lift(source, [source.graph.weight_names.index("w")]).graph
    assert graph.weight_names == ()
    assert graph.value_names == ("x", "a", "y", "wt in a", "wt in y", "w")
    assert graph.value_producer.tolist() == [-1, 0, 1, 0, 1, -1]
    assert graph.outputs_of(0).tolist() == [1, 3]
    assert graph.consumers_of(3).tolist() == []
    assert graph.consumers_of(5).tolist() == [0, 1]
    assert graph.value_bytes[3:].tolist() == [65536] * 3


def test_a_part_reads_a_lifted_weight_as_an_input_with_type_and_shape(
    chain: PlaceableModel, tmp_path: Path
) -> None:
    lifted = lift(chain, [0])
    with WeightsFile(tmp_path / "d.weights") as file:
        part = part_model(
            lifted,
            name="part",
            ops=[2, 3],
            inputs=[*lifted.graph.inputs_of(2).tolist(), 5],
            outputs=[4],
            weights_file=file,
        )
    assert part.inputs == ("b", "w")
    assert [tensor.name for tensor in part.proto.graph.initializer] == ["v"]
    value = part.proto.graph.input[1]
    assert value.name == "w"
    assert value.type == onnx.helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, LARGE)


def why_not(source: PlaceableModel, name: str) -> str:
    """Return why a large weight may not be lifted."""
    found = liftable(source, level="none")
    weight = source.graph.weight_names.index(name)
    assert not found.may_be[weight]
    return found.reasons[weight]


def test_small_weights_stay(chain: PlaceableModel) -> None:
    found = liftable(chain, level="none")
    assert [chain.graph.weight_names[at] for at in np.flatnonzero(found.may_be)] == ["w", "v"]
    assert found.reasons == {}


def test_what_the_caller_may_override_stays() -> None:
    model = parse("g (float[2,128] x, float[128,128] w) => (float[2,128] y) { y = MatMul(x, w) }")
    weight = np.zeros(LARGE, dtype=np.float32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(weight, "w"))
    assert why_not(prepare(model)[1], "w") == "the caller may override it"


def test_what_the_model_returns_stays() -> None:
    source = placeable_of(
        "g (float[2,128] x) => (float[2,128] y, float[128,128] w) { y = MatMul(x, w) }", w=LARGE
    )
    assert why_not(source, "w") == "the model returns it"


def test_what_a_subgraph_reads_stays() -> None:
    source = placeable_of(
        """g (float[2,128] x, bool c) => (float[2,128] y) {
            y = If(c) <
                then_branch = t () => (float[2,128] a) { a = MatMul(x, w) },
                else_branch = e () => (float[2,128] b) { b = Neg(x) }
            >
        }""",
        w=LARGE,
    )
    assert why_not(source, "w") == "a subgraph reads it"


def test_strings_and_parts_of_bytes_stay() -> None:
    model = parse(
        """g (float[2,512] x) => (float[2,512] y) {
            d = DequantizeLinear(w, scale)
            y = MatMul(x, d)
        }"""
    )
    model.opset_import[0].version = 21
    model.ir_version = 10
    tensor = onnx.helper.make_tensor("w", onnx.TensorProto.INT4, (512, 512), bytes(2**17), raw=True)
    model.graph.initializer.append(tensor)
    model.graph.initializer.append(
        onnx.numpy_helper.from_array(np.full((), 0.5, np.float32), "scale")
    )
    assert why_not(prepare(model)[1], "w") == "its type is INT4"


def test_quantised_blocks_that_are_packed_at_the_start_stay() -> None:
    model = parse(
        """g (float[2,512] x) => (float[2,512] y) {
            y = com.microsoft.MatMulNBits <K = 512, N = 512, bits = 4, block_size = 32>(x, w, s)
        }""",
        s=(512 * 16,),
    )
    weight = np.zeros((512, 16, 16), dtype=np.uint8)
    model.graph.initializer.append(onnx.numpy_helper.from_array(weight, "w"))
    assert why_not(prepare(model)[1], "w") == "MatMulNBits packs it when a session opens"


def test_one_op_of_each_kind_is_opened_and_what_is_refused_stays(
    chain: PlaceableModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []

    def refuse(serialized: bytes, *, label: str, **_: object) -> None:
        opened.append(label)
        raise ModelError(f"{label} has to know its weight")

    monkeypatch.setattr("dplace.graph_io.lift.open_session", refuse)
    reason = "onnxruntime takes it as a constant only: MatMul has to know its weight"
    assert why_not(chain, "v") == reason
    assert opened == ["MatMul"]
