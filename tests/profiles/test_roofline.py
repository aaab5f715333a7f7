import numpy as np
import pytest

from dplace.op_graph import OpGraph
from dplace.profiles import device_kind, modelled_seconds, read_cluster
from tests.lines_run import lines_run


def graph_of(
    *,
    flop: list[float],
    moved: list[float],
    classes: list[str] | None = None,
    dtypes: list[str] | None = None,
    launches: list[int] | None = None,
) -> OpGraph:
    """Return ops without edges."""
    num_ops = len(flop)
    none = np.zeros(0, dtype=np.int32)
    offsets = np.zeros(num_ops + 1, dtype=np.int32)
    return OpGraph(
        name="test",
        op_names=tuple(f"op{i}" for i in range(num_ops)),
        op_types=("Op",) * num_ops,
        op_flop=np.array(flop, dtype=np.float64),
        op_bytes=np.array(moved, dtype=np.float64),
        op_classes=tuple(classes or ["matmul"] * num_ops),
        op_dtypes=tuple(dtypes or ["float32"] * num_ops),
        op_launches=np.array(launches or [1] * num_ops, dtype=np.int32),
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


def test_an_op_is_bound_by_arithmetic_or_by_memory() -> None:
    kind = device_kind("V100")
    matmul = kind.efficiency["matmul"]
    graph = graph_of(flop=[1e12, 1e6], moved=[1e6, 1e9])
    seconds = modelled_seconds(graph, read_cluster("V100"))[:, 0]
    assert seconds[0] == pytest.approx(1e12 / (15.7e12 * matmul.flop) + kind.launch_overhead_s)
    assert seconds[1] == pytest.approx(1e9 / (900e9 * matmul.bytes) + kind.launch_overhead_s)


def test_every_launch_and_every_view_costs_its_overhead() -> None:
    kind = device_kind("T4")
    graph = graph_of(
        flop=[0.0, 0.0, 0.0, 0.0],
        moved=[0.0, 0.0, 0.0, 0.0],
        classes=["elementwise", "elementwise", "free", "free"],
        launches=[1, 5, 1, 0],
    )
    assert modelled_seconds(graph, read_cluster("T4"))[:, 0].tolist() == pytest.approx(
        [kind.launch_overhead_s, 5 * kind.launch_overhead_s, kind.view_overhead_s, 0.0]
    )


def test_dtypes_have_their_own_peak_and_unlisted_ones_that_of_float32() -> None:
    graph = graph_of(
        flop=[1e12] * 4, moved=[0.0] * 4, dtypes=["float32", "float16", "int4", "bfloat16"]
    )
    v100 = modelled_seconds(graph, read_cluster("V100"))[:, 0]
    assert v100[0] > 5 * v100[1]
    assert v100[0] == v100[2] == v100[3]


def test_matrix_kernels_read_float32_as_tf32_where_the_gpu_can() -> None:
    graph = graph_of(flop=[1e12] * 2, moved=[0.0] * 2, classes=["matmul", "reduction"])
    kind = device_kind("A100-40GB")
    seconds = modelled_seconds(graph, read_cluster("A100-40GB"))[:, 0] - kind.launch_overhead_s
    assert seconds[0] == pytest.approx(1e12 / (156e12 * kind.efficiency["matmul"].flop))
    assert seconds[1] == pytest.approx(1e12 / (19.5e12 * kind.efficiency["reduction"].flop))


def test_a_class_without_a_row_is_costed_as_other() -> None:
    graph = graph_of(flop=[1e9] * 2, moved=[1e6] * 2, classes=["other", "no such class"])
    seconds = modelled_seconds(graph, read_cluster("CPU"))[:, 0]
    assert seconds[0] == seconds[1]


def test_what_does_not_fit_the_cache_runs_at_the_memorys_bandwidth() -> None:
    kind = device_kind("CPU")
    inside, outside = kind.cache_bytes, kind.cache_bytes * 100
    graph = graph_of(flop=[0.0, 0.0], moved=[inside, outside], launches=[0, 0])
    seconds = modelled_seconds(graph, read_cluster("CPU"))[:, 0]
    share = kind.efficiency["matmul"].bytes
    assert seconds[0] == pytest.approx(inside / (kind.cache_bytes_per_s * share))
    assert seconds[1] == pytest.approx(outside / (kind.bytes_per_s * share))


def test_devices_of_a_kind_agree_and_columns_follow_the_cluster() -> None:
    graph = graph_of(flop=[1e9, 2e9], moved=[1e6, 1e6])
    seconds = modelled_seconds(graph, read_cluster("2xV100+1xCPU"))
    assert seconds.shape == (2, 3)
    assert (seconds[:, 0] == seconds[:, 1]).all()
    assert (seconds[:, 2] > seconds[:, 0]).all()


def test_a_graph_without_ops_has_no_times() -> None:
    assert modelled_seconds(graph_of(flop=[], moved=[]), read_cluster("2xCPU")).shape == (0, 2)


def test_no_op_has_lines_of_python_run_for_each_device() -> None:
    cluster = read_cluster("8xV100+2xCPU")

    def lines(num_ops: int) -> int:
        graph = graph_of(
            flop=[1e9] * num_ops,
            moved=[1e6] * num_ops,
            classes=["conv", "elementwise"] * (num_ops // 2),
        )
        return lines_run(lambda: modelled_seconds(graph, cluster))

    lines(2)  # what the first call imports is no part of it
    assert lines(10_000) < 3 * 10_000  # its class is looked up; the rest is NumPy's
