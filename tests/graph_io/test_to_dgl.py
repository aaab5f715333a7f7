"""Groups and devices as figures that compare, and as a DGL graph."""

import dataclasses
import os

import numpy as np
import pytest

from dplace.graph_io.group_graph import DEVICE_FEATURES, GROUP_FEATURES, group_graph
from dplace.graph_io.to_dgl import to_dgl
from dplace.problem import Problem
from tests.random_problems import make_cluster, make_graph, make_problem, random_problem

os.environ.setdefault("DGLBACKEND", "pytorch")


def diamond() -> Problem:
    """Return 0 -> (1, 2) -> 3 on two devices; op 0 makes a value for both, a byte takes 1 s."""
    graph = make_graph(
        [["x"], ["a"], ["a"], ["b", "c"]],
        [["a"], ["b"], ["c"], ["d"]],
        value_bytes={"a": 4, "b": 2, "c": 2, "d": 100},
        weights=[["w"], ["w"], [], []],
        weight_bytes={"w": 8},
    )
    cluster = make_cluster(2, latency_s=1.0, bytes_per_s=1.0, memory_bytes=16)
    return make_problem(graph, cluster, [1.0, 2.0, 3.0, 2.0])


def test_times_are_told_in_the_mean_group_and_bytes_in_the_mean_memory() -> None:
    found = group_graph(diamond(), np.arange(4, dtype=np.int32))
    assert found.edges.tolist() == [[0, 1], [0, 2], [1, 3], [2, 3]]
    assert found.run.tolist() == [[0.5, 0.5], [1.0, 1.0], [1.5, 1.5], [1.0, 1.0]]
    assert found.sent.tolist() == [2.5, 1.5, 1.5, 0.0]  # value a leaves once, d is read by no one
    work, sent, weights, outputs = found.features.T
    np.testing.assert_allclose(work, np.log1p([0.5, 1.0, 1.5, 1.0]), rtol=1e-6)
    np.testing.assert_allclose(sent, np.log1p(found.sent), rtol=1e-6)
    assert weights.tolist() == [0.5, 0.5, 0.0, 0.0]
    assert outputs.tolist() == [0.25, 0.125, 0.125, 6.25]
    assert found.link.tolist() == [[0.0, 1.0], [1.0, 0.0]]


def test_groups_hide_what_passes_inside() -> None:
    found = group_graph(diamond(), np.array([0, 0, 1, 1], dtype=np.int32))
    assert found.edges.tolist() == [[0, 1]]
    assert found.run.tolist() == [[0.75, 0.75], [1.25, 1.25]]
    assert found.sent.tolist() == [(5 + 3) / 4, 0.0]


def test_ten_times_the_time_of_everything_looks_the_same() -> None:
    problem = diamond()
    cluster = make_cluster(2, latency_s=10.0, bytes_per_s=0.1, memory_bytes=16)
    slow = dataclasses.replace(problem, seconds=problem.seconds * 10, cluster=cluster)
    group = np.arange(4, dtype=np.int32)
    one, other = group_graph(problem, group), group_graph(slow, group)
    np.testing.assert_allclose(one.features, other.features, rtol=1e-6)
    np.testing.assert_allclose(one.device_features, other.device_features, rtol=1e-6)
    np.testing.assert_allclose(one.run, other.run, rtol=1e-6)


def test_unlike_devices_differ_and_what_may_not_run_says_so() -> None:
    problem = diamond()
    seconds = problem.seconds * np.array([1.0, 4.0])
    seconds[2, 1] = np.inf
    found = group_graph(dataclasses.replace(problem, seconds=seconds), np.arange(4, dtype=np.int32))
    assert found.allowed.tolist() == [[True, True], [True, True], [True, False], [True, True]]
    assert found.run[2, 1] == 0.0
    slowness = found.device_features[:, DEVICE_FEATURES.index("slowness")]
    assert slowness[0] < 0 < slowness[1]
    capable = found.device_features[:, DEVICE_FEATURES.index("capable")]
    assert capable.tolist() == [1.0, 0.75]


def test_given_times_of_transfers_count() -> None:
    problem = diamond()
    given = np.zeros((problem.graph.num_values, 2, 2))
    given[:, 0, 1], given[:, 1, 0] = 3.0, 1.0
    cluster = make_cluster(2)
    problem = dataclasses.replace(problem, cluster=cluster, transfer_s=given, machine="independent")
    found = group_graph(problem, np.arange(4, dtype=np.int32))
    assert found.sent.tolist() == [1.0, 1.0, 1.0, 0.0]
    assert found.link.tolist() == [[0.0, 1.5], [0.5, 0.0]]


@pytest.mark.parametrize("num_devices", [1, 2, 5])
def test_nothing_is_out_of_bounds(num_devices: int) -> None:
    problem = random_problem(np.random.default_rng(3), 40, num_devices, unlike=True)
    found = group_graph(problem, np.arange(40, dtype=np.int32))
    for array in (found.features, found.device_features, found.link, found.edge_sent):
        assert np.isfinite(array).all()
        assert np.abs(array).max(initial=0) <= 8.0
    assert found.features.shape == (40, len(GROUP_FEATURES))


def test_the_dgl_graph_holds_it_all_and_goes_into_a_batch() -> None:
    import dgl

    two = group_graph(diamond(), np.arange(4, dtype=np.int32))
    five = group_graph(
        random_problem(np.random.default_rng(1), 30, 5, unlike=True), np.arange(30, dtype=np.int32)
    )
    graph = to_dgl(two)
    source, target = graph.edges(etype="feeds")
    assert list(zip(source.tolist(), target.tolist(), strict=True)) == [
        tuple(pair) for pair in two.edges.tolist()
    ]
    assert graph.edges(etype="fed_by")[0].tolist() == target.tolist()
    assert graph.edges["runs_on"].data["run"].reshape(4, 2).tolist() == two.run.tolist()
    batch = dgl.batch([graph, to_dgl(five)])
    assert batch.num_nodes("group") == 34
    assert batch.batch_num_nodes("device").tolist() == [2, 5]
    features = batch.nodes["group"].data["features"].numpy()
    assert (features == np.concatenate([two.features, five.features])).all()
