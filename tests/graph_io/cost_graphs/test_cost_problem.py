"""From a cost graph and a cluster to a problem."""

from pathlib import Path

import numpy as np
import pytest

from dplace.cluster import Cluster
from dplace.errors import ClusterError, InputError, UsageError
from dplace.graph_io.cost_graphs import CostGraph, cost_problem, read_cost_graph
from dplace.profiles import read_cluster
from tests.graph_io.cost_graphs.files import diamond, excel, moirai_rows, own, pipedream, text


def read(tmp_path: Path, content: bytes | str) -> CostGraph:
    path = tmp_path / "g"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return read_cost_graph(path)


@pytest.fixture
def gpus() -> Cluster:
    return read_cluster("3xV100")


def test_on_its_own_devices(tmp_path: Path) -> None:
    problem = cost_problem(read(tmp_path, text(diamond())))
    assert problem.machine == "dnn-partitioning"
    assert problem.objective == "latency"
    assert problem.seconds[0].tolist() == [0.001, 0.001, 0.01]
    assert problem.transfer_s is not None
    assert problem.transfer_s.shape == (3, 1, 1)
    assert problem.pins.tolist() == [-1] * 4


def test_on_named_devices_its_times_hold_on_each(tmp_path: Path, gpus: Cluster) -> None:
    problem = cost_problem(
        read(tmp_path, text(diamond())), gpus, machine="native", objective="throughput"
    )
    assert (problem.machine, problem.objective) == ("native", "throughput")
    assert problem.seconds.tolist()[0] == [0.001] * 3
    assert problem.transfer_s is not None
    assert [device.call_overhead_s for device in problem.cluster.devices] == [0.0] * 3
    assert gpus.devices[0].call_overhead_s > 0


def test_a_cpu_of_a_named_cluster_takes_the_times_of_the_cpu(tmp_path: Path) -> None:
    problem = cost_problem(read(tmp_path, text(diamond())), read_cluster("V100+CPU"))
    assert problem.seconds[0].tolist() == [0.001, 0.01]


def test_bytes_go_over_the_links_of_the_cluster(tmp_path: Path, gpus: Cluster) -> None:
    problem = cost_problem(read(tmp_path, pipedream()), gpus)
    assert problem.transfer_s is None
    assert np.array_equal(problem.cluster.bytes_per_s, gpus.bytes_per_s)


def test_a_file_without_devices_needs_a_cluster(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="pipedream format describes no devices.*4xV100"):
        cost_problem(read(tmp_path, pipedream()))


def test_times_of_other_devices_do_not_hold(tmp_path: Path, gpus: Cluster) -> None:
    with pytest.raises(UsageError, match="times for p0, p1 and none for the V100.*cluster file"):
        cost_problem(read(tmp_path, excel(moirai_rows())), gpus)
    with pytest.raises(UsageError, match="times for fast, slow and none for the V100"):
        cost_problem(read(tmp_path, text(own())), gpus)


def test_times_between_the_files_devices_hold_there_only(tmp_path: Path, gpus: Cluster) -> None:
    table = [[0, 1, 1], [1, 0, 1], [1, 1, 0]]
    values = [{"from": "a", "to": "b", "seconds": table}]
    source = read(tmp_path, text(own(values=values, default_kind="fast")))
    assert cost_problem(source).transfer_s is not None
    with pytest.raises(UsageError, match="between its own 3 devices.*not those of 3xV100"):
        cost_problem(source, gpus)


def test_pins_go_by_id_and_by_name(tmp_path: Path) -> None:
    source = read(tmp_path, text(diamond()))
    pins = [("d", "cpu:0"), ("1", "accelerator:1")]
    assert cost_problem(source, pins=pins).pins.tolist() == [1, -1, -1, 2]
    with pytest.raises(InputError, match="--pin q=cpu:0: no op has such an id or name"):
        cost_problem(source, pins=[("q", "cpu:0")])
    with pytest.raises(InputError, match="op 4 is pinned to cpu:0 as well"):
        cost_problem(source, pins=[("d", "cpu:0"), ("4", "accelerator:1")])
    with pytest.raises(ClusterError, match="no device 'gpu:0'"):
        cost_problem(source, pins=[("d", "gpu:0")])
