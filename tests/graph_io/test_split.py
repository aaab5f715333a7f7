"""A part holds what it needs and nothing else, and says what it reads and makes."""

from collections.abc import Sequence
from pathlib import Path

import onnx
import onnx.helper
import onnx.parser
import onnx_ir as ir

from dplace.graph_io.build import PlaceableModel
from dplace.graph_io.split import PartModel, part_model
from dplace.graph_io.weights import WeightsFile
from tests.graph_io.models import parse, prepare


def cut(
    placeable: PlaceableModel,
    folder: Path,
    ops: Sequence[str],
    inputs: Sequence[str],
    outputs: Sequence[str],
) -> PartModel:
    graph = placeable.graph
    with WeightsFile(folder / "d.weights") as weights_file:
        return part_model(
            placeable,
            name="part",
            ops=[graph.op_names.index(op) for op in ops],
            inputs=[graph.value_names.index(value) for value in inputs],
            outputs=[graph.value_names.index(value) for value in outputs],
            weights_file=weights_file,
        )


def test_a_part_has_its_nodes_its_weights_and_types_for_what_crosses(tmp_path: Path) -> None:
    model = parse(
        """g (float[N,300] x) => (float[N,300] y) {
            a = Relu(x)
            b = Add(a, w)
            y = Neg(b)
        }""",
        w=(300,),
    )
    _, placeable = prepare(model)
    part = cut(placeable, tmp_path, ["b"], ["a"], ["b"])
    (node,) = part.proto.graph.node
    assert node.op_type == "Add"
    (initializer,) = part.proto.graph.initializer
    assert initializer.data_location == onnx.TensorProto.EXTERNAL
    assert {entry.key: entry.value for entry in initializer.external_data} == {
        "location": "d.weights",
        "offset": "0",
        "length": "1200",
    }
    assert (tmp_path / "d.weights").stat().st_size == 1200
    (value,) = part.proto.graph.input
    assert value.type.tensor_type.elem_type == onnx.TensorProto.FLOAT
    # Sizes were observed for one batch and must not be frozen into the part.
    assert not value.type.tensor_type.HasField("shape")


def test_a_weight_of_two_parts_of_one_device_is_written_once(tmp_path: Path) -> None:
    model = parse(
        """g (float[300] x) => (float[300] y) {
            a = Add(x, w)
            y = Mul(a, w)
        }""",
        w=(300,),
    )
    _, placeable = prepare(model)
    with WeightsFile(tmp_path / "d.weights") as weights_file:
        for op in (0, 1):
            part_model(
                placeable,
                name=f"p{op}",
                ops=[op],
                inputs=[op],
                outputs=[op + 1],
                weights_file=weights_file,
            )
    assert (tmp_path / "d.weights").stat().st_size == 1200


def test_functions_go_along_through_branches_and_other_functions(tmp_path: Path) -> None:
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17, "local" : 1]>
        g (float[2] x, bool c) => (float[2] y) {
            a = Relu(x)
            y = If(c) <
                then_branch = t () => (float[2] p) { p = local.outer(a) },
                else_branch = e () => (float[2] q) { q = Identity(a) }
            >
        }
        <domain: "local", opset_import: ["" : 17, "local" : 1]>
        outer (i) => (o) { o = local.inner(i) }
        <domain: "local", opset_import: ["" : 17]>
        inner (i) => (o) { o = Neg(i) }
        <domain: "local", opset_import: ["" : 17]>
        unused (i) => (o) { o = Neg(i) }"""
    )
    _, placeable = prepare(model)
    part = cut(placeable, tmp_path, ["y"], ["c", "a"], ["y"])
    assert sorted(function.name for function in part.proto.functions) == ["inner", "outer"]
    plain = cut(placeable, tmp_path, ["a"], ["x"], ["a"])
    assert not plain.proto.functions


def test_zeros_of_a_sparse_file_stay_holes(tmp_path: Path) -> None:
    size = 64 * 2**20
    with (tmp_path / "w.bin").open("wb") as file:
        file.truncate(size)
    tensor = onnx.TensorProto(
        name="big",
        data_type=onnx.TensorProto.FLOAT,
        dims=[size // 4],
        data_location=onnx.TensorProto.EXTERNAL,
    )
    tensor.external_data.add(key="location", value="w.bin")
    external = ir.serde.deserialize_tensor(tensor, tmp_path)
    with WeightsFile(tmp_path / "d.weights") as weights_file:
        weights_file.place(external)
    written = (tmp_path / "d.weights").stat()
    assert written.st_size == size
    assert written.st_blocks * 512 < size / 10


def test_names_of_metadata_and_imports_are_kept(tmp_path: Path) -> None:
    model = parse("g (float[2] x) => (float[2] y) { a = Relu(x)  y = Neg(a) }")
    model.producer_name = "tool"
    onnx.helper.set_model_props(model, {"author": "somebody"})
    model.graph.node[1].metadata_props.add(key="layer", value="1")
    _, placeable = prepare(model)
    part = cut(placeable, tmp_path, ["y"], ["a"], ["y"]).proto
    assert part.ir_version == 8
    assert {opset.domain: opset.version for opset in part.opset_import}[""] == 17
    assert part.producer_name == "tool"
    assert {prop.key: prop.value for prop in part.metadata_props} == {"author": "somebody"}
    assert part.graph.node[0].metadata_props[0].value == "1"
