"""Real ranks: processes, gloo between them; rank 0 is this process or one as well."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from dplace.errors import DeviceLostError, DplaceError, InputError
from dplace.plan.records import Plan
from dplace.runtime.events import RunEvent
from dplace.runtime.placed_session import PlacedSession
from dplace.runtime.ranks.session import RankSession
from tests.runtime.plans import FLOAT, given, graph, make_plan, node, node_model
from tests.runtime.ranks.processes import (
    ended,
    errors,
    free_port,
    launches,
    on_rank_0,
    ranks,
    wait_for_store,
    written,
)

TYPES = [
    *("FLOAT16", "BFLOAT16", "DOUBLE", "FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2"),
    *("FLOAT8E5M2FNUZ", "INT4", "UINT4", "INT2", "UINT2", "INT8", "UINT8", "INT16", "UINT16"),
    *("INT32", "UINT32", "INT64", "UINT64", "BOOL", "STRING"),
]
FLOATS = helper.make_sequence_type_proto(helper.make_tensor_type_proto(FLOAT, None))
OPTIONAL = helper.make_optional_type_proto(helper.make_tensor_type_proto(FLOAT, None))
X = np.array([[1, 0, 1], [0, 1, 1]], dtype=np.float32)
LARGE = np.arange(3_000_000, dtype=np.float32)  # crosses in three pieces


def kind(name: str) -> int:
    return int(getattr(TensorProto, name))


def many_types(folder: Path) -> Plan:
    """cpu:1 casts x to every type, cpu:2 casts all back; sequences and optionals go there too."""
    casts = [node("Cast", ["x"], [f"y_{name}"], to=kind(name)) for name in TYPES]
    casts_back = [node("Cast", [f"y_{name}"], [f"z_{name}"], to=FLOAT) for name in TYPES]
    typed = [given(f"y_{name}", kind(name)) for name in TYPES]
    back = [given(f"z_{name}") for name in TYPES]
    weight = helper.make_tensor("w", FLOAT, [1], [2.0])
    parts: dict[str, tuple[str, onnx.ModelProto]] = {
        "scale": ("cpu:0", node_model("Neg", ["x"], ["n"], shape=None)),
        "casts": ("cpu:1", graph(casts, [given("x")], typed, opset=25)),
        "back": ("cpu:2", graph(casts_back, typed, back, opset=25)),
        "pack": (
            "cpu:1",
            graph(
                [node("SequenceConstruct", ["x", "n"], ["s"])],
                [given("x"), given("n")],
                [given("s", FLOATS)],
            ),
        ),
        "join": (
            "cpu:2",
            graph(
                [node("ConcatFromSequence", ["s"], ["j"], axis=0)],
                [given("s", FLOATS)],
                [given("j")],
            ),
        ),
        "ask": (
            "cpu:2",
            graph(
                [node("OptionalHasElement", ["o"], ["has"])],
                [given("o", OPTIONAL)],
                [given("has", TensorProto.BOOL, [])],
            ),
        ),
        "times": (
            "cpu:1",
            graph(
                [node("Mul", ["x", "w"], ["t"])], [given("x"), given("w")], [given("t")], [weight]
            ),
        ),
        "reshape": (
            "cpu:1",
            graph(
                [node("Reshape", ["x", "shape"], ["r"])],
                [given("x"), given("shape", TensorProto.INT64)],
                [given("r")],
            ),
        ),
    }
    return make_plan(
        folder,
        parts,
        {
            "cpu:0": ["run scale", "send n cpu:1"],
            "cpu:1": [
                "run casts",
                *(f"send y_{name} cpu:2" for name in TYPES),
                "receive n cpu:0",
                "run pack",
                "send s cpu:2",
                "run times",
                "run reshape",
            ],
            "cpu:2": [
                *(f"receive y_{name} cpu:1" for name in TYPES),
                "run back",
                "receive s cpu:1",
                "run join",
                "run ask",
            ],
        },
        inputs=[given("x"), given("o", OPTIONAL), given("shape", TensorProto.INT64)],
        outputs=[
            *typed,
            *back,
            given("s", FLOATS),
            given("j"),
            given("has", TensorProto.BOOL, []),
            given("t"),
            given("r"),
            given("x"),
        ],
        overridable=[given("w")],
        passthrough=[("x", "x")],
    )


def assert_same(found: Any, expected: Any) -> None:
    """Compare what two sessions return, to the last bit."""
    assert type(found) is type(expected)
    if isinstance(expected, list):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_same(one, other)
    elif isinstance(expected, np.ndarray):
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
        if expected.dtype == object:
            np.testing.assert_array_equal(found, expected)
        else:
            assert found.tobytes() == expected.tobytes()
    else:
        assert found == expected


def test_ranks_return_what_one_process_does_until_one_is_killed(tmp_path: Path) -> None:
    plan = many_types(tmp_path)
    written(plan, tmp_path)
    launched = launches(3)
    requests: list[tuple[list[str] | None, dict[str, Any]]] = [
        (None, {"x": X, "o": X, "shape": np.array([3, 2])}),
        (None, {"x": X, "o": X, "shape": np.array([3, 2])}),
        (None, {"x": X[:1], "o": None, "shape": np.array([1] * 9 + [-1])}),
        (["t"], {"x": LARGE, "shape": np.array([6])}),
        (None, {"x": X[:, :0], "shape": np.array([2, 0])}),
        (["t", "x", "t"], {"x": X, "shape": np.array([6]), "w": np.array([3.0], np.float32)}),
        (["x"], {"x": X, "shape": np.array([6])}),
    ]
    with PlacedSession(plan, folder=tmp_path) as session:
        expected = [session.run(names, feeds) for names, feeds in requests]
    cores = os.sched_getaffinity(0)
    with ranks([tmp_path] * 2, launched[1:], "--timeout", "20") as processes:
        killed_s = 0.0

        def work(session: RankSession) -> None:
            nonlocal killed_s
            assert [value.name for value in session.get_inputs()] == ["x", "o", "shape"]
            session.start_recording()
            for (names, feeds), outputs in zip(requests, expected, strict=True):
                assert_same(session.run(names, feeds), outputs)
            check_events(session.stop_recording(), len(requests))
            with pytest.raises(InputError, match='output "q": the model has no such output'):
                session.run(["q"], {"x": X, "shape": np.array([6])})
            assert [use.calls for use in session.usage()] == [4, 4 * 4 + 2, 3 * 4]
            processes[1].send_signal(signal.SIGKILL)
            killed_s = time.perf_counter()
            while True:  # until it is noticed, in the middle of whatever request that is
                session.run(None, requests[0][1])

        with pytest.raises(DeviceLostError, match=r"^lost rank 2 \(cpu:2\): its connection broke$"):
            on_rank_0(launched[0], tmp_path, work)
        assert time.perf_counter() - killed_s < 10
        other = ended(processes[0])
        assert (other.code, other.out) == (4, "")
        assert errors(other) == ["dplace: error: lost rank 2 (cpu:2): its connection broke"]
    assert os.sched_getaffinity(0) == cores


def check_events(events: list[RunEvent], requests: int) -> None:
    """Look at what was recorded: each send meets its receive, by one clock."""
    assert {event.request for event in events} == set(range(requests - 1))
    assert [event.start_s for event in events] == sorted(event.start_s for event in events)
    runs = [event for event in events if event.kind == "run" and event.request == 0]
    assert sorted(event.subject for event in runs) == sorted(
        ["scale", "casts", "back", "pack", "join", "ask", "times", "reshape"]
    )
    sends: dict[tuple[object, ...], RunEvent] = {
        (event.request, event.subject, event.device, event.peer): event
        for event in events
        if event.kind == "send"
    }
    receives: dict[tuple[object, ...], RunEvent] = {
        (event.request, event.subject, event.peer, event.device): event
        for event in events
        if event.kind == "receive"
    }
    assert len(sends) + len(receives) + sum(event.kind == "run" for event in events) == len(events)
    assert sends.keys() == receives.keys()
    assert len(sends) > 4 * len(TYPES)
    for key, sent in sends.items():
        assert receives[key].size_bytes == sent.size_bytes
        # All clocks are one here, so it is what measuring the offsets is off by.
        assert receives[key].end_s > sent.start_s - 0.05
    assert sends[3, "x", "cpu:0", "cpu:1"].size_bytes == LARGE.nbytes


def test_a_part_that_fails_ends_all_ranks_with_its_message(tmp_path: Path) -> None:
    two = helper.make_tensor("two", TensorProto.INT64, [1], [2])
    pair = graph([node("Reshape", ["x", "two"], ["y"])], [given("x")], [given("y")], [two])
    plan = make_plan(
        tmp_path,
        {"pair": ("cpu:1", pair)},
        {"cpu:0": [], "cpu:1": ["run pair"]},
        inputs=[given("x")],
        outputs=[given("y")],
    )
    written(plan, tmp_path)
    launched = launches(2)

    def work(session: RankSession) -> None:
        assert session.run(None, {"x": X[0, :2]})[0].tolist() == [1, 0]
        session.run(None, {"x": X[0]})

    with ranks([tmp_path], launched[1:]) as (process,):
        with pytest.raises(DplaceError, match=r"^part pair on cpu:1: .*requested shape:\{2\}$"):
            on_rank_0(launched[0], tmp_path, work)
        other = ended(process)
    assert other.code == 1
    # What onnxruntime writes itself comes before it.
    assert other.err.splitlines()[-1].startswith("dplace: error: part pair on cpu:1: ")
    assert "Traceback" not in other.err


def test_a_stopped_rank_0_ends_the_others_within_the_timeout(
    there_and_back: Plan, tmp_path: Path
) -> None:
    folder, launched = written(there_and_back, tmp_path), launches(2)
    with ExitStack() as stack:
        # One after the other: on a busy machine a start may take longer than the others wait.
        (first,) = stack.enter_context(ranks([folder], launched[:1], "--repeat", "1000000"))
        wait_for_store(launched[0])
        (other,) = stack.enter_context(ranks([folder], launched[1:], "--timeout", "4"))
        assert other.stderr is not None
        assert other.stderr.readline() == "dplace: info: rank 1 (cpu:1) is ready\n"
        first.send_signal(signal.SIGSTOP)
        stopped_s = time.perf_counter()
        end = ended(other)
        assert 3.0 < time.perf_counter() - stopped_s < 15
        assert (end.code, end.out) == (4, "")
        (line,) = errors(end)
        assert line.startswith("dplace: error: lost rank 0 (cpu:0): ")
        first.send_signal(signal.SIGCONT)
        end = ended(first)  # it finds the other one gone
        assert end.code == 4
        assert errors(end) == ["dplace: error: lost rank 1 (cpu:1): its connection broke"]


def test_torchrun_runs_a_plan_and_rank_0_reports(there_and_back: Plan, tmp_path: Path) -> None:
    folder = str(written(there_and_back, tmp_path))
    whole = graph(
        [node("Relu", ["x"], ["y"]), node("Neg", ["y"], ["z"]), node("Exp", ["z"], ["w"])],
        [given("x", shape=["N"])],
        [given("w", shape=["N"]), given("y", shape=["N"])],
    )
    onnx.save(whole, tmp_path / "whole.onnx")
    x = np.array([1.0, -2.0, 0.5], dtype=np.float32)
    np.savez(tmp_path / "x.npz", x=x)
    options = "--check whole.onnx --inputs x.npz --save-outputs y.npz --repeat 3 --json"
    done = subprocess.run(
        [
            *(sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"),
            *("--master-port", str(free_port()), "-m", "dplace", "run", folder, *options.split()),
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert (report["checked"], report["max_abs_diff"], report["runs"]) == ("whole.onnx", 0, 3)
    assert [device["calls"] for device in report["devices"]] == [2, 1]
    assert all(device["busy_s"] > 0 for device in report["devices"])
    with np.load(tmp_path / "y.npz") as saved:
        np.testing.assert_array_equal(saved["y"], np.maximum(x, 0))
