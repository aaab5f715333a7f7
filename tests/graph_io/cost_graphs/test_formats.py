"""The same small graph in every format reads the same."""

import json
from pathlib import Path

import numpy as np
import pytest

from dplace.graph_io.cost_graphs import CostGraph, is_cost_graph, read_cost_graph
from dplace.graph_io.cost_graphs.cost_graph import NO_CAP_BYTES
from dplace.graph_io.cost_graphs.own_json import own_json
from tests.graph_io.cost_graphs.files import (
    diamond,
    doppler,
    excel,
    moirai_rows,
    own,
    pipedream,
    text,
)

CONTENT = {
    "dnn-partitioning": text(diamond()).encode(),
    "pipedream": pipedream().encode(),
    "doppler": doppler().encode(),
    "moirai": excel(moirai_rows()),
    "dplace": text(own()).encode(),
}
MS = 1e-3


def read(tmp_path: Path, content: bytes, format: str | None = None) -> CostGraph:
    path = tmp_path / "graph.whatever"
    path.write_bytes(content)
    assert is_cost_graph(path)
    return read_cost_graph(path, format)


def edges(source: CostGraph) -> set[tuple[str, str]]:
    graph = source.graph
    return {
        (graph.op_names[graph.value_producer[value]], graph.op_names[reader])
        for value in range(graph.num_values)
        for reader in graph.consumers_of(value)
    }


@pytest.mark.parametrize("format", CONTENT)
def test_the_format_is_told_by_the_content(tmp_path: Path, format: str) -> None:
    assert read(tmp_path, CONTENT[format]).format == format


@pytest.mark.parametrize("format", CONTENT)
def test_ops_stand_in_an_order_in_which_they_can_run(tmp_path: Path, format: str) -> None:
    source = read(tmp_path, CONTENT[format])
    place = {name: at for at, name in enumerate(source.graph.op_names)}
    assert edges(source)
    assert all(place[a] < place[b] for a, b in edges(source))
    graph = source.graph
    for op in range(graph.num_ops):
        assert all(graph.value_producer[value] == op for value in graph.outputs_of(op))
        assert all(op in graph.consumers_of(value) for value in graph.inputs_of(op))


def test_dnn_partitioning(tmp_path: Path) -> None:
    source = read(tmp_path, CONTENT["dnn-partitioning"])
    graph = source.graph
    assert graph.op_names == ("1", "3", "2", "4")  # 3 stands before 2 in the file
    assert graph.op_types == ("a", "c", "b", "d")
    assert edges(source) == {("1", "2"), ("1", "3"), ("2", "4"), ("3", "4")}
    assert source.kinds == ("accelerator", "CPU")
    assert source.seconds == pytest.approx(np.array([[1, 10], [3, 30], [2, 20], [4, 40]]) * MS)
    assert source.transfer_s is not None
    assert source.transfer_s.shape == (3, 1, 1)
    assert dict(zip(graph.value_names, source.transfer_s[:, 0, 0] / MS, strict=True)) == {
        "1": 0.5,
        "2": 0.25,
        "3": 0.125,
    }
    assert dict(zip(graph.value_names, graph.value_bytes.tolist(), strict=True)) == {
        "1": 64,
        "2": 32,
        "3": 16,
    }
    assert graph.weight_bytes.tolist() == [100, 300, 200, 400]
    # b and c share a colour.
    assert graph.colocation[1] == graph.colocation[2]
    assert len({int(color) for color in graph.colocation}) == 3
    assert source.cluster is not None
    assert [device.name for device in source.cluster.devices] == [
        "accelerator:0",
        "accelerator:1",
        "cpu:0",
    ]
    memory = [device.memory_bytes for device in source.cluster.devices]
    assert memory == [1000, 1000, NO_CAP_BYTES]
    assert (source.machine, source.unit, source.warnings) == ("dnn-partitioning", "file units", ())


def test_an_op_that_the_accelerator_cannot_run_takes_forever_there(tmp_path: Path) -> None:
    nodes = diamond()["nodes"]
    nodes[0]["supportedOnFpga"] = 0
    source = read(tmp_path, text(diamond(nodes=nodes)).encode())
    assert source.seconds[source.graph.op_names.index("4")].tolist() == [np.inf, 0.04]


