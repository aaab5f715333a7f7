"""Measuring ops: what the profiler adds is taken out, and real runs on small models."""

import itertools
import time
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import onnx
import pytest

from dplace.errors import ModelError
from dplace.graph_io.optimise import OptimizeMode, optimise
from dplace.graph_io.read import read_model
from dplace.profiles import device_kind, measure
from dplace.profiles.measure import (
    LEAST_RUNS,
    WARMUP,
    Effort,
    RunLog,
    net_seconds,
)
from dplace.profiles.ort_profile import NodeEvents, read_node_events
from dplace.profiles.probe import SpeedProbe, num_undisturbed, undisturbed
from dplace.profiles.profiling import profile_model
from dplace.profiles.store import ModelProfile
from dplace.profiles.timing import SETTLE_RUNS, SETTLE_S, quickest, settle, spread
from dplace.runtime.values import Held, Value, hold
from tests.graph_io.models import parse

LOOP = """g (float[64,64] x, bool go) => (float[64,64] y) {
    times = Constant<value = int64 {20}>()
    y = Loop (times, go, x) <body = b (int64 i, bool c, float[64,64] s)
        => (bool c1, float[64,64] s1) { c1 = Identity(c)  s1 = Sin(s) }>
    }"""
GO = {"go": np.array(True)}
"""Drawn, it may be False, and nothing goes round."""
QUICK = Effort(relative_error=0.5, min_runs=4, limit_s=2.0)


def test_the_profiler_s_part_is_the_same_for_each_node() -> None:
    measured = np.array([10e-6, 20e-6, 30e-6])
    net = net_seconds(measured, np.zeros(3), 8e-6, 54e-6)
    assert net.tolist() == pytest.approx([8e-6, 18e-6, 28e-6])


def test_each_inner_event_costs_its_node_the_whole_of_it() -> None:
    measured = np.array([100e-6, 50e-6])
    net = net_seconds(measured, np.array([5.0, 0.0]), 8e-6, 106e-6)
    assert net.tolist() == pytest.approx([58e-6, 48e-6])


def test_the_sum_is_right_even_if_the_machine_was_slower_under_the_profiler() -> None:
    net = net_seconds(np.array([200e-6, 400e-6]), np.zeros(2), 1e-6, 300e-6)
    assert net.sum() == pytest.approx(300e-6)
    assert net[1] / net[0] == pytest.approx(2, rel=0.02)


def test_no_node_takes_less_than_nothing() -> None:
    net = net_seconds(np.array([1e-6, 500e-6]), np.zeros(2), 5e-6, 497e-6)
    assert net.min() > 0
    assert net.sum() == pytest.approx(497e-6)


def test_the_slower_half_does_not_count() -> None:
    assert quickest(np.array([5.0, 1.0, 9.0, 2.0])).tolist() == [1, 3]
    middle, error = spread(np.array([1.0, 1.0, 1.0, 50.0, 60.0]))
    assert (middle, error) == (1.0, 0.0)


def test_disturbed_runs_are_left_out_if_there_are_others() -> None:
    probes = np.array([[1.0, 1.0]] * 10 + [[1.0, 1.5]] * 20)
    assert undisturbed(probes).tolist() == list(range(10))
    assert len(undisturbed(probes[5:])) == 8
    assert undisturbed(np.zeros((0, 2))).tolist() == []


def test_runs_that_waited_for_their_core_are_left_out_if_there_are_others() -> None:
    probes, waited = np.ones((30, 2)), np.zeros(30)
    waited[10:] = 0.3
    assert undisturbed(probes, waited).tolist() == list(range(10))
    assert num_undisturbed(probes, waited) == 10


@pytest.mark.parametrize(
    ("shares", "kept", "was_disturbed"),
    [
        ([0.0] * 4, 4, False),
        ([0.5, 0.0, 0.5, 0.5], 4, True),
        ([0.0] * 20 + [0.5] * 20, 20, False),
        ([0.0] * 7 + [0.5] * 20, 8, True),
    ],
)
def test_a_log_tells_whether_the_core_was_its_own(
    monkeypatch: pytest.MonkeyPatch, shares: list[float], kept: int, was_disturbed: bool
) -> None:
    waits = iter(np.cumsum([0.0, *shares]).tolist())
    seconds = itertools.count()
    monkeypatch.setattr(measure, "waited_s", lambda: next(waits))
    monkeypatch.setattr(time, "perf_counter", lambda: float(next(seconds)))
    monkeypatch.setattr(SpeedProbe, "take", lambda _: 4e-5)
    log = RunLog()
    for _ in shares:
        log.plain_s.append(1e-3)
        log.take_probe()
    assert len(log.kept()) == kept
    assert log.was_disturbed == was_disturbed


def test_only_timed_runs_under_the_profiler_count() -> None:
    log = RunLog()
    for _ in range(2):
        log.traced_before += 4
        log.add_traced(1e-3)
    # The first runs warm up, and four before each come to rest.
    assert log.traced_runs == [WARMUP + 4, WARMUP + 9]


def test_a_session_comes_to_rest_after_a_few_runs_or_some_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = iter(np.arange(0.0, 1.0, SETTLE_S / 8))
    monkeypatch.setattr(time, "perf_counter", lambda: float(next(clock)))
    assert settle(lambda: None) == SETTLE_RUNS
    assert settle(lambda: [next(clock) for _ in range(9)]) == 1


