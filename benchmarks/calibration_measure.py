"""Times of single nodes, as onnxruntime's profiler gives them, beside the work they do."""

import json
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
from numpy.typing import NDArray

from dplace.graph_io.work import Work, node_work
from dplace.op_graph import OpGraph

PROVIDERS = ["CPUExecutionProvider"]
DTYPES = {
    "tensor(float)": np.float32,
    "tensor(float16)": np.float16,
    "tensor(double)": np.float64,
    "tensor(int8)": np.int8,
    "tensor(uint8)": np.uint8,
    "tensor(int32)": np.int32,
    "tensor(int64)": np.int64,
    "tensor(bool)": np.bool_,
}
ELEMENTS = {"float": "FLOAT", "double": "DOUBLE"}

Feeds = dict[str, NDArray[np.generic]]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeTime:
    """One node of an optimised graph."""

    output: str
    """Its first output: onnxruntime does not always write the nodes in the same order."""
    op_type: str
    work: Work
    seconds: float
    """Shortest of all runs, the profiler's own few microseconds included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelTimes:
    """One model, optimised whole and then run as it is."""

    name: str
    wall_s: float
    """Shortest run without the profiler, in CPU time of the one thread that runs it."""
    nodes: tuple[NodeTime, ...]


def session_options(*, optimise: bool = False) -> ort.SessionOptions:
    """Return the options of a CPU device: one thread, no spinning."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    levels = ort.GraphOptimizationLevel
    options.graph_optimization_level = levels.ORT_ENABLE_ALL if optimise else levels.ORT_DISABLE_ALL
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return options


