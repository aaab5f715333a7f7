import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from dplace.errors import InputError, ModelError
from dplace.plan.records import Plan
from dplace.plan.write import write_plan_file
from dplace.report.json_text import json_text
from dplace.report.run_table import run_table
from dplace.runtime.npz import read_npz
from dplace.runtime.report import RunReport, run_plan
from tests.runtime.fork import fork
from tests.runtime.plans import given, graph, make_plan, node, node_model

Write = Callable[..., Plan]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A plan for y = exp(-x), x[N, 2], on two devices, and the whole model beside it."""
    shape = ("N", 2)
    whole = graph(
        [node("Neg", ["x"], ["h"]), node("Exp", ["h"], ["y"])],
        [given("x", shape=shape)],
        [given("y", shape=shape)],
    )
    onnx.save(whole, tmp_path / "whole.onnx")
    folder = tmp_path / "plan"
    plan = make_plan(
        folder,
        {
            "neg": ("cpu:0", node_model("Neg", ["x"], ["h"], shape=shape)),
            "exp": ("cpu:1", node_model("Exp", ["h"], ["y"], shape=shape)),
        },
        {"cpu:0": ["run neg", "send h cpu:1"], "cpu:1": ["receive h cpu:0", "run exp"]},
        inputs=[given("x", shape=shape)],
        outputs=[given("y", shape=shape)],
    )
    write_plan_file(dataclasses.replace(plan, dims={"N": 3}), folder)
    return folder


def text_of(report: RunReport) -> str:
    from rich.console import Console

    console = Console(width=80, highlight=False)
    with console.capture() as capture:
        console.print(run_table(report))
    return capture.get()


def test_a_run_is_timed_and_checked(folder: Path) -> None:
    report = run_plan(folder, repeat=5, warmup=1, check=folder.parent / "whole.onnx")
    assert report.max_abs_diff == 0
    assert report.failure is None
    assert report.drawn == ("x",)
    answer: dict[str, Any] = json.loads(json_text(report.as_json()))
    latency = answer["latency_s"]
    assert 0 < latency["min"] <= latency["median"] <= latency["p90"]
    assert answer["predicted_makespan_s"] == 0.001
    assert answer["max_abs_diff"] == 0
    assert answer["is_within"] is True
    assert [device["name"] for device in answer["devices"]] == ["cpu:0", "cpu:1"]
    assert [device["calls"] for device in answer["devices"]] == [1, 1]
    assert all(0 < device["busy_s"] < latency["p90"] for device in answer["devices"])
    assert answer["outputs"][0]["name"] == "y"
    text = text_of(report)
    assert text.startswith("Took ")
    assert "equal to whole.onnx in one session, bit for bit" in text
    assert max(map(len, text.splitlines())) <= 80


def test_the_median_run_is_drawn_beside_its_prediction(tmp_path: Path) -> None:
    folder, file = tmp_path / "plan", tmp_path / "trace.json"
    plan = fork(folder)
    write_plan_file(plan, folder)
    report = run_plan(folder, repeat=5, warmup=1, trace=file)
    trace = json.loads(file.read_text())
    run = report.measurement.median_run
    assert report.measurement.latencies_s[run] == report.measurement.median_s
    assert trace["otherData"]["run"] == run
    assert trace["otherData"]["latency_s"] == report.measurement.median_s
    drawn = [one for one in trace["traceEvents"] if one["ph"] == "X"]
    for which, names in (("measured", ["a", "b", "c"]), ("predicted", ["a", "b", "c"])):
        assert [one["name"] for one in drawn if one["cat"] == f"part,{which}"] == names
    ends = [one["ts"] + one["dur"] for one in drawn if one["cat"] == "part,measured"]
    assert max(ends) <= report.measurement.median_s * 1e6
    answer = json.loads(json_text(report.as_json()))
    assert answer["trace"]["file"] == str(file)
    assert answer["trace"]["run"] == run
    assert [one["name"] for one in answer["trace"]["devices"]] == ["cpu:0", "cpu:1"]
    # All that is predicted is so much slower that the longest part is the furthest from it.
    assert answer["trace"]["furthest"][0]["part"] == "b"
    text = text_of(report)
    assert "Furthest part" in text
    assert f"run {run + 1} of 5, the median, beside its prediction" in text
    assert [path.name for path in tmp_path.iterdir() if path != folder] == [file.name]


def test_a_run_says_how_even_it_was(folder: Path) -> None:
    report = run_plan(folder, repeat=5, warmup=1)
    answer: dict[str, Any] = json.loads(json_text(report.as_json()))
    assert answer["trace"] is None
    latency = answer["latency_s"]
    assert latency["p90"] <= latency["max"]
    assert latency["relative_deviation"] >= 0
    first, second = answer["devices"]
    for device in (first, second):
        assert device["busy_s"] + device["idle_s"] == pytest.approx(
            sum(report.measurement.latencies_s) / 5
        )
        assert 0 < device["idle_share"] < 1
        assert device["done_s"]["max"] <= latency["max"]
    # What cpu:1 reads, cpu:0 makes, and that is all it does.
    assert first["waits_s"] > second["waits_s"] == 0
    assert 0 < answer["straggler_effect"]["mean"] <= answer["straggler_effect"]["max"] < 1
    text = text_of(report)
    assert "Spread" in text
    assert "Stragglers" in text


def test_a_trace_that_cannot_be_written_is_told_before_anything_runs(folder: Path) -> None:
    for path, message in (
        (folder, f"{folder}: it is a folder; --trace needs a file"),
        (folder / "no" / "t.json", "t.json: cannot be written: No such file or directory"),
        (folder / "plan.yaml" / "t.json", "t.json: cannot be written: Not a directory"),
    ):
        with pytest.raises(InputError, match=message):
            run_plan(folder / "no plan here", trace=path)
    before = sorted(folder.rglob("*"))
    with pytest.raises(InputError, match="--dim M"):
        run_plan(folder, dims={"M": 5}, trace=folder / "t.json")
    assert sorted(folder.rglob("*")) == before


def test_without_a_check_there_is_no_difference(folder: Path) -> None:
    answer = run_plan(folder, repeat=1, warmup=0).as_json()
    assert answer["max_abs_diff"] is None
    assert answer["is_within"] is None
    assert answer["outputs"] == []


def test_another_model_fails_the_check(folder: Path) -> None:
    other = node_model("Exp", ["x"], ["y"], shape=["N", 2])
    x = np.array([[0.0, 1.0]], dtype=np.float32)
    report = run_plan(folder, inputs={"x": x}, repeat=1, check=other.SerializeToString())
    assert report.max_abs_diff == pytest.approx(np.e - 1 / np.e)
    assert report.failure == ('output "y" differs from that of model.onnx by 2.35, allowed is 0')
    assert "too far" in text_of(report)
    lenient = run_plan(folder, inputs={"x": x}, repeat=1, check=other.SerializeToString(), rtol=0.9)
    assert lenient.failure is None
    assert "within what is allowed" in text_of(lenient)


def test_inputs_are_read_and_outputs_saved(folder: Path) -> None:
    x = np.array([[0.0, 1.0], [2.0, -3.0]], dtype=np.float32)
    np.savez(folder.parent / "x.npz", x=x)
    out = folder.parent / "y.npz"
    report = run_plan(folder, inputs=folder.parent / "x.npz", save_outputs=out, repeat=1)
    assert report.drawn == ()
    assert report.saved == out
    np.testing.assert_allclose(read_npz(out)["y"], np.exp(-x), rtol=1e-6)


def test_drawn_inputs_have_the_planned_size_or_the_given_one(folder: Path) -> None:
    for dims, rows in ((None, 3), ({"N": 5}, 5)):
        report = run_plan(folder, dims=dims, repeat=1, warmup=0)
        assert report.measurement.outputs[0].shape == (rows, 2)
    with pytest.raises(InputError, match="--dim M: no input has .* there are N"):
        run_plan(folder, dims={"M": 5})


def test_the_seed_decides_what_is_drawn(folder: Path) -> None:
    first, second, other = (
        run_plan(folder, seed=seed, repeat=1).measurement.outputs[0] for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(first, second)
    assert not np.array_equal(first, other)


def test_drawn_inputs_agree_with_given_ones_in_their_dimensions(tmp_path: Path) -> None:
    folder = tmp_path / "plan"
    shape = ("N", "S")
    plan = make_plan(
        folder,
        {"add": ("cpu:0", node_model("Add", ["a", "b"], ["y"], shape=shape))},
        {"cpu:0": ["run add"]},
        inputs=[given("a", shape=shape), given("b", shape=shape)],
        outputs=[given("y", shape=shape)],
    )
    write_plan_file(plan, folder)
    report = run_plan(folder, inputs={"a": np.zeros((4, 7), dtype=np.float32)}, repeat=1)
    assert report.measurement.outputs[0].shape == (4, 7)
    assert report.drawn == ("b",)


def test_a_sequence_is_read_from_its_elements(tmp_path: Path) -> None:
    folder = tmp_path / "plan"
    sequence = onnx.helper.make_sequence_type_proto(onnx.helper.make_tensor_type_proto(1, None))
    model = graph(
        [node("SequenceLength", ["s"], ["n"])],
        [given("s", sequence)],
        [given("n", TensorProto.INT64, [])],
    )
    plan = make_plan(
        folder,
        {"length": ("cpu:0", model)},
        {"cpu:0": ["run length"]},
        inputs=[given("s", sequence)],
        outputs=[given("n", TensorProto.INT64, [])],
    )
    write_plan_file(plan, folder)
    ones = np.ones(2, dtype=np.float32)
    report = run_plan(folder, inputs={"s[0]": ones, "s[1]": ones, "s[2]": ones}, repeat=1)
    assert report.measurement.outputs[0] == 3


def test_what_cannot_be_used_is_named_before_anything_runs(folder: Path) -> None:
    with pytest.raises(InputError, match='input "z": the model has no such input; it has "x"'):
        run_plan(folder, inputs={"z": np.zeros(1)})
    with pytest.raises(InputError, match="y.npz: there is no folder"):
        run_plan(folder, save_outputs=folder / "no/y.npz")
    with pytest.raises(InputError, match="none.onnx: there is no such model file"):
        run_plan(folder, check=folder / "none.onnx")


def test_a_whole_model_that_cannot_be_compared_is_named(folder: Path) -> None:
    for model, message in (
        (node_model("Exp", ["z"], ["y"]), 'it has no input "x", but the plan has'),
        (node_model("Exp", ["x"], ["z"]), 'it has no output "y", but the plan has'),
    ):
        onnx.save(model, folder.parent / "other.onnx")
        with pytest.raises(InputError, match=message):
            run_plan(folder, repeat=1, check=folder.parent / "other.onnx")
    (folder.parent / "broken.onnx").write_bytes(b"no model")
    with pytest.raises(ModelError, match="broken.onnx: onnxruntime refuses it"):
        run_plan(folder, repeat=1, check=folder.parent / "broken.onnx")
