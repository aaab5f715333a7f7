"""Cost graphs by the command line and by the library, from a file to an answer folder."""

import io
import json
import re
import sys
from pathlib import Path
from typing import get_args

import pytest

from dplace import api
from dplace.errors import InputError, MemoryLimitError, UsageError
from dplace.problem import Machine
from dplace.report.graph_answer import GraphAnswer
from tests.command_line import one_line, run_here
from tests.graph_io.cost_graphs.files import diamond, pipedream, text
from tests.zoo import SITUATIONS

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    """Return a file of a, b, c and d, which take 1, 2, 3 and 4 ms on an accelerator."""
    path = tmp_path / "graph.json"
    path.write_text(text(diamond()))
    return path


def test_place_writes_the_placement_and_simulate_reads_it(
    graph: Path, tmp_path: Path, capfd: Capture
) -> None:
    out = tmp_path / "answer"
    options = ("--cluster", "file", "--machine", "native")
    placed = run_here(capfd, "place", graph, *options, "-o", out, "--json")
    assert placed.code == 0
    answer = json.loads(placed.out)
    assert answer["format"] == "dnn-partitioning"
    assert answer["makespan"] == pytest.approx(answer["makespan_s"] * 1000)
    placement = json.loads((out / "placement.json").read_text())
    assert set(placement) == {"1", "2", "3", "4"}
    assert all(type(device) is int for device in placement.values())
    assert placement["2"] == placement["3"]  # of one colour
    assert json.loads((out / "timeline.json").read_text())["traceEvents"]
    assert sorted(file.name for file in out.iterdir()) == ["placement.json", "timeline.json"]
    for given in (out, out / "placement.json"):
        again = run_here(capfd, "simulate", graph, *options, "--placement", given, "--json")
        assert json.loads(again.out)["makespan_s"] == answer["makespan_s"]
    # An answer may be written over, and by a plan as well.
    assert run_here(capfd, "place", graph, *options, "-o", out).code == 0


def test_a_chain_on_one_device_takes_the_sum_of_its_times(graph: Path) -> None:
    graph.write_text(text(diamond(maxSizePerFPGA=2000)))  # 1000 for the ops, the rest for values
    answer = api.place(
        graph, cluster="file", machine="native", policy="single", format="dnn-partitioning"
    )
    assert isinstance(answer, GraphAnswer)
    assert answer.makespan_s == pytest.approx(0.010)
    assert answer.placement == {"1": 0, "2": 0, "3": 0, "4": 0}
    assert answer.devices[0].weight_bytes == 1000
    given = api.simulate(
        graph,
        placement=_written(graph.parent, {"1": 2, "2": 2, "3": 2, "4": 2}),
        cluster="file",
        machine="native",
    )
    assert given.makespan_s == pytest.approx(0.100)


def test_the_times_of_the_file_hold_on_a_named_cluster(graph: Path) -> None:
    answer = api.place(graph, cluster="3xV100", machine="native", policy="single")
    assert isinstance(answer, GraphAnswer)
    assert answer.makespan_s == pytest.approx(0.010)


