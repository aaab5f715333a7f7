"""Write the parts of a lowered placement into a plan folder."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import onnx
import onnx_ir as ir
from google.protobuf.message import EncodeError

from dplace.errors import ModelError
from dplace.graph_io.build import PlaceableModel
from dplace.graph_io.external import has_external_data
from dplace.graph_io.split import part_model
from dplace.graph_io.weights import WeightsFile, file_digest
from dplace.plan.program import PartValues, part_ops
from dplace.plan.records import HOST, Part, StreamedWeight, ValueType
from dplace.problem import Problem
from dplace.simulator.timeline import Lowered

__all__ = ["part_records", "streamed_records", "value_records", "write_parts", "write_streamed"]

_FOLDER = "parts"


def part_records(
    source: PlaceableModel,
    lowered: Lowered,
    crossing: Sequence[PartValues],
    *,
    names: Sequence[str],
    device_names: Sequence[str],
    seconds: Sequence[float],
) -> tuple[Part, ...]:
    """Return the records of parts that are not written: without files' digests."""
    graph = source.graph
    overridable = set(source.model.overridable)
    return tuple(
        Part(
            name=names[part],
            file=f"{_FOLDER}/{names[part]}.onnx",
            device=device_names[int(lowered.part_device[part])],
            inputs=tuple(graph.value_names[value] for value in crossing[part].inputs),
            outputs=tuple(graph.value_names[value] for value in crossing[part].outputs),
            overridable=tuple(
                sorted(
                    {
                        graph.weight_names[weight]
                        for op in part_ops(lowered, part)
                        for weight in graph.weights_of(op).tolist()
                    }
                    & overridable
                )
            ),
            digest="",
            weights_file=None,
            weights_digest=None,
            num_ops=len(part_ops(lowered, part)),
            predicted_s=seconds[part],
        )
        for part in range(lowered.num_parts)
    )


def write_parts(
    source: PlaceableModel,
    lowered: Lowered,
    crossing: Sequence[PartValues],
    parts: Sequence[Part],
    folder: Path,
) -> tuple[Part, ...]:
    """Write the ONNX file of each part and a weights file for each device.

    A weight that several parts of a device read lies in its file once.

    Returns:
        The records with the digests of what was written.
    """
    (folder / _FOLDER).mkdir()
    written: dict[int, Part] = {}
    for device in sorted(set(lowered.part_device.tolist())):
        mine = [part for part in range(lowered.num_parts) if lowered.part_device[part] == device]
        stem = parts[mine[0]].device.replace(":", "-")
        weights_path = folder / _FOLDER / f"{stem}.weights"
        uses_weights: dict[int, bool] = {}
        with WeightsFile(weights_path) as weights_file:
            for part in mine:
                model = part_model(
                    source,
                    name=parts[part].name,
                    ops=part_ops(lowered, part),
                    inputs=crossing[part].inputs,
                    outputs=crossing[part].outputs,
                    weights_file=weights_file,
                )
                uses_weights[part] = has_external_data(model.proto)
                path = folder / parts[part].file
                path.write_bytes(_serialized(model.proto, source.graph.name))
        digest = file_digest(weights_path) if weights_file.exists else None
        for part in mine:
            has_weights = uses_weights[part]
            written[part] = dataclasses.replace(
                parts[part],
                digest=file_digest(folder / parts[part].file),
                weights_file=f"{_FOLDER}/{weights_path.name}" if has_weights else None,
                weights_digest=digest if has_weights else None,
            )
    return tuple(written[part] for part in range(lowered.num_parts))


def streamed_records(source: PlaceableModel, problem: Problem) -> tuple[StreamedWeight, ...]:
    """Return the records of streamed weights that are not written: without places and digests.

    They stand in the order of the first op that reads them.
    """
    records: list[StreamedWeight] = []
    for value in problem.streamed.tolist():
        name, tensor = problem.graph.value_names[value], source.values[value].const_value
        assert tensor is not None  # of an initializer
        home = HOST
        if problem.value_home is not None and problem.value_home[value] >= 0:
            home = problem.cluster.devices[problem.value_home[value]].name
        records.append(
            StreamedWeight(
                name=name,
                type=_type_text(tensor.dtype),
                shape=tuple(int(dim) for dim in tensor.shape.numpy()),
                size_bytes=int(problem.graph.value_bytes[value]),
                home=home,
                file=f"{_FOLDER}/{home.replace(':', '-')}.streamed",
                offset=0,
                digest="",
            )
        )
    return tuple(records)


def _type_text(dtype: ir.DataType) -> str:
    """Return a tensor's type as onnxruntime writes it."""
    names = {ir.DataType.FLOAT: "float", ir.DataType.DOUBLE: "double"}
    return f"tensor({names.get(dtype, dtype.name.lower())})"


def write_streamed(
    source: PlaceableModel, records: Sequence[StreamedWeight], folder: Path
) -> tuple[StreamedWeight, ...]:
    """Write the bytes of streamed weights, one file a home, and return where each of them lies.

    They start on a page each, in the order of the records, which is about that of their use.
    """
    tensors = {
        value.name: value.const_value
        for value in source.values
        if value.is_initializer() and value.const_value is not None
    }
    written: dict[str, StreamedWeight] = {}
    for file in dict.fromkeys(record.file for record in records):
        mine = [record for record in records if record.file == file]
        path = folder / file
        path.parent.mkdir(exist_ok=True)
        offsets: list[int] = []
        with WeightsFile(path) as weights_file:
            for record in mine:
                offsets.append(weights_file.offset_of(tensors[record.name]))
        digest = file_digest(path)
        for record, offset in zip(mine, offsets, strict=True):
            written[record.name] = dataclasses.replace(record, offset=offset, digest=digest)
    return tuple(written[record.name] for record in records)


def _serialized(proto: onnx.ModelProto, name: str) -> bytes:
    try:
        data: bytes = proto.SerializeToString()
    except (EncodeError, ValueError) as error:
        raise ModelError(
            f"{name}: a part does not fit into one protobuf message: {error}"
        ) from error
    return data


def value_records(source: PlaceableModel, values: Sequence[int]) -> tuple[ValueType, ...]:
    """Return name, type and size of values of the op graph; sizes are of the bound dimensions."""
    graph = source.graph
    return tuple(
        ValueType(
            name=graph.value_names[value],
            type=source.observed.types.get(graph.value_names[value], ""),
            shape=None,
            size_bytes=int(graph.value_bytes[value]),
        )
        for value in values
    )
