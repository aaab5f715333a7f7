"""``dplace compare``: several models and policies in, one row for each pair out."""

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest

from dplace import api
from dplace.errors import UsageError
from dplace.policies import POLICIES
from dplace.report.comparison import ComparedModel, Comparison, PolicyRow
from tests.command_line import run_here, start
from tests.commands.conftest import Dplace, Record
from tests.graph_io.cost_graphs.files import diamond, doppler, excel, moirai_rows, pipedream, text
from tests.zoo import SITUATIONS

Capture = pytest.CaptureFixture[str]

NATIVE = ("--machine", "native")


def compared(**changes: Any) -> Comparison:
    """Return two policies and two seeds on one graph, and a model that cannot be read."""
    rows = (
        PolicyRow(
            policy="heft",
            makespans_s=(0.010, 0.010),
            transfers=12,
            transfer_bytes=4_100_000,
            peak_bytes=6_500_000,
            evaluations=0,
            seconds=0.004,
        ),
        PolicyRow(
            policy="search",
            makespans_s=(0.009, 0.008),
            transfers=3,
            peak_bytes=9_000,
            evaluations=120,
            seconds=1.25,
        ),
        PolicyRow(policy="single", error="gpu:0: 3 GB are missing", exit_code=3),
    )
    good = ComparedModel(
        model="graphs/towers.xls",
        format="moirai",
        machine="moirai",
        cluster="4 devices of the file",
        num_ops=141,
        unit="file units",
        bound_s=0.004,
        bound_argument="path",
        best_single_device_s=0.016,
        rows=rows,
        warnings=("memory looks like bits",),
    )
    bad = ComparedModel(model="bad.onnx", error="bad.onnx: not an ONNX model", exit_code=1)
    made: dict[str, Any] = {"objective": "latency", "seeds": 2, "models": (good, bad)}
    return Comparison(**(made | changes))


def test_defaults(dplace: Dplace, record: Record) -> None:
    calls = record("compare", compared(models=())).calls
    assert dplace("compare", "a.onnx", "b.onnx", "--cluster", "2xCPU").code == 0
    (positional, keywords) = calls[0]
    assert positional == (["a.onnx", "b.onnx"],)
    assert keywords == {
        "cluster": "2xCPU",
        "policies": ["single", "heft", "m-etf", "auto"],
        "objective": "latency",
        "machine": None,
        "format": None,
        "evaluations": None,
        "seeds": 1,
        "comm_order": "best",
        "dims": {},
        "pins": (),
        "optimize": "auto",
        "opt_level": "all",
        "profiles": (),
        "jobs": None,
        "progress": None,
    }


def test_every_option_arrives(dplace: Dplace, record: Record) -> None:
    calls = record("compare", compared(models=())).calls
    dplace(
        *("compare", "a", "--cluster", "file", "--policies", "heft, auto,", "--seeds", "3"),
        *("--objective", "throughput", "--machine", "baechi", "--format", "doppler"),
        *("--evaluations", "9", "--dim", "n=2", "--pin", "x=gpu:0", "--jobs", "4", "--json"),
        *("--optimize", "none", "--opt-level", "basic", "--profile", "a.json"),
        *("--comm-order", "all"),
    )
    assert calls[0][1] == {
        "cluster": "file",
        "policies": ["heft", "auto"],
        "objective": "throughput",
        "machine": "baechi",
        "format": "doppler",
        "evaluations": 9,
        "seeds": 3,
        "comm_order": "all",
        "dims": {"n": 2},
        "pins": (("x", "gpu:0"),),
        "optimize": "none",
        "opt_level": "basic",
        "profiles": [Path("a.json")],
        "jobs": 4,
        "progress": None,
    }


def test_table(dplace: Dplace, record: Record) -> None:
    record("compare", compared())
    result = dplace("compare", "a", "b", "--cluster", "file")
    assert result.code == 1
    assert (
        result.out
        == """\
graphs/towers.xls
141 ops (moirai) on 4 devices of the file
latency by moirai, in file units: one device 16, bound 4
Policy  Best  Mean     Gap  Speed  Sent  Bytes   Peak  Evals     s
heft      10    10  150.0%  1.60x    12  4.1MB  6.5MB      0  0.00
search     8   8.5  100.0%  2.00x     3      -  9.0kB    120   1.2
single     -     -       -      -     -      -      -      -     -
single: gpu:0: 3 GB are missing

bad.onnx
failed: bad.onnx: not an ONNX model
"""
    )
    assert result.err == (
        "dplace: warning: memory looks like bits\ndplace: error: bad.onnx: not an ONNX model\n"
    )


