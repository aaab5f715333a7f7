"""``dplace run``: options in, the report out, and an exit code."""

import atexit
import io
import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from dplace.errors import DeviceLostError
from dplace.runtime.check import OutputDifference, Tolerance
from dplace.runtime.gaps import Both, DeviceGap, Gaps, PartGap
from dplace.runtime.measure import Measurement
from dplace.runtime.placed_session import DeviceUsage
from dplace.runtime.ranks.launch import Launch
from dplace.runtime.report import RunReport
from dplace.runtime.spread import Iteration
from tests.commands.conftest import Dplace, Record, Result
from tests.report.plans import plan


def ran(**changes: Any) -> RunReport:
    """Return a report of runs that took 11, 20 and 12 ms, where cpu:1 waits 3 ms at the end."""
    fields: dict[str, Any] = {
        "folder": Path("out/plan"),
        "plan": plan(),
        "measurement": Measurement(
            latencies_s=(0.011, 0.020, 0.012),
            devices=(
                DeviceUsage(name="cpu:0", parts=1, calls=1, busy_s=0.009),
                DeviceUsage(name="cpu:1", parts=1, calls=1, busy_s=0.006),
            ),
            outputs=(),
            iterations=tuple(
                Iteration(
                    start_s=1.0,
                    end_s=1.0 + latency_s,
                    busy_s=(0.009, 0.006),
                    done_s=(latency_s - 0.001, latency_s - 0.004),
                )
                for latency_s in (0.011, 0.020, 0.012)
            ),
        ),
        "drawn": ("x",),
        "checked": None,
        "differences": (),
        "saved": None,
    }
    return RunReport(**(fields | changes))


def far_off(name: str = "y", difference: float = 0.5) -> OutputDifference:
    return OutputDifference(
        name=name,
        max_abs_diff=difference,
        max_rel_diff=0.1,
        tolerance=Tolerance(atol=1e-4),
        is_within=difference <= 1e-4,
    )


def test_the_table_goes_to_standard_output(dplace: Dplace, record: Record) -> None:
    run = record("run", ran(warnings=("not saved: m",)))
    result = dplace("run", "out/plan")
    assert result.code == 0
    assert result.out.splitlines() == [
        "Took 12.00 ms, predicted 10.00 ms",
        "",
        "Device  Kind  Parts      Busy  Predicted  of the time             Idle",
        "cpu:0   CPU       1  9.000 ms   8.000 ms         75 %  5.333 ms (37 %)",
        "cpu:1   CPU       1  6.000 ms   6.000 ms         50 %  8.333 ms (58 %)",
        "",
        "Done after        min    median       p90       max  deviation     waits",
        "cpu:0       10.000 ms  11.00 ms  17.40 ms  19.00 ms       30 %  0.000 ms",
        "cpu:1        7.000 ms  8.000 ms  14.40 ms  16.00 ms       39 %  3.000 ms",
        "",
        "Model       towers.onnx",
        "Latency     min 11.00 ms, median 12.00 ms, p90 18.40 ms over 3 runs",
        "Spread      max 20.00 ms, standard deviation 28 % of the mean",
        "Stragglers  a device waits at the end for 22 % of a run, at most 27 %",
        "Drawn       x",
    ]
    assert result.err == "dplace: warning: not saved: m\n"
    assert run.calls == [
        (
            (Path("out/plan"),),
            {
                "inputs": None,
                "dims": {},
                "repeat": 10,
                "warmup": 2,
                "check": None,
                "atol": None,
                "rtol": None,
                "save_outputs": None,
                "trace": None,
                "seed": 0,
                "allow_cpu": False,
            },
        )
    ]


def test_every_option_reaches_the_library(dplace: Dplace, record: Record) -> None:
    run = record("run", ran())
    arguments = (
        "--inputs x.npz --dim batch=8 --repeat 3 --warmup 0 --check m.onnx --atol 0.1 --rtol 0.2 "
        "--save-outputs y.npz --trace t.json --seed 7 --allow-cpu"
    )
    assert dplace("run", "p", *arguments.split()).code == 0
    assert run.calls[0][1] == {
        "inputs": Path("x.npz"),
        "dims": {"batch": 8},
        "repeat": 3,
        "warmup": 0,
        "check": Path("m.onnx"),
        "atol": 0.1,
        "rtol": 0.2,
        "save_outputs": Path("y.npz"),
        "trace": Path("t.json"),
        "seed": 7,
        "allow_cpu": True,
    }


def test_json_has_the_figures(dplace: Dplace, record: Record) -> None:
    record("run", ran(checked="m.onnx", differences=(far_off(difference=0.0),)))
    answer = json.loads(dplace("run", "out/plan", "--json").out)
    assert answer["latency_s"] == {
        "min": 0.011,
        "median": 0.012,
        "p90": pytest.approx(0.0184),
        "max": 0.020,
        "relative_deviation": pytest.approx(0.281, abs=1e-3),
    }
    assert answer["straggler_effect"]["max"] == pytest.approx(3 / 11)
    assert answer["predicted_makespan_s"] == 0.010
    assert answer["max_abs_diff"] == 0
    device = answer["devices"][1]
    assert (device["name"], device["parts"], device["calls"]) == ("cpu:1", 1, 1)
    assert (device["busy_s"], device["waits_s"]) == (0.006, pytest.approx(0.003))
    assert device["idle_s"] == pytest.approx(0.025 / 3)
    assert device["done_s"]["min"] == pytest.approx(0.007)
    assert answer["trace"] is None


