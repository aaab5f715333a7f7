"""``dplace simulate``: a folder in, a prediction out."""

import json
from pathlib import Path

import pytest

from tests.commands.conftest import Dplace, Record
from tests.report.plans import graph_placed, simulated


def test_the_table_goes_to_standard_output(dplace: Dplace, record: Record) -> None:
    simulate = record("simulate", simulated(warnings=("made by another version",)))
    result = dplace("simulate", "out/plan")
    assert result.code == 0
    nothing = dict.fromkeys(("placement", "cluster", "format", "machine"))
    assert simulate.calls == [((Path("out/plan"),), {**nothing, "objective": "latency"})]
    assert result.out.startswith("Predicted 10.00 ms, 1.60x as fast as one device")
    assert result.err == "dplace: warning: made by another version\n"


def test_json_has_both_predictions(dplace: Dplace, record: Record) -> None:
    record("simulate", simulated(makespan_s=0.012))
    answer = json.loads(dplace("simulate", "out/plan", "--json").out)
    assert answer["makespan_s"] == 0.012
    assert answer["planned_makespan_s"] == 0.010
    assert answer["gap_to_bound"] == pytest.approx(0.5)
    assert answer["plan"] == "out/plan"
    assert [device["name"] for device in answer["devices"]] == ["cpu:0", "cpu:1"]


def test_a_placement_of_a_cost_graph(dplace: Dplace, record: Record) -> None:
    simulate = record("simulate", graph_placed(policy="given", out=None, warnings=()))
    result = dplace(
        *("simulate", "g.json", "--placement", "p.json", "--cluster", "file"),
        *("--objective", "throughput", "--format", "dplace", "--machine", "native"),
    )
    expected: dict[str, object] = {
        "placement": Path("p.json"),
        "cluster": "file",
        "objective": "throughput",
        "format": "dplace",
        "machine": "native",
    }
    assert simulate.calls == [((Path("g.json"),), expected)]
    assert result.out.startswith("Predicted 17.7154 file units")
    assert result.out.endswith("Policy      a placement that was given\n")