def test_csv_and_json_have_the_same_rows(dplace: Dplace, record: Record) -> None:
    record("compare", compared())
    answer = json.loads(dplace("compare", "a", "b", "--cluster", "file", "--json").out)
    assert {key: answer[key] for key in ("objective", "seeds", "warnings")} == {
        "objective": "latency",
        "seeds": 2,
        "warnings": ["memory looks like bits"],
    }
    rows = answer["rows"]
    assert [(row["model"], row["policy"]) for row in rows] == [
        ("graphs/towers.xls", "heft"),
        ("graphs/towers.xls", "search"),
        ("graphs/towers.xls", "single"),
        ("bad.onnx", None),
    ]
    assert rows[1] == {
        "model": "graphs/towers.xls",
        "format": "moirai",
        "ops": 141,
        "cluster": "4 devices of the file",
        "machine": "moirai",
        "objective": "latency",
        "unit": "file units",
        "unit_s": 1e-3,
        "policy": "search",
        "comm_order": "fifo",
        "makespan": 8.0,
        "makespan_s": 0.008,
        "mean_makespan_s": 0.0085,
        "bound_s": 0.004,
        "bound_argument": "path",
        "gap_to_bound": 1.0,
        "best_single_device_s": 0.016,
        "speed_up": 2.0,
        "throughput_per_s": 125.0,
        "straggler_effect": 0.0,
        "transfers": 3,
        "transfer_bytes": 0,
        "peak_bytes": 9000,
        "evaluations": 120,
        "seconds": 1.25,
        "error": None,
    }
    table = list(
        csv.DictReader(io.StringIO(dplace("compare", "a", "--cluster", "file", "--csv").out))
    )
    assert len(table) == 4
    assert [row["error"] for row in table] == [row["error"] or "" for row in rows]
    for shown, row in zip(table, rows, strict=True):
        assert list(shown) == list(row)
        assert shown["makespan"] == ("" if row["makespan"] is None else str(row["makespan"]))


@pytest.mark.parametrize(
    ("codes", "expected"), [((), 0), ((1,), 1), ((3,), 3), ((3, 3), 3), ((1, 3), 1), ((2,), 2)]
)
def test_the_exit_code_says_why_models_have_no_placement(
    codes: tuple[int, ...], expected: int
) -> None:
    good = PolicyRow(policy="heft", makespans_s=(1.0,))
    models = [ComparedModel(model="good", rows=(good, PolicyRow(policy="p", error="e")))]
    models += [ComparedModel(model="bad", error="no", exit_code=code) for code in codes]
    assert compared(models=tuple(models)).exit_code == expected
    models = [
        ComparedModel(model="bad", rows=(PolicyRow(policy="p", error="e", exit_code=code),))
        for code in codes
    ]
    assert compared(models=tuple(models)).exit_code == expected


@pytest.fixture
def graphs(tmp_path: Path) -> list[Path]:
    """Return the same small graph in four formats."""
    contents = {
        "a.json": text(diamond()).encode(),
        "b.txt": pipedream().encode(),
        "c.txt": doppler().encode(),
        "d.xls": excel(moirai_rows()),
    }
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    return [tmp_path / name for name in contents]


def test_models_and_graphs_side_by_side(graphs: list[Path], tmp_path: Path) -> None:
    model = tmp_path / "model.onnx"
    model.write_bytes(SITUATIONS["if_reads_two_outer_values"]().model.SerializeToString())
    comparison = api.compare(
        [graphs[0], model, tmp_path / "none.onnx", graphs[1]],
        cluster="2xV100",
        policies=["single", "heft", "single"],
        machine="native",
        evaluations=50,
        seeds=2,
    )
    assert [compared.model for compared in comparison.models] == [
        str(path) for path in (graphs[0], model, tmp_path / "none.onnx", graphs[1])
    ]
    assert [compared.format for compared in comparison.models] == [
        "dnn-partitioning",
        "onnx",
        "onnx",
        "pipedream",
    ]
    assert comparison.models[2].error is not None
    assert "there is no such file" in comparison.models[2].error
    assert comparison.exit_code == 1
    for compared in (comparison.models[0], comparison.models[3]):
        single, heft = compared.rows
        assert (single.policy, heft.policy) == ("single", "heft")
        assert single.makespans_s == pytest.approx((0.010, 0.010))
        assert compared.best_single_device_s == pytest.approx(0.010)
        assert heft.best_s >= compared.bound_s
        assert single.peak_bytes >= 1000