def test_a_traced_run_says_where_the_time_went(dplace: Dplace, record: Record) -> None:
    part = PartGap(
        name="cpu-0-000", device="cpu:0", total=Both(0.004, 0.009), call=Both(0.001, 0.002)
    )
    device = DeviceGap(
        name="cpu:0",
        compute=Both(0.003, 0.007),
        calls=Both(0.001, 0.002),
        request=Both(0.001, 0.0005),
        waiting=Both(0.005, 0.0025),
    )
    record("run", ran(trace=Path("t.json"), gaps=Gaps(parts=(part,), devices=(device,))))
    lines = dplace("run", "out/plan").out.splitlines()
    start = lines.index("Furthest part  Device  Predicted      Took  Ratio  of it calls")
    assert lines[start + 1 : start + 5] == [
        "cpu-0-000      cpu:0    4.000 ms  9.000 ms  2.25x     2.000 ms",
        "",
        "Over prediction    Compute      Calls    Request    Waiting   Together",
        "cpu:0            +4.000 ms  +1.000 ms  -0.500 ms  -2.500 ms  +2.000 ms",
    ]
    assert lines[-1] == "Trace       t.json: run 3 of 3, the median, beside its prediction"
    answer = json.loads(dplace("run", "out/plan", "--json").out)["trace"]
    assert (answer["file"], answer["run"], answer["latency_s"]) == ("t.json", 2, 0.012)
    assert answer["furthest"][0]["ratio"] == pytest.approx(2.25)
    assert answer["devices"][0]["waiting_s"] == {"predicted": 0.005, "measured": 0.0025}


def test_outputs_that_are_too_far_off_end_in_exit_code_1(dplace: Dplace, record: Record) -> None:
    differences = (far_off("y", 0.5), far_off("z", 1e-5), far_off("w", 0.25))
    record("run", ran(checked="m.onnx", differences=differences))
    result = dplace("run", "out/plan")
    assert result.code == 1
    assert result.err == (
        'dplace: error: output "y" differs from that of m.onnx by 0.5, allowed is 0.0001 '
        "(2 outputs differ)\n"
    )
    assert result.out.splitlines()[10:14] == [
        "Output  max abs diff  max rel diff  allowed",
        "y                0.5           0.1   0.0001  too far",
        "z              1e-05           0.1   0.0001  ok",
        "w               0.25           0.1   0.0001  too far",
    ]
    assert dplace("run", "out/plan", "--json").code == 1


LAUNCHED = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "29500"}


@pytest.fixture
def left(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the codes that a process would be ended with when the interpreter goes away."""
    codes: list[int] = []

    def register(_: object, code: int) -> None:
        codes.append(code)

    monkeypatch.setattr(atexit, "register", register)
    return codes


def test_a_rank_that_is_not_the_first_prints_nothing(
    dplace: Dplace, record: Record, monkeypatch: pytest.MonkeyPatch, left: list[int]
) -> None:
    for name, text in LAUNCHED.items():
        monkeypatch.setenv(name, text)
    run = record("run_ranks", None)
    result = dplace("run", "out/plan", "--timeout", "7", "--check", "-", "--seed", "3")
    assert result == Result(code=0, out="", err="")
    ((arguments, options),) = run.calls
    assert arguments == (
        Path("out/plan"),
        Launch(rank=1, size=2, address="10.0.0.1", port=29500),
    )
    assert (options["timeout_s"], options["seed"]) == (7.0, 3)
    assert left == [0]


def test_rank_0_prints_the_report_and_its_exit_code_counts(
    dplace: Dplace, record: Record, monkeypatch: pytest.MonkeyPatch, left: list[int]
) -> None:
    for name, text in {**LAUNCHED, "RANK": "0"}.items():
        monkeypatch.setenv(name, text)
    record("run_ranks", ran(checked="m.onnx", differences=(far_off(),)))
    result = dplace("run", "out/plan", "--json")
    assert result.code == 1
    assert json.loads(result.out)["is_within"] is False
    assert left == [1]


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (DeviceLostError("lost rank 1"), 4, "dplace: error: lost rank 1\n"),
        (KeyboardInterrupt(), 130, "dplace: interrupted\n"),
        (SystemExit(143), 143, ""),
    ],
)
def test_what_ends_the_ranks_ends_the_process(
    error: BaseException,
    code: int,
    said: str,
    dplace: Dplace,
    record: Record,
    api: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    left: list[int],
) -> None:
    def run_ranks(*_: object, **__: object) -> None:
        raise error

    record("run_ranks", None)
    api.run_ranks = run_ranks  # type: ignore[attr-defined]  # the module is made for this test
    for name, text in LAUNCHED.items():
        monkeypatch.setenv(name, text)
    assert dplace("run", "out/plan") == Result(code=code, out="", err=said)
    assert left == [code]


def test_the_lines_for_each_host_are_printed_and_nothing_runs(
    dplace: Dplace, record: Record
) -> None:
    lines = record("launch_lines", ["torchrun a", "torchrun b"])
    result = dplace("run", "out/plan", "--hosts", "--repeat", "3")
    assert result.code == 0
    assert result.out == "torchrun a\ntorchrun b\n"
    assert result.err == (
        "dplace: one line for each host, in the order of the plan's devices; HOST0 stands for an "
        "address of the first host that all others reach\n"
    )
    assert lines.calls == [((Path("out/plan"), ["run", "out/plan", "--repeat", "3"]), {})]
    record("launch_lines", ["torchrun a"])
    assert dplace("run", "out/plan", "--hosts") == Result(code=0, out="torchrun a\n", err="")


def test_a_model_is_read_from_standard_input(
    dplace: Dplace, record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = record("run", ran())
    stdin = SimpleNamespace(buffer=io.BytesIO(b"model"), isatty=lambda: False)
    monkeypatch.setattr(sys, "stdin", stdin)
    assert dplace("run", "p", "--check", "-").code == 0
    assert run.calls[0][1]["check"] == b"model"
