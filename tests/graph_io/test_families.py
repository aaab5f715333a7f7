"""Generated models: real, runnable, different, and the same again for the same seed."""

from functools import cache
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from numpy.typing import NDArray

from dplace.errors import InputError
from dplace.graph_io.families import FAMILIES, generate, write_family

MEMBERS = [(family, i) for family in FAMILIES for i in range(2)]


@cache
def member(family: str, index: int) -> onnx.ModelProto:
    return [model for _, model in generate(family, count=2, seed=0)][index]


def session_of(model: onnx.ModelProto) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def run(session: onnxruntime.InferenceSession, *, batch: int, length: int) -> NDArray[np.float32]:
    """Run on random inputs, different for every item of the batch."""
    rng = np.random.default_rng(batch)
    feeds = {}
    for graph_input in session.get_inputs():
        lengths = {"batch": batch, "sequence": length, "time": length}
        shape = [lengths.get(dim, dim) for dim in graph_input.shape]
        if graph_input.type == "tensor(int64)":
            feeds[graph_input.name] = rng.integers(0, 1024, shape)
        else:
            feeds[graph_input.name] = rng.standard_normal(shape).astype(np.float32)
    outputs: list[NDArray[np.float32]] = session.run(None, feeds)
    assert len(outputs) == 1
    return outputs[0]


@pytest.mark.parametrize(("family", "index"), MEMBERS)
def test_a_member_runs_at_any_batch_and_length_and_its_outputs_are_alive(
    family: str, index: int
) -> None:
    session = session_of(member(family, index))
    assert run(session, batch=1, length=9).shape[0] == 1
    output = run(session, batch=3, length=16)
    assert output.shape[0] == 3
    assert np.isfinite(output).all()
    assert (output.std(axis=0) > 1e-4 * np.abs(output).max()).any(), "does not depend on its input"
    if output[0].size > 1:
        assert output[0].std() > 0


@pytest.mark.parametrize(("family", "index"), MEMBERS)
def test_a_member_is_a_correct_model_of_40_mb_at_most(family: str, index: int) -> None:
    model = member(family, index)
    onnx.checker.check_model(model, full_check=True)
    assert [(entry.domain, entry.version) for entry in model.opset_import] == [("", 17)]
    assert model.ir_version == 8
    assert model.ByteSize() < 40e6
    names = [node.name for node in model.graph.node]
    assert all(names)
    assert len(set(names)) == len(names)
    for graph_input in model.graph.input:
        assert graph_input.type.tensor_type.shape.dim[0].dim_param == "batch"


@pytest.mark.parametrize("family", FAMILIES)
def test_members_differ_and_the_same_seed_gives_the_same_bytes(family: str) -> None:
    first, second = (member(family, i).SerializeToString(deterministic=True) for i in range(2))
    assert first != second
    assert architecture(member(family, 0)) != architecture(member(family, 1))
    name, again = next(generate(family, count=1, seed=0))
    assert name == f"{family}-000"
    assert again.SerializeToString(deterministic=True) == first
    _, other = next(generate(family, count=1, seed=1))
    assert other.SerializeToString(deterministic=True) != first


def architecture(model: onnx.ModelProto) -> list[object]:
    """Return what a model is but for the values of its weights."""
    shapes = [tuple(weight.dims) for weight in model.graph.initializer]
    return [[(node.op_type, tuple(node.input)) for node in model.graph.node], shapes]


@pytest.mark.parametrize("family", FAMILIES)
def test_size_scales_the_weights(family: str) -> None:
    _, small = next(generate(family, count=1, seed=0, size=0.25))
    assert run(session_of(small), batch=2, length=5).shape[0] == 2
    assert small.ByteSize() < member(family, 0).ByteSize() / 3


def test_a_size_that_no_onnx_file_can_hold_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="use a smaller size"):
        next(generate("transformer", count=1, seed=0, size=1000.0))
    with pytest.raises(InputError, match="use a smaller size"):
        list(write_family("transformer", tmp_path / "out", count=1, seed=0, size=1000.0))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("size", [0.25, 1.0])
@pytest.mark.parametrize("seed", range(3))
def test_two_towers_meet_only_in_their_head_and_weigh_the_same(seed: int, size: float) -> None:
    _, model = next(generate("two-tower", count=1, seed=seed, size=size))
    work = multiply_adds(model)
    sources = inputs_above(model)
    towers = {
        name: {node.name for node in model.graph.node if sources[node.output[0]] == {name}}
        for name in ("query", "item")
    }
    join = [node for node in model.graph.node if len(sources[node.output[0]]) == 2]
    assert len(join) <= 8
    # Without the join nothing links the two: no value and no weight of one is in the other.
    values = {
        name: {
            value
            for node in model.graph.node
            if node.name in nodes
            for value in [*node.input, *node.output]
        }
        for name, nodes in towers.items()
    }
    assert values["query"].isdisjoint(values["item"])
    query, item = (sum(work[name] for name in nodes) for nodes in towers.values())
    assert 0.9 < query / item < 1.1
    assert sum(work[node.name] for node in join) < 1e-3 * query
    shapes = {
        name: [list(weight.dims) for weight in model.graph.initializer if weight.name in used]
        for name, used in values.items()
    }
    assert shapes["query"] != shapes["item"]


