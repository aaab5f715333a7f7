"""The families of Placeto: what their members compute, how they differ, who is for testing."""

from collections import Counter
from functools import cache

import numpy as np
import onnx
import onnxruntime
import pytest
from numpy.typing import NDArray

from dplace.errors import InputError
from dplace.graph_io.families import FAMILIES, generate, split_members

PLACETO = ("cifar10", "ptb", "nmt")
SMALL = 0.1
Feeds = dict[str, NDArray[np.float32] | NDArray[np.int64]]


@cache
def small_members(family: str) -> tuple[onnx.ModelProto, ...]:
    return tuple(model for _, model in generate(family, split="all", seed=0, size=SMALL))


def session_of(model: onnx.ModelProto) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def drawn_feeds(session: onnxruntime.InferenceSession, batch: int) -> Feeds:
    rng = np.random.default_rng(0)
    feeds: Feeds = {}
    for graph_input in session.get_inputs():
        shape = [batch if dim == "batch" else dim for dim in graph_input.shape]
        if graph_input.type == "tensor(int64)":
            feeds[graph_input.name] = rng.integers(0, 1024, shape)
        else:
            feeds[graph_input.name] = rng.standard_normal(shape).astype(np.float32)
    return feeds


def run(session: onnxruntime.InferenceSession, feeds: Feeds) -> NDArray[np.float32]:
    (output,) = session.run(None, feeds)
    found: NDArray[np.float32] = output
    return found


@pytest.mark.parametrize("index", range(4))
@pytest.mark.parametrize("family", PLACETO)
def test_a_small_member_is_correct_and_runs(family: str, index: int) -> None:
    model = small_members(family)[index]
    onnx.checker.check_model(model, full_check=True)
    session = session_of(model)
    output = run(session, drawn_feeds(session, batch=2))
    assert output.shape[0] == 2
    assert np.isfinite(output).all()
    assert output.std() > 0


@pytest.mark.slow
@pytest.mark.parametrize("family", PLACETO)
def test_members_of_full_size_are_as_large_as_they_should_be_and_run(family: str) -> None:
    for _, model in generate(family, split="test", seed=0):
        assert model.ByteSize() <= 20e6
        assert 300 <= len(model.graph.node) <= 2000
        onnx.checker.check_model(model, full_check=True)
        session = session_of(model)
        assert np.isfinite(run(session, drawn_feeds(session, batch=1))).all()


@pytest.mark.parametrize("family", PLACETO)
def test_no_two_members_are_wired_alike(family: str) -> None:
    wirings = {
        str([(node.op_type, list(node.input)) for node in model.graph.node])
        for model in small_members(family)
    }
    assert len(wirings) == 32
    sizes = {len(model.graph.node) for model in small_members(family)}
    assert max(sizes) > 1.5 * min(sizes)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_split_divides_32_members_for_good(family: str) -> None:
    split = split_members(family)
    assert len(split.train) == 24
    assert len(split.test) == 8
    assert sorted((*split.train, *split.test)) == [f"{family}-{i:03}" for i in range(32)]
    assert split == split_members(family, seed=0)
    assert split.test != split_members(family, seed=1).test


def test_who_is_for_testing_never_changes() -> None:
    """A checkpoint that was trained on one division must not be judged on another."""
    numbers = {
        family: [int(name[-3:]) for name in split_members(family).test] for family in PLACETO
    }
    assert numbers == {
        "cifar10": [3, 5, 11, 12, 14, 15, 22, 25],
        "ptb": [4, 5, 8, 12, 14, 15, 19, 20],
        "nmt": [0, 1, 3, 4, 6, 14, 23, 30],
    }


def test_a_split_yields_the_members_that_are_there_without_it() -> None:
    names = split_members("ptb", seed=3).test
    members = dict(generate("ptb", split="test", seed=3, size=SMALL))
    assert tuple(members) == names
    plain = dict(generate("ptb", count=32, seed=3, size=SMALL))
    assert all(members[name] == plain[name] for name in names)
    assert [name for name, _ in generate("ptb", split="test", count=2, seed=3, size=SMALL)] == [
        *names[:2]
    ]


def test_without_count_or_split_it_is_one_member() -> None:
    assert [name for name, _ in generate("nmt", seed=0, size=SMALL)] == ["nmt-000"]


def test_a_split_is_not_asked_for_more_than_it_has() -> None:
    with pytest.raises(InputError, match="count must be at most 8, the members of the split test"):
        generate("ptb", split="test", count=9, seed=0)
    with pytest.raises(InputError, match='unknown split "dev"; use train, test or all'):
        generate("ptb", split="dev", seed=0)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="unknown family"):
        split_members("zzz")
    with pytest.raises(InputError, match="seed must be at least 0"):
        split_members("ptb", seed=-1)


def test_cells_of_images_use_every_op_and_halve_the_map_twice() -> None:
    for model in small_members("cifar10"):
        inferred = onnx.shape_inference.infer_shapes(model).graph
        sides = {
            value.name: value.type.tensor_type.shape.dim[2].dim_value
            for value in inferred.value_info
            if len(value.type.tensor_type.shape.dim) == 4
        }
        convolved = [sides[node.output[0]] for node in inferred.node if node.op_type == "Conv"]
        assert set(convolved) == {32, 16, 8}
    ops = Counter(node.op_type for model in small_members("cifar10") for node in model.graph.node)
    assert {"Conv", "Relu", "BatchNormalization", "AveragePool", "MaxPool", "Concat"} <= set(ops)
    kernels = {
        tuple(attribute.ints)
        for model in small_members("cifar10")
        for node in model.graph.node
        if node.op_type == "Conv"
        for attribute in node.attribute
        if attribute.name == "kernel_shape"
    }
    assert kernels == {(1, 1), (3, 3), (5, 5)}


def test_cells_of_words_use_every_activation_and_share_their_weights() -> None:
    ops = {node.op_type for model in small_members("ptb") for node in model.graph.node}
    assert {"Tanh", "Relu", "Sigmoid", "LogSoftmax"} <= ops
    model = small_members("ptb")[0]
    readers = [node.input[1] for node in model.graph.node if node.op_type == "MatMul"]
    assert len(set(readers)) <= len(readers) / 5


def changed(feeds: Feeds, name: str, column: int) -> Feeds:
    tokens = feeds[name].copy()
    tokens[:, column] = (tokens[:, column] + 1) % 1024
    return {**feeds, name: tokens}


@pytest.mark.parametrize(("family", "name"), [("ptb", "tokens"), ("nmt", "target")])
def test_a_score_depends_on_the_words_up_to_its_own_and_is_of_a_probability(
    family: str, name: str
) -> None:
    session = session_of(small_members(family)[1])
    feeds = drawn_feeds(session, batch=3)
    scores = run(session, feeds)
    assert scores.shape == (3, feeds[name].shape[1] - 1)
    assert (scores < 0).all()
    for column in (1, scores.shape[1] - 1):
        others = run(session, changed(feeds, name, column))
        np.testing.assert_array_equal(others[:, : column - 1], scores[:, : column - 1])
        near = slice(column - 1, column + 1)  # far words may be lost to rounding
        assert (others[:, near] != scores[:, near]).all()


@pytest.mark.parametrize("index", range(6))
def test_every_word_of_the_source_counts_for_every_score(index: int) -> None:
    session = session_of(small_members("nmt")[index])
    feeds = drawn_feeds(session, batch=2)
    scores = run(session, feeds)
    for column in (0, feeds["source"].shape[1] - 1):
        # A far word may be lost to rounding at some step, not at most of them.
        assert (run(session, changed(feeds, "source", column)) != scores).mean() > 0.5
