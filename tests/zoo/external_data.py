"""Writers of models whose weights lie in other files, well placed and badly placed."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper

from tests.zoo.situation import parse, set_initializers, weight

__all__ = [
    "BIG_FEEDS",
    "WELL_PLACED",
    "move_weights_out",
    "small_model",
    "write_big_weights",
    "write_chain",
]

UUID_NAME = "5bc1d9c8-5a6f-11ef-9d0a-0242ac120002"


def small_model() -> onnx.ModelProto:
    """Return a model of three weights, one of them in a Constant node's attribute."""
    model = parse(
        """
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[N, 8] x, float[N, 8] late) => (float[N, 8] y) {
            a = MatMul(x, w1)
            b = Relu(a)
            k = Constant ()
            c = Mul(b, k)
            d = MatMul(c, w2)
            y = Add(d, late)
        }
        """
    )
    set_initializers(model.graph, {"w1": weight(8, 8), "w2": weight(8, 8, seed=1)})
    value = onnx.numpy_helper.from_array(weight(8, 8, seed=2)[:1], "k_value")
    model.graph.node[2].attribute.append(helper.make_attribute("value", value))
    return model


def tensors_of(model: onnx.ModelProto) -> list[TensorProto]:
    """Return the tensors that ``small_model`` and ``write_chain`` keep outside."""
    attributes = (item for node in model.graph.node for item in node.attribute)
    inner = [item.t for item in attributes if item.type == onnx.AttributeProto.TENSOR]
    return [*model.graph.initializer, *inner]


def move_weights_out(
    model: onnx.ModelProto, folder: Path, location: str, *, gap_bytes: int = 0
) -> Path:
    """Write ``folder/model.onnx`` and its weights to one file ``location`` beside it.

    Args:
        model: Changed in place.
        folder: Made if it is missing.
        location: What the model says; folders in it are made.
        gap_bytes: Unused bytes before each weight.
    """
    data = folder / location
    data.parent.mkdir(parents=True, exist_ok=True)
    with data.open("wb") as file:
        for tensor in tensors_of(model):
            file.write(b"\xff" * gap_bytes)
            place_outside(tensor, location, offset=file.tell(), length=len(tensor.raw_data))
            file.write(tensor.raw_data)
            tensor.ClearField("raw_data")
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def place_outside(tensor: TensorProto, location: str, **where: int) -> None:
    """Say in ``tensor`` that its bytes lie in ``location``, at ``offset`` and so on."""
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=location)
    for key, value in where.items():
        tensor.external_data.add(key=key, value=str(value))


def write_named_by_uuid(folder: Path) -> Path:
    """Write a model whose data file is named by a UUID, one tensor in a node's attribute."""
    return move_weights_out(small_model(), folder, UUID_NAME)


def write_in_subfolder(folder: Path) -> Path:
    """Write a model whose data file lies in a folder below the model."""
    return move_weights_out(small_model(), folder, "weights/part 1/w.bin")


def write_with_gaps(folder: Path) -> Path:
    """Write a model whose weights start at odd offsets."""
    return move_weights_out(small_model(), folder, "model.onnx.data", gap_bytes=13)


def write_one_file_each(folder: Path) -> Path:
    """Write a model with one data file a weight and neither offset nor length."""
    model = small_model()
    for number, tensor in enumerate(tensors_of(model)):
        (folder / f"w{number}").write_bytes(tensor.raw_data)
        tensor.ClearField("raw_data")
        place_outside(tensor, f"w{number}")
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def write_linked_within(folder: Path) -> Path:
    """Write a model whose data file is a symbolic link to its neighbour."""
    path = move_weights_out(small_model(), folder, "w.bin")
    (folder / "w.bin").rename(folder / "real.bin")
    (folder / "w.bin").symlink_to("real.bin")
    return path


def write_hard_linked(folder: Path) -> Path:
    """Write a model whose data file has a second name outside its folder."""
    inside = folder / "inside"
    path = move_weights_out(small_model(), inside, "w.bin")
    os.link(inside / "w.bin", folder / "other name.bin")
    return path


WELL_PLACED = {
    "named_by_uuid": write_named_by_uuid,
    "in_subfolder": write_in_subfolder,
    "with_gaps": write_with_gaps,
    "one_file_each": write_one_file_each,
    "linked_within": write_linked_within,
    "hard_linked": write_hard_linked,
}
"""Writers of models that dplace reads: folder to the model's path."""


def write_chain(
    folder: Path, *, num_weights: int, size: int, weights: Mapping[int, NDArray[Any]] | None = None
) -> Path:
    """Write a chain of matrix products, each with a ``size`` x ``size`` float32 weight outside.

    The data file is sparse: weights are zero and take no room on the disk, except those given.
    """
    nodes = [
        helper.make_node("MatMul", [f"h{i}", f"w{i}"], [f"h{i + 1}"], name=f"layer{i}")
        for i in range(num_weights)
    ]
    shape: list[str | int | None] = ["N", size]
    graph = helper.make_graph(
        nodes,
        "chain",
        [helper.make_tensor_value_info("h0", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(f"h{num_weights}", TensorProto.FLOAT, shape)],
    )
    length = 4 * size * size
    for i in range(num_weights):
        tensor = graph.initializer.add(name=f"w{i}", data_type=TensorProto.FLOAT, dims=[size, size])
        place_outside(tensor, "chain.data", offset=i * length, length=length)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "chain.data").open("wb") as file:
        file.truncate(num_weights * length)
        for i, array in (weights or {}).items():
            file.seek(i * length)
            file.write(array.astype("<f4").tobytes())
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path = folder / "chain.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def write_big_weights(folder: Path) -> Path:
    """Write 24 weights of 100 MB, 2.4 GB in all, as a sparse file (onnx#6172, #5249, #6352)."""
    return write_chain(folder, num_weights=24, size=5000)


BIG_FEEDS = {"h0": np.ones((1, 5000), np.float32)}