def test_transfers_that_seem_to_be_in_seconds_are_kept_and_named(tmp_path: Path) -> None:
    edges = [edge | {"cost": edge["size"] / 2e6} for edge in diamond()["edges"]]  # 2 GB/s, in ms
    assert read(tmp_path, text(diamond(edges=edges)).encode()).warnings == ()
    edges = [edge | {"cost": edge["cost"] / 1000} for edge in edges]
    source = read(tmp_path, text(diamond(edges=edges)).encode())
    assert source.transfer_s is not None
    assert source.transfer_s.max() == pytest.approx(64 / 2e9 * MS)
    assert len(source.warnings) == 1
    assert "2000 GB a second" in source.warnings[0]
    assert "1000 times too small" in source.warnings[0]


def test_pipedream(tmp_path: Path) -> None:
    source = read(tmp_path, CONTENT["pipedream"])
    graph = source.graph
    assert graph.op_names == ("nodea", "nodeb", "nodec", "noded")
    assert graph.op_types == ("Linear",) * 4
    assert source.kinds == ("*",)
    assert source.seconds[:, 0] == pytest.approx([1 * MS, 2 * MS, 3 * MS, 4 * MS])
    assert graph.value_bytes.tolist() == [60 + 4, 32, 16, 8]
    assert graph.consumers_of(0).tolist() == [1, 2]
    assert graph.weight_bytes.tolist() == [100, 200, 300, 400]
    assert (source.transfer_s, source.cluster, source.machine) == (None, None, "native")
    assert source.unit == "ms"


def test_pipedream_training_adds_the_backward_times(tmp_path: Path) -> None:
    source = read(tmp_path, CONTENT["pipedream"], "pipedream-training")
    assert source.seconds[:, 0] == pytest.approx([3 * MS, 5 * MS, 7 * MS, 9 * MS])
    assert source.format == "pipedream-training"


def test_pipedream_with_stages_and_dashes_in_a_description(tmp_path: Path) -> None:
    lines = pipedream().splitlines()
    lines[0] = lines[0].replace("Linear(4, 4)", "Relu -- in place") + " -- stage_id=1"
    source = read(tmp_path, "\n".join(lines).encode())
    assert source.graph.op_types[0] == "Relu -- in place"
    assert source.seconds[0, 0] == 1 * MS


def test_doppler(tmp_path: Path) -> None:
    source = read(tmp_path, CONTENT["doppler"])
    assert source.graph.op_names == ("0", "1", "2", "3")
    assert edges(source) == {("0", "1"), ("0", "2"), ("1", "3"), ("2", "3")}
    assert source.seconds[:, 0] == pytest.approx([1 * MS, 2 * MS, 3 * MS, 4 * MS])
    assert source.transfer_s is not None
    assert source.transfer_s[:, 0, 0] == pytest.approx([0.1 * MS, 0.2 * MS, 0.3 * MS, 0.4 * MS])
    assert (source.machine, source.unit) == ("independent", "file units / 1e10")
    assert source.unit_s == pytest.approx(MS)


def test_doppler_with_edges_that_count_the_inputs(tmp_path: Path) -> None:
    text = "6\n0, 3\n0, 1, 1, 2, 3, 4\n1, 2, 4, 5, 4, 5\n" + "10000000000,1,matmul\n" * 4
    source = read(tmp_path, text.encode())
    assert source.graph.op_names == ("1", "2", "4", "5")
    assert edges(source) == {("1", "2"), ("1", "4"), ("2", "5"), ("4", "5")}
    assert source.graph.op_types == ("matmul",) * 4


def test_moirai(tmp_path: Path) -> None:
    source = read(tmp_path, CONTENT["moirai"])
    graph = source.graph
    assert graph.op_names == ("0", "1", "4", "5", "8")
    assert source.seconds == pytest.approx(
        np.array([[0, 0], [1, 10], [2, 20], [3, 30], [4, 40]]) * MS
    )
    # Each edge is a value of its own; the virtual source's moves for nothing.
    assert graph.value_names == ("0-1", "2", "3", "6", "7")
    assert np.diff(graph.consumer_offsets).tolist() == [1] * 5
    assert source.transfer_s is not None
    assert source.transfer_s[:, 0, 1] == pytest.approx(np.array([0, 0.5, 0.75, 0.5, 0.5]) * MS)
    assert source.transfer_s[:, 1, 0] == pytest.approx(np.array([0, 0.25, 0.375, 0.25, 0.25]) * MS)
    assert source.cluster is not None
    assert [device.memory_bytes for device in source.cluster.devices] == [5000, 6000]
    assert source.cluster.contention == "egress-ingress"
    assert graph.weight_bytes.tolist() == [100, 200, 300, 400]
    assert (source.machine, source.unit, source.warnings) == ("moirai", "file units", ())