def measure(
    model: Path | onnx.ModelProto, name: str, *, runs: int, dims: Mapping[str, int]
) -> ModelTimes:
    """Return the times of a model's nodes after onnxruntime optimised it at level ``all``.

    Args:
        dims: Sizes of symbolic dimensions; 1 for those that are not named.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "optimised.onnx"
        options = session_options(optimise=True)
        options.optimized_model_filepath = str(path)
        source = model.SerializeToString() if isinstance(model, onnx.ModelProto) else str(model)
        for dim, size in dims.items():
            options.add_free_dimension_override_by_name(dim, size)
        ort.InferenceSession(source, options, providers=PROVIDERS)
        proto = onnx.load(path)
        for index, node in enumerate(proto.graph.node):
            node.name = f"n{index}"
        onnx.save(proto, path)

        types, shapes, feeds = _observe(proto, Path(folder) / "observed.onnx")
        wall_s = min(_walls(path, feeds, runs))
        seconds = _profile(path, feeds, runs, Path(folder) / "profile")
        nodes = _node_times(proto, types, shapes, seconds)
    return ModelTimes(name=name, wall_s=wall_s, nodes=tuple(nodes))


def graph_of(works: list[Work]) -> OpGraph:
    """Return a graph of ops without edges, enough for the roofline model."""
    num_ops = len(works)
    none = np.zeros(0, dtype=np.int32)
    offsets = np.zeros(num_ops + 1, dtype=np.int32)
    return OpGraph(
        name="calibration",
        op_names=tuple(str(index) for index in range(num_ops)),
        op_types=("",) * num_ops,
        op_flop=np.array([work.flop for work in works], dtype=np.float64),
        op_bytes=np.array([work.bytes_moved for work in works], dtype=np.float64),
        op_classes=tuple(work.kernel_class for work in works),
        op_dtypes=tuple(work.dtype for work in works),
        op_launches=np.array([work.launches for work in works], dtype=np.int32),
        value_names=(),
        value_producer=none,
        value_bytes=np.zeros(0, dtype=np.int64),
        value_movable=np.zeros(0, dtype=np.bool_),
        input_offsets=offsets,
        input_values=none,
        output_offsets=offsets,
        output_values=none,
        consumer_offsets=np.zeros(1, dtype=np.int32),
        consumer_ops=none,
        graph_inputs=none,
        graph_outputs=none,
        weight_names=(),
        weight_bytes=np.zeros(0, dtype=np.int64),
        weight_offsets=offsets,
        op_weights=none,
        colocation=np.full(num_ops, -1, dtype=np.int32),
    )


def _observe(
    proto: onnx.ModelProto, path: Path
) -> tuple[dict[str, str], dict[str, tuple[int, ...]], Feeds]:
    """Return types and shapes of all values, and inputs to run with.

    Contrib and layout ops leave no type in the file; onnxruntime tells it when every value is an
    output of the graph, declared without a type.
    """
    observed = onnx.ModelProto()
    observed.CopyFrom(proto)
    known = {value.name for value in observed.graph.output}
    for node in observed.graph.node:
        for name in node.output:
            if name and name not in known:
                known.add(name)
                observed.graph.output.append(onnx.ValueInfoProto(name=name))
    onnx.save(observed, path)
    session = ort.InferenceSession(path, session_options(), providers=PROVIDERS)
    rng = np.random.default_rng(0)
    feeds: Feeds = {}
    for value in session.get_inputs():
        shape = [dim if isinstance(dim, int) else 1 for dim in value.shape]
        dtype = np.dtype(DTYPES[value.type])
        is_float = np.issubdtype(dtype, np.floating)
        drawn = rng.standard_normal(shape) if is_float else rng.integers(0, 2, shape)
        feeds[value.name] = drawn.astype(dtype)
    outputs = session.get_outputs()
    types = {value.name: value.type for value in (*outputs, *session.get_inputs())}
    shapes = {name: tuple(array.shape) for name, array in feeds.items()}
    symbolic = []
    for value in outputs:
        if all(isinstance(dim, int) for dim in value.shape):
            shapes[value.name] = tuple(value.shape)
        else:
            symbolic.append(value.name)
    if symbolic:
        for name, array in zip(symbolic, session.run(symbolic, feeds), strict=True):
            shapes[name] = np.shape(array)
    return types, shapes, feeds


def _walls(path: Path, feeds: Feeds, runs: int) -> list[float]:
    session = ort.InferenceSession(path, session_options(), providers=PROVIDERS)
    walls = []
    for _ in range(runs):
        start = time.thread_time()
        session.run(None, feeds)
        walls.append(time.thread_time() - start)
    return walls


def _profile(path: Path, feeds: Feeds, runs: int, prefix: Path) -> dict[str, float]:
    """Return the shortest time of each node, by its name."""
    options = session_options()
    options.enable_profiling = True
    options.profile_file_prefix = str(prefix)
    session = ort.InferenceSession(path, options, providers=PROVIDERS)
    for _ in range(runs):
        session.run(None, feeds)
    shortest: dict[str, float] = {}
    suffix = "_kernel_time"
    for event in json.loads(Path(session.end_profiling()).read_text()):
        if event.get("cat") == "Node" and event["name"].endswith(suffix):
            name = event["name"].removesuffix(suffix)
            shortest[name] = min(shortest.get(name, np.inf), event["dur"] * 1e-6)
    return shortest


def _node_times(
    proto: onnx.ModelProto,
    types: dict[str, str],
    shapes: dict[str, tuple[int, ...]],
    seconds: dict[str, float],
) -> list[NodeTime]:
    graph = ir.from_proto(proto).graph
    shape_of = _shape_lookup(shapes)
    times = []
    for node in graph:
        for value in node.outputs:
            element = types.get(value.name or "", "")
            if value.type is None and element.startswith("tensor("):
                element = element.removeprefix("tensor(").removesuffix(")")
                name = ELEMENTS.get(element, element.upper())
                value.type = ir.TensorType(ir.DataType[name])
        op_type = f"{node.domain}:{node.op_type}" if node.domain else node.op_type
        if node.name in seconds:
            work = node_work(node, shape_of)
            times.append(
                NodeTime(
                    output=node.outputs[0].name or "",
                    op_type=op_type,
                    work=work,
                    seconds=seconds[node.name],
                )
            )
    return times


def _shape_lookup(
    shapes: dict[str, tuple[int, ...]],
) -> Callable[[ir.Value], tuple[int, ...] | None]:
    def shape_of(value: ir.Value) -> tuple[int, ...] | None:
        if value.const_value is not None:
            return tuple(int(dim) for dim in value.const_value.shape.numpy())
        return shapes.get(value.name or "")

    return shape_of
