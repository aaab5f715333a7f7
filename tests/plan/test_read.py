"""``plan.yaml`` is read back as it was written, and refused field by field."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import yaml

from dplace.errors import PlanError
from dplace.plan.read import read_plan
from dplace.plan.records import Plan, ValueType
from dplace.plan.write import write_plan_file
from tests.plan.test_validate import GOOD_0, GOOD_1, two_devices


@pytest.fixture
def plan() -> Plan:
    plain = two_devices(GOOD_0, GOOD_1)
    awkward = ValueType(name="a/b:0 é", type="tensor(float)", shape=(1, "n", None), size_bytes=4)
    return dataclasses.replace(
        plain,
        inputs=(*plain.inputs, awkward),
        best_single_device_s=float("inf"),
        dims={"p2o.Dim.0": 3, "1": 2},
        runtime={"onnxruntime": "1.0"},
    )


@pytest.fixture
def folder(plan: Plan, tmp_path: Path) -> Path:
    write_plan_file(plan, tmp_path)
    return tmp_path


def change(folder: Path, edit: Any) -> None:
    file = folder / "plan.yaml"
    fields = yaml.safe_load(file.read_text(encoding="utf-8"))
    edit(fields)
    file.write_text(yaml.safe_dump(fields), encoding="utf-8")


def test_what_is_written_is_what_is_read(plan: Plan, folder: Path) -> None:
    assert read_plan(folder, verify=False) == plan


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (lambda f: f.pop("format_version"), "format version None, this dplace reads 2"),
        (lambda f: f.update(format_version=99), "format version 99"),
        (lambda f: f.pop("parts"), "the field 'parts' is missing"),
        (lambda f: f.update(optimise="native"), "unknown field 'optimise'; did you mean optimize?"),
        (lambda f: f.update(optimize="fast"), "expected one of native, portable, none, got 'fast'"),
        (lambda f: f.update(makespan_s="soon"), "makespan_s: expected float, got 'soon'"),
        (lambda f: f.update(parts={}), "parts: expected a list"),
        (lambda f: f["parts"][0].update(digest=3), "parts[0]: digest: expected str, got 3"),
        (
            lambda f: f["devices"][0]["program"].append({"jump": "a"}),
            "expected run, send or receive",
        ),
        (lambda f: f["devices"][0]["program"].append({"send": "v"}), "send needs 'to'"),
        (lambda f: f["inputs"][0].update(shape=[1.5]), "is of no type that belongs here"),
        (lambda f: f["inputs"][0].update(shape=[True]), "is of no type that belongs here"),
    ],
)
def test_a_broken_field_is_named(folder: Path, edit: Any, words: str) -> None:
    change(folder, edit)
    with pytest.raises(PlanError) as caught:
        read_plan(folder, verify=False)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_part_that_is_not_there_is_named(folder: Path) -> None:
    with pytest.raises(PlanError, match=r"parts/a\.onnx is missing"):
        read_plan(folder)


@pytest.mark.parametrize("text", ["{", "- 1", "", "a: !!python/object:os.system {}", "\x00"])
def test_what_is_no_plan_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "plan.yaml").write_text(text)
    with pytest.raises(PlanError):
        read_plan(tmp_path)


def test_a_folder_without_a_plan_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="holds no plan"):
        read_plan(tmp_path)
    with pytest.raises(PlanError, match="there is none"):
        read_plan(tmp_path / "nowhere")
    (tmp_path / "file").touch()
    with pytest.raises(PlanError, match="got a file"):
        read_plan(tmp_path / "file")