def test_the_same_seeds_give_the_same_rows_in_any_process(graphs: list[Path]) -> None:
    def rows(models: list[Path], **options: Any) -> list[dict[str, object]]:
        comparison = api.compare(
            models,
            cluster="2xV100",
            policies=["random", "auto"],
            machine="native",
            evaluations=60,
            seeds=3,
            **options,
        )
        return [{**row, "seconds": None} for row in comparison.rows()]

    together = rows(graphs[:3], jobs=2)
    alone = [row for graph in graphs[:3] for row in rows([graph])]
    assert together == alone
    assert together[0]["mean_makespan_s"] != together[0]["makespan_s"]


def test_progress_counts_every_decision(graphs: list[Path]) -> None:
    seen: list[tuple[int, int, str]] = []
    api.compare(
        graphs[:2],
        cluster="2xV100",
        policies=["single", "heft"],
        machine="native",
        seeds=2,
        progress=lambda done, total, doing: seen.append((done, total, doing)),
    )
    assert [done for done, _, _ in seen] == list(range(8))
    assert {total for _, total, _ in seen} == {8}
    assert {doing for _, _, doing in seen} == {
        f"{name} {policy}" for name in ("a.json", "b.txt") for policy in ("single", "heft")
    }


def test_a_policy_that_finds_nothing_is_a_row_and_no_failure(tmp_path: Path) -> None:
    ops = [{"id": n, "seconds": 0.001, "memory_bytes": 600} for n in range(2)]
    graph = tmp_path / "wide.json"
    graph.write_text(text({"format": "dplace-cost-graph", "version": 1, "ops": ops}))
    comparison = api.compare(
        [graph], cluster="2xV100-1KB", policies=["single", "m-etf"], machine="native"
    )
    single, etf = comparison.models[0].rows
    assert single.error is not None
    assert etf.best_s == pytest.approx(0.001)
    assert comparison.models[0].best_single_device_s == float("inf")
    assert comparison.exit_code == 0
    row = list(comparison.rows())[1]
    assert (row["best_single_device_s"], row["speed_up"]) == (None, None)


def test_all_is_every_policy(graphs: list[Path]) -> None:
    comparison = api.compare(
        graphs[:1], cluster="2xV100", policies=["all"], machine="native", evaluations=40
    )
    assert [row.policy for row in comparison.models[0].rows] == sorted(POLICIES)


def test_wrong_usage(graphs: list[Path]) -> None:
    for options, words in (
        ({"policies": ["hft"]}, "--policies: no policy 'hft'; there are auto"),
        ({"policies": []}, "expected at least one policy"),
        ({"seeds": 0}, "--seeds 0: expected at least 1"),
        ({"machine": "theirs"}, "--machine theirs: expected one of"),
        ({"objective": "beauty"}, "--objective beauty: expected one of"),
    ):
        with pytest.raises(UsageError, match=words):
            api.compare(graphs, cluster="2xV100", **options)
    with pytest.raises(UsageError, match="expected at least one model"):
        api.compare([], cluster="2xV100")
    with pytest.raises(UsageError, match="cannot stand beside others"):
        api.compare(["-", graphs[0]], cluster="2xV100")


def test_the_command_shows_all_that_works_and_ends_with_1(
    graphs: list[Path], capfd: Capture
) -> None:
    broken = graphs[2]
    broken.write_text(doppler()[:30])
    ended = run_here(
        capfd,
        *("compare", graphs[0], "nothing.onnx", graphs[1], broken, "--cluster", "2xV100"),
        *(*NATIVE, "--policies", "single,heft"),
    )
    assert ended.code == 1
    assert len(re.findall("^single +10 ", ended.out, re.MULTILINE)) == 2
    assert len(re.findall("^failed:( |$)", ended.out, re.MULTILINE)) == 2  # a long path is wrapped
    lines = ended.err.splitlines()
    assert lines[0] == "dplace: error: nothing.onnx: there is no such file"
    assert re.match(f"dplace: error: {broken}: line 3 has 4 sources .* may be truncated", lines[1])
    assert len(lines) == 2
    assert max(map(len, ended.out.splitlines())) <= 80


def test_a_graph_comes_from_standard_input(graphs: list[Path]) -> None:
    done = start(
        *("compare", "-", "--cluster", "file", *NATIVE, "--policies", "single", "--csv"),
        given=graphs[0].read_bytes(),
    )
    assert (done.code, done.err) == (0, "")
    (row,) = csv.DictReader(io.StringIO(done.out))
    assert float(row["makespan"]) > 0


def test_json_and_csv_do_not_go_together(dplace: Dplace, record: Record) -> None:
    record("compare", compared())
    result = dplace("compare", "a", "--cluster", "file", "--json", "--csv")
    assert (result.code, result.out) == (2, "")