def profiled(
    model: onnx.ModelProto,
    folder: Path,
    mode: OptimizeMode = "native",
    dims: dict[str, int] | None = None,
    inputs: dict[str, Value] | None = None,
    effort: Effort = QUICK,
) -> ModelProfile:
    """Return a profile of a model, quickly."""
    from dplace.graph_io.build import build_op_graph
    from dplace.graph_io.fusion import fused_groups
    from dplace.graph_io.observe import observe

    source = read_model(model)
    optimised = optimise(source, mode=mode, opt_level="all", scratch=folder)
    groups = fused_groups(optimised, folder) if mode == "portable" else ()
    placeable = build_op_graph(optimised.model, observe(optimised.model, dims or {}), groups)
    found, _ = profile_model(
        placeable,
        optimised,
        kind=device_kind("CPU"),
        dims=dims or {},
        folder=folder,
        inputs=inputs,
        effort=effort,
    )
    return found


def test_a_quick_profile_of_a_real_run(tmp_path: Path) -> None:
    found = profiled(
        parse(
            "g (float[64,256] x) => (float[64,64] y) { a = MatMul(x, w)  b = Sin(a)  "
            "c = Cos(b)  d = MatMul(c, w)  y = Gemm(d, v) }",
            w=(256, 256),
            v=(256, 64),
        ),
        tmp_path,
    )
    counts = {op.op_type: op.ops for op in found.ops}
    assert counts == {"MatMul": 2, "Sin": 1, "Cos": 1, "Gemm": 1}
    total_s = sum(op.seconds * op.ops for op in found.ops)
    assert 0 < total_s < found.call_s
    assert total_s == pytest.approx(found.call_s, abs=100e-6)
    times = {op.op_type: op.seconds for op in found.ops}
    assert times["MatMul"] > times["Gemm"]  # four times the work
    assert not [path for path in tmp_path.iterdir() if path.name.startswith("profile")]


def test_dynamic_sizes_are_those_asked_for(tmp_path: Path) -> None:
    model = parse("g (float[N,8] x) => (float[N,8] y) { y = Sin(x) }")
    found = profiled(model, tmp_path, dims={"N": 32})
    assert found.ops[0].inputs == ("float[32,8]",)
    assert dict(found.dims) == {"N": 32}


def test_a_fused_node_counts_for_the_op_that_keeps_its_members_whole(tmp_path: Path) -> None:
    model = parse(
        "g (float[1,3,16,16] x) => (float[1,8,16,16] y) "
        "{ a = Conv<pads=[1,1,1,1]>(x, w)  b = Relu(a)  y = Sin(b) }",
        w=(8, 3, 3, 3),
    )
    found = profiled(model, tmp_path, "portable")
    assert [op.op_type for op in found.ops] == ["Conv+Relu", "Sin"]
    assert all(op.seconds > 0 for op in found.ops)


def test_the_time_of_a_body_is_its_loop_s_and_counts_once(tmp_path: Path) -> None:
    found = profiled(parse(LOOP), tmp_path, inputs=GO)
    loop = next(op for op in found.ops if op.op_type == "Loop")
    assert len(found.ops) == 1
    assert loop.seconds == pytest.approx(found.call_s, abs=100e-6)


def test_events_of_bodies_count_for_how_often_a_model_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[int] = []

    def events(path: Path, names: Mapping[str, object]) -> dict[str, NodeEvents]:
        nodes = read_node_events(path, names)
        found.append(sum(len(node.seconds) + int(node.inner.sum()) for node in nodes.values()))
        return nodes

    monkeypatch.setattr(measure, "read_node_events", events)
    monkeypatch.setattr(measure, "MAX_EVENTS", 2000)
    effort = Effort(relative_error=0.0, limit_s=60.0)
    profiled(parse(LOOP), tmp_path, inputs=GO, effort=effort)
    # One Loop around twenty times two nodes.
    assert found[0] == 41
    assert 41 * LEAST_RUNS < found[1] <= 2000 + 41 * WARMUP
    assert not [path for path in tmp_path.iterdir() if path.suffix == ".json"]


def test_a_copy_that_an_input_needs_lives_as_long_as_the_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copies: list[weakref.ref[object]] = []
    lived: list[bool] = []

    def noted(value: Value) -> tuple[Held, object]:
        held, owner = hold(value)
        copies.append(weakref.ref(owner))
        return held, owner

    def settled(call: Callable[[], object]) -> int:
        lived.append(all(copy() is not None for copy in copies))
        return settle(call)

    monkeypatch.setattr(measure, "hold", noted)
    monkeypatch.setattr(measure, "settle", settled)
    rows = np.arange(16).reshape(8, 2)[:, 0]  # with gaps, which onnxruntime cannot read
    model = parse("g (float[16] x, int64[8] i) => (float[8] y) { y = Gather(x, i) }")
    profiled(model, tmp_path, inputs={"i": rows})
    assert copies
    assert lived
    assert all(lived)


def test_a_fault_of_measuring_is_not_said_to_be_the_model_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: RunLog) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(RunLog, "take_probe", fail)
    with pytest.raises(ZeroDivisionError):
        profiled(parse("g (float[4] x) => (float[4] y) { y = Sin(x) }"), tmp_path)


def test_a_model_that_does_not_run_is_named_as_the_fault(tmp_path: Path) -> None:
    model = parse(
        """g (float[4] x, int64[1] at) => (float[1] y) {
            far = Constant<value = int64 {100}>()
            index = Add(at, far)
            y = Gather(x, index)
        }"""
    )
    with pytest.raises(ModelError, match="the model does not run on these inputs: "):
        profiled(model, tmp_path)