def test_memory_that_looks_like_bits_is_kept_and_named(tmp_path: Path) -> None:
    rows = moirai_rows()
    rows[1][-2] = 495848000000
    source = read(tmp_path, excel(rows))
    assert source.cluster is not None
    assert source.cluster.devices[0].memory_bytes == 495848000000
    assert len(source.warnings) == 1
    assert "bits" in source.warnings[0]


def test_own_format(tmp_path: Path) -> None:
    source = read(tmp_path, CONTENT["dplace"])
    graph = source.graph
    assert graph.name == "graph"
    assert graph.op_names == ("a", "b", "c", "d")
    assert graph.op_types == ("MatMul", "b", "c", "d")
    assert source.seconds.tolist() == [
        [0.001, 0.010],
        [0.002, 0.020],
        [0.003, np.inf],
        [0.004, 0.004],
    ]
    assert graph.colocation.tolist() == [-1, 0, 0, -1]
    assert graph.weight_bytes.tolist() == [100]
    assert source.cluster is not None
    assert [device.name for device in source.cluster.devices] == ["fast:0", "other", "slow:2"]
    assert source.cluster.latency_s.tolist() == [
        [0, 1e-5, 1e-5],
        [1e-5, 0, 1e-5],
        [1e-5, 1e-5, 0],
    ]
    assert source.cluster.bytes_per_s[0].tolist() == [np.inf, 1e9, 1e9]
    assert source.cluster.contention == "port"


def test_devices_need_no_links_where_no_value_crosses(tmp_path: Path) -> None:
    content = own(values=[])
    del content["links"]
    file = tmp_path / "graph.json"
    file.write_text(json.dumps(content))
    read = read_cost_graph(file)
    assert read.cluster is not None
    assert (read.graph.num_values, read.cluster.num_devices) == (0, len(content["devices"]))


@pytest.mark.parametrize("format", CONTENT)
def test_every_format_survives_the_way_through_ours(tmp_path: Path, format: str) -> None:
    before = read(tmp_path, CONTENT[format])
    after = read(tmp_path, text(own_json(before)).encode())
    assert after.format == "dplace"
    for field in ("name", "op_names", "op_types", "value_names"):
        assert getattr(after.graph, field) == getattr(before.graph, field)
    for field in (
        *("value_producer", "value_bytes", "consumer_offsets", "consumer_ops", "input_offsets"),
        *("input_values", "output_values", "weight_bytes", "weight_offsets", "op_weights"),
    ):
        assert getattr(after.graph, field).tolist() == getattr(before.graph, field).tolist()
    same = before.graph.colocation[:, None] == before.graph.colocation
    assert ((after.graph.colocation[:, None] == after.graph.colocation) == same).all()
    assert after.seconds.tolist() == before.seconds.tolist()
    assert (after.kinds, after.default_kind, after.machine) == (
        before.kinds,
        before.default_kind,
        before.machine,
    )
    assert (after.transfer_s is None) == (before.transfer_s is None)
    if before.transfer_s is not None and after.transfer_s is not None:
        assert after.transfer_s.tolist() == before.transfer_s.tolist()
    if before.cluster is not None:
        assert after.cluster is not None
        kept = [(d.name, d.kind, d.memory_bytes) for d in before.cluster.devices]
        assert [(d.name, d.kind, d.memory_bytes) for d in after.cluster.devices] == kept
        assert after.cluster.contention == before.cluster.contention
        assert after.cluster.bytes_per_s.tolist() == before.cluster.bytes_per_s.tolist()


def test_what_is_no_cost_graph(tmp_path: Path) -> None:
    for content in (b"", b"\x08\x0a\x12\x07pytorch", b"hello\nworld\n", b"\x00" * 9):
        (tmp_path / "model.onnx").write_bytes(content)
        assert not is_cost_graph(tmp_path / "model.onnx")
    assert not is_cost_graph(tmp_path / "nothing")
    assert not is_cost_graph(tmp_path)


def test_documentation_shows_a_file_that_reads(tmp_path: Path) -> None:
    page = (Path(__file__).parents[3] / "docs" / "cost-graph-format.md").read_text()
    example = page.split("```json\n")[1].split("```")[0]
    source = read(tmp_path, example.encode())
    assert source.format == "dplace"
    assert json.loads(example)["ops"]
    assert source.cluster is not None
