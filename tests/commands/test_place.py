"""``dplace place``: options in, one call, an answer out."""

import json
import re
from pathlib import Path
from types import ModuleType
from typing import get_args

import pytest

from dplace.commands.options import Policy
from dplace.graph_io.cost_graphs import FORMATS
from dplace.policies import POLICIES
from dplace.problem import Machine
from tests.commands.conftest import Dplace, Record
from tests.report.plans import graph_placed, placed, plan

Calls = list[tuple[tuple[object, ...], dict[str, object]]]


@pytest.fixture
def calls(record: Record) -> Calls:
    """Return the calls that the command makes."""
    return record("place", placed()).calls


def test_defaults(dplace: Dplace, calls: Calls) -> None:
    assert dplace("place", "m.onnx", "--cluster", "2xCPU").code == 0
    expected: dict[str, object] = {
        "cluster": "2xCPU",
        "out": None,
        "policy": "auto",
        "objective": "latency",
        "evaluations": None,
        "seed": 0,
        "comm_order": "best",
        "dims": {},
        "pins": (),
        "optimize": "auto",
        "opt_level": "all",
        "format": None,
        "machine": None,
        "profiles": (),
        "weights": "auto",
        "weight_home": "host",
        "progress": None,
    }
    assert calls == [(("m.onnx",), expected)]


def test_every_option_arrives(dplace: Dplace, calls: Calls) -> None:
    dplace(
        *("place", "-", "--cluster", "4xV100@nvlink", "-o", "out", "--policy", "heft"),
        *("--objective", "throughput", "--evaluations", "50", "--seed", "7"),
        *("--dim", "batch=8", "--dim", "a=b=2", "--pin", "x*=gpu:1", "--pin", "y=gpu:0"),
        *("--optimize", "portable", "--opt-level", "basic", "--json"),
        *("--format", "moirai", "--machine", "baechi"),
        *("--profile", "a.json", "--profile", "b.json", "--comm-order", "tac"),
        *("--weights", "stream", "--weight-home", "gpu:1"),
    )
    expected: dict[str, object] = {
        "cluster": "4xV100@nvlink",
        "out": Path("out"),
        "policy": "heft",
        "objective": "throughput",
        "evaluations": 50,
        "seed": 7,
        "comm_order": "tac",
        "dims": {"batch": 8, "a=b": 2},
        "pins": (("x*", "gpu:1"), ("y", "gpu:0")),
        "optimize": "portable",
        "opt_level": "basic",
        "format": "moirai",
        "machine": "baechi",
        "profiles": [Path("a.json"), Path("b.json")],
        "weights": "stream",
        "weight_home": "gpu:1",
        "progress": None,
    }
    assert calls == [(("-",), expected)]


def test_the_table_goes_to_standard_output_and_warnings_to_the_other(
    dplace: Dplace, calls: Calls
) -> None:
    result = dplace("place", "m.onnx", "--cluster", "2xCPU")
    assert (
        result.out
        == """\
Predicted 10.00 ms, 1.60x as fast as one device, 25.0 % above the bound

Device  Kind  Ops  Weights  Peak memory      Busy  of the time
cpu:0   CPU     3   4.0 MB       6.5 MB  8.000 ms         80 %
cpu:1   CPU     2    900 B       6.5 MB  6.000 ms         60 %

Model       towers.onnx (optimized: native, all)
Dimensions  batch=8
Cluster     2xCPU
One device  the best takes 16.00 ms
Bound       no placement takes less than 8.000 ms, by work
Transfers   1, 4.1 kB in all
Order       tac, for fifo gives 10.50 ms, tac 10.00 ms
Parts       2
Times       25 % measured, 75 % modelled
Policy      auto after 120 evaluations; single 16.00 ms, heft 11.20 ms
Plan        out/plan
Next        dplace run out/plan
"""
    )
    assert result.err == "dplace: warning: batch is taken as 1\n"