def test_a_graph_comes_from_standard_input(
    graph: Path, capfd: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Piped:
        buffer = io.BufferedReader(io.BytesIO(graph.read_bytes()))

        def isatty(self) -> bool:
            return False

    monkeypatch.setattr(sys, "stdin", Piped())
    done = run_here(capfd, "place", "-", "--cluster", "file", "--machine", "native", "--json")
    assert json.loads(done.out)["model"] == "stdin"


def _written(folder: Path, placement: object) -> Path:
    path = folder / "given.json"
    path.write_text(json.dumps(placement))
    return path


@pytest.mark.parametrize(
    ("placement", "words"),
    [
        ({"1": 0, "2": 0, "3": 0}, "has no device for 4"),
        ({"1": 0, "2": 0, "3": 0, "4": 0, "5": 0}, "names ops that the graph has not: 5"),
        ({"1": 0, "2": 0, "3": 0, "4": "gpu:0"}, "op 4: expected a device index, got 'gpu:0'"),
        ({"1": 0, "2": 0, "3": 0, "4": True}, "op 4: expected a device index, got True"),
        ({"1": 0, "2": 0, "3": 0, "4": -1}, "op 4: expected a device index, got -1"),
        ({"1": 0, "2": 0, "3": 0, "4": 7}, "op '4' is on device 7"),
        ({"1": 0, "2": 0, "3": 1, "4": 0}, "must share a device"),
        ([0, 0, 0, 0], "expected an object with the device index of each op id"),
    ],
)
def test_a_placement_that_is_none_is_refused(graph: Path, placement: object, words: str) -> None:
    with pytest.raises(InputError, match=words):
        api.simulate(
            graph, placement=_written(graph.parent, placement), cluster="file", machine="native"
        )


def test_a_placement_that_cannot_be_read_is_refused(graph: Path) -> None:
    with pytest.raises(InputError, match="there is no such file"):
        api.simulate(graph, placement=graph.parent / "none", cluster="file")
    (graph.parent / "half").write_text('{"1": 0, ')
    with pytest.raises(InputError, match="not JSON, or truncated"):
        api.simulate(graph, placement=graph.parent / "half", cluster="file")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("simulate", "GRAPH"), "needs --placement FILE"),
        (("simulate", "GRAPH", "--placement", "p.json"), "needs --cluster"),
        (("simulate", "FOLDER", "--cluster", "2xCPU"), "--cluster is for cost graphs"),
        (("place", "TEXT", "--cluster", "file"), "describes no devices"),
        (("place", "GRAPH", "--cluster", "file", "--dim", "n=2"), "--dim: .* is a cost graph"),
        (("place", "GRAPH", "--cluster", "file", "--optimize", "none"), "--optimize: .* is a cost"),
    ],
)
def test_what_does_not_go_together_ends_with_2(
    graph: Path, capfd: Capture, arguments: tuple[str, ...], words: str
) -> None:
    (graph.parent / "profile.txt").write_text(pipedream())
    (graph.parent / "plan").mkdir()
    paths = {
        "GRAPH": graph,
        "TEXT": graph.parent / "profile.txt",
        "FOLDER": graph.parent / "plan",
    }
    ended = run_here(capfd, *(paths.get(argument, argument) for argument in arguments))
    assert ended.code == 2
    assert re.search(words, one_line(ended))


def test_an_answer_is_no_plan(graph: Path, capfd: Capture) -> None:
    out = graph.parent / "answer"
    run_here(capfd, "place", graph, "--cluster", "file", "--machine", "native", "-o", out)
    ended = run_here(capfd, "simulate", out)
    assert (ended.code, "holds a placement and no plan" in one_line(ended)) == (2, True)


def test_memory_that_nothing_fits_in_ends_with_3(graph: Path, capfd: Capture) -> None:
    graph.write_text(text(diamond(maxSizePerFPGA=50, maxCPUs=0)))
    ended = run_here(capfd, "place", graph, "--cluster", "file", "--machine", "native")
    assert (ended.code, ended.out) == (3, "")
    with pytest.raises(MemoryLimitError):
        api.place(graph, cluster="file", machine="native")


def test_unknown_names_are_refused_with_what_there_is(graph: Path) -> None:
    with pytest.raises(UsageError, match="--machine theirs: expected one of native, placeto"):
        api.place(graph, cluster="file", machine="theirs")
    with pytest.raises(UsageError, match="--objective beauty: expected one of latency, thr"):
        api.place(graph, cluster="file", objective="beauty")
    with pytest.raises(UsageError, match="--format jsn: expected one of dnn-partitioning"):
        api.place(graph, cluster="file", format="jsn")
    with pytest.raises(UsageError, match="--cluster file: only a cost graph describes devices"):
        api.place("model.onnx", cluster="file")


@pytest.mark.parametrize("machine", get_args(Machine))
def test_every_machine_judges_models_and_cost_graphs(
    machine: Machine, graph: Path, tmp_path: Path
) -> None:
    model = SITUATIONS["if_reads_two_outer_values"]().model
    if machine != "native":
        placed = api.place(model, cluster="2xV100", machine=machine, out=tmp_path / "answer")
        assert isinstance(placed, GraphAnswer)
        assert placed.machine == machine
        assert {file.name for file in (tmp_path / "answer").iterdir()} == {
            "placement.json",
            "timeline.json",
        }
    for given, expected in ((machine, machine), (None, "dnn-partitioning")):
        answer = api.place(graph, cluster="file", machine=given)
        assert isinstance(answer, GraphAnswer)
        assert answer.machine == expected


def test_a_transfer_takes_the_time_that_the_file_gives(graph: Path) -> None:
    graph.write_text(text(diamond(maxSizePerFPGA=2000)))
    answer = api.simulate(
        graph,
        placement=_written(graph.parent, {"1": 0, "2": 1, "3": 1, "4": 1}),
        cluster="file",
        machine="native",
    )
    assert answer.makespan_s == pytest.approx((1 + 0.5 + 2 + 3 + 4) * 1e-3)
    assert answer.transfers == 1