def inputs_above(model: onnx.ModelProto) -> dict[str, set[str]]:
    """Return for each value the graph inputs that it depends on."""
    sources = {graph_input.name: {graph_input.name} for graph_input in model.graph.input}
    for node in model.graph.node:
        above = set().union(*(sources.get(value, set()) for value in node.input))
        sources.update(dict.fromkeys(node.output, above))
    return sources


def multiply_adds(model: onnx.ModelProto) -> dict[str, int]:
    """Return the multiply-adds of every node at batch 1, counted from the inferred shapes."""
    pinned = onnx.ModelProto()
    pinned.CopyFrom(model)
    for graph_input in pinned.graph.input:
        graph_input.type.tensor_type.shape.dim[0].dim_value = 1
    inferred = onnx.shape_inference.infer_shapes(pinned, data_prop=True).graph
    shapes = {weight.name: list(weight.dims) for weight in inferred.initializer}
    for value in [*inferred.input, *inferred.value_info, *inferred.output]:
        shapes[value.name] = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
    work = {}
    for node in inferred.node:
        per_output = 0
        if node.op_type == "Conv":
            per_output = int(np.prod(shapes[node.input[1]][1:]))
        elif node.op_type in ("MatMul", "Gemm"):
            per_output = shapes[node.input[0]][-1]
        work[node.name] = per_output * int(np.prod(shapes[node.output[0]]))
    return work


def test_unrolled_steps_share_their_weights() -> None:
    unrolled = next(
        model for _, model in generate("lstm", count=20, seed=0) if "unrolled" in model.doc_string
    )
    readers = [node.input[1] for node in unrolled.graph.node if node.op_type == "Gemm"]
    assert len(set(readers)) < len(readers) / 10


def test_the_lstm_family_has_all_its_variants() -> None:
    descriptions = [m.doc_string for _, m in generate("lstm", count=20, seed=0, size=0.1)]
    for word in ("stacked", "bidirectional", "unrolled", "LSTM", "GRU"):
        assert any(word in description for description in descriptions)


def test_a_transformer_computes_its_shapes_in_the_graph() -> None:
    ops = {node.op_type for node in member("transformer", 0).graph.node}
    assert {"Shape", "Gather", "Concat", "Reshape", "LayerNormalization", "Softmax"} <= ops


def test_an_unknown_family_names_the_near_ones() -> None:
    with pytest.raises(InputError, match='unknown family "two_tower"; near names: two-tower'):
        generate("two_tower", count=1, seed=0)
    with pytest.raises(InputError, match="inception, two-tower, transformer, lstm"):
        generate("zzz", count=1, seed=0)


@pytest.mark.parametrize(
    ("count", "seed", "size", "message"),
    [
        (0, 0, 1.0, "count must be at least 1, got 0"),
        (1, -1, 1.0, "seed must be at least 0, got -1"),
        (1, 0, 0.0, "size must be above 0 and finite, got 0.0"),
        (1, 0, float("nan"), "size must be above 0 and finite, got nan"),
        (1, 0, 1e200, "size must be at most 1000, got 1e\\+200"),
    ],
)
def test_numbers_out_of_range_are_refused_before_anything_is_written(
    tmp_path: Path, count: int, seed: int, size: float, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        write_family("lstm", tmp_path / "out", count=count, seed=seed, size=size)
    assert not (tmp_path / "out").exists()


def test_files_are_whole_and_nothing_else_is_left(tmp_path: Path) -> None:
    out = tmp_path / "deep" / "models"
    paths = list(write_family("lstm", out, count=2, seed=5, size=0.1))
    assert paths == [out / "lstm-000.onnx", out / "lstm-001.onnx"]
    assert sorted(out.iterdir()) == paths
    _, expected = next(generate("lstm", count=1, seed=5, size=0.1))
    assert onnx.load(paths[0]) == expected


def test_an_interrupted_write_leaves_nothing_half_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(path: Path, target: Path) -> Path:
        assert path.exists()
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        list(write_family("lstm", tmp_path, count=1, seed=0, size=0.1))
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(InputError, match="file: cannot be made a folder: File exists"):
        list(write_family("lstm", tmp_path / "file", count=1, seed=0, size=0.1))