def test_json(dplace: Dplace, calls: Calls) -> None:
    result = dplace("-v", "place", "m.onnx", "--cluster", "2xCPU", "--json")
    answer = json.loads(result.out)
    assert answer.pop("devices") == [
        {
            "name": name,
            "kind": "CPU",
            "ops": ops,
            "weight_bytes": weights,
            "peak_bytes": 6_500_000,
            "busy_s": busy_s,
            "streamed_bytes": 0,
            "buffer_bytes": 0,
        }
        for name, ops, weights, busy_s in (("cpu:0", 3, 4_000_000, 0.008), ("cpu:1", 2, 900, 0.006))
    ]
    assert answer == {
        "model": "towers.onnx",
        "cluster": "2xCPU",
        "objective": "latency",
        "policy": "auto",
        "optimize": "native",
        "opt_level": "all",
        "exact": True,
        "dims": {"batch": 8},
        "makespan_s": 0.010,
        "bottleneck_s": 0.008,
        "bound_s": 0.008,
        "bound_argument": "work",
        "gap_to_bound": 0.25,
        "best_single_device_s": 0.016,
        "transfers": {"count": 1, "bytes": 4096},
        "streamed": {"count": 0, "bytes": 0, "homes": []},
        "comm_order": "tac",
        "comm_orders": {"fifo": 0.0105, "tac": 0.010},
        "parts": 2,
        "scores": {"single": 0.016, "heft": 0.0112},
        "evaluations": 120,
        "measured_share": 0.25,
        "warnings": ["batch is taken as 1"],
        "plan": "out/plan",
    }
    assert result.err == "dplace: warning: batch is taken as 1\n"


def test_json_has_null_for_what_does_not_exist(dplace: Dplace, api: ModuleType) -> None:
    answer = placed(
        out=None,
        plan=plan(best_single_device_s=float("inf"), bound_s=0.0),
        scores={"single": float("inf")},
    )
    api.place = lambda *_, **__: answer  # type: ignore[attr-defined]
    shown = json.loads(dplace("place", "m.onnx", "--cluster", "2xCPU", "--json").out)
    assert shown["plan"] is None
    assert shown["best_single_device_s"] is None
    assert shown["gap_to_bound"] is None
    assert shown["scores"] == {"single": None}


def test_the_answer_for_a_cost_graph_is_printed_in_its_unit(dplace: Dplace, record: Record) -> None:
    record("place", graph_placed())
    result = dplace("place", "g.json", "--cluster", "file")
    assert (
        result.out
        == """\
Predicted 17.7154 file units, 2.00x one device, 25.0 % above the bound

Device  Kind  Ops  Weights  Peak memory  Busy  of the time
cpu:0   CPU     3   4.0 MB       6.5 MB     8         45 %
cpu:1   CPU     2    900 B       6.5 MB     6         34 %

Graph       towers (moirai)
Cluster     2 devices of the file
Judged by   moirai, latency
Times in    file units; one is taken as 1 ms
One device  the best takes 35.4308
Bound       no placement takes less than 14.1723, by forks
Transfers   3
Policy      auto after 120 evaluations; single 35.4308, heft 18.5
Answer      out/answer
"""
    )
    assert result.err == "dplace: warning: memory looks like bits\n"


def test_json_of_a_cost_graph(dplace: Dplace, record: Record) -> None:
    record("place", graph_placed(transfer_bytes=64))
    answer = json.loads(dplace("place", "g.json", "--cluster", "file", "--json").out)
    assert len(answer.pop("devices")) == 2
    assert answer.pop("makespan") == pytest.approx(17.7154)
    assert answer.pop("gap_to_bound") == pytest.approx(0.25)
    assert answer == {
        "model": "towers",
        "format": "moirai",
        "machine": "moirai",
        "cluster": "2 devices of the file",
        "objective": "latency",
        "policy": "auto",
        "unit": "file units",
        "unit_s": 1e-3,
        "makespan_s": 0.0177154,
        "bound_s": 0.01417232,
        "bound_argument": "forks",
        "best_single_device_s": 0.0354308,
        "transfers": {"count": 3, "bytes": 64},
        "comm_order": "fifo",
        "comm_orders": {},
        "scores": {"single": 0.0354308, "heft": 0.0185},
        "evaluations": 120,
        "warnings": ["memory looks like bits"],
        "answer": "out/answer",
    }


def test_help_names_every_format_and_machine(dplace: Dplace) -> None:
    words = re.findall(r"[\w-]+", dplace("place", "--help").out)
    assert set(FORMATS) <= set(words)
    assert set(get_args(Machine)) <= set(words)


def test_help_names_every_policy() -> None:
    option = get_args(Policy)[1]
    assert set(POLICIES) <= set(re.findall(r"[\w-]+", option.help))
