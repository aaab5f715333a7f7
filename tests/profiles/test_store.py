"""Stored measurements: written, read, refused, and where they lie."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from dplace.errors import InputError
from dplace.profiles.store import (
    ProfileFile,
    Setting,
    data_folder,
    default_path,
    read_profile,
    stored_profiles,
    write_profile,
)
from tests.profiles.measured import links, model_profile, op_time


def test_what_is_written_is_read(tmp_path: Path) -> None:
    content = ProfileFile(models=(model_profile(op_time(), dims={"N": 4}),), links=(links(),))
    write_profile(content, tmp_path / "a.json")
    assert read_profile(tmp_path / "a.json") == content


def test_writing_leaves_nothing_else_behind(tmp_path: Path) -> None:
    write_profile(ProfileFile(), tmp_path / "deep" / "a.json")
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["a.json"]


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"file/a\.json: the profile cannot be written"):
        write_profile(ProfileFile(), tmp_path / "file" / "a.json")


def test_the_data_folder_is_the_user_s_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DPLACE_HOME", "/here")
    monkeypatch.setenv("XDG_DATA_HOME", "/there")
    monkeypatch.setenv("HOME", "/home/me")
    assert data_folder() == Path("/here/profiles")
    monkeypatch.delenv("DPLACE_HOME")
    assert data_folder() == Path("/there/dplace/profiles")
    monkeypatch.delenv("XDG_DATA_HOME")
    assert data_folder() == Path("/home/me/.local/share/dplace/profiles")


def test_each_model_level_and_size_has_a_file_of_its_own() -> None:
    variants: list[dict[str, Any]] = [
        {},
        {"opt_level": "basic"},
        {"optimize": "portable"},
        {"dims": {"batch": 8}},
        {"dims": {"batch" * 20: 8}},
        {"dims": {"batch" * 20: 16}},
        {"model_digest": "sha256:99"},
    ]
    paths = {default_path(model_profile(**changes)) for changes in variants}
    assert len(paths) == len(variants)
    assert all(path.parent == data_folder() for path in paths)
    assert all(len(path.name) < 200 for path in paths)


def test_a_name_from_a_model_cannot_leave_the_folder() -> None:
    path = default_path(model_profile(model="../../etc/pass wd.onnx", dims={"a/b": 1}))
    assert path.parent == data_folder()
    assert path.name == "CPU.pass-wd-00ff-a-b1.native-all.json"


def test_only_files_of_the_kinds_asked_for_are_listed_newest_first() -> None:
    for name, kind, age in (("a", "CPU", 20), ("b", "V100", 30), ("c", "CPU", 10)):
        made = model_profile(model=name)
        made = dataclasses.replace(made, setting=dataclasses.replace(made.setting, device=kind))
        write_profile(ProfileFile(models=(made,)), default_path(made))
        import os

        os.utime(default_path(made), (1e9 - age, 1e9 - age))
    assert [path.name[:6] for path in stored_profiles(["CPU"])] == ["CPU.c-", "CPU.a-"]
    assert len(stored_profiles(["CPU", "V100"])) == 3
    assert stored_profiles(["T4"]) == []


def test_a_file_that_is_cut_short_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_profile(ProfileFile(models=(model_profile(op_time()),)), path)
    path.write_text(path.read_text()[:-30])
    with pytest.raises(InputError, match=r"a\.json: the profile is cut short or no JSON") as caught:
        read_profile(path)
    assert "make it anew with dplace profile" in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([{"name": "n0_kernel_time"}], "is a trace, as onnxruntime's profiler writes it"),
        ({"traceEvents": []}, "is a trace"),
        ({}, "expected a file that dplace profile wrote"),
        ("text", "expected a file that dplace profile wrote"),
        ({"format": "dplace-profile"}, "is of format version None"),
        ({"format": "dplace-profile", "version": 1}, "version 1, and this dplace reads 2"),
        ({"format": "dplace-profile", "version": 2}, "models: expected a list, got None"),
        (
            {"format": "dplace-profile", "version": 2, "models": [3], "links": []},
            "models: expected an object, got 3",
        ),
        (
            {"format": "dplace-profile", "version": 2, "models": [{}], "links": []},
            r"models\.dims: is missing",
        ),
    ],
)
def test_what_is_no_profile_is_refused_by_name(
    tmp_path: Path, content: object, message: str
) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps(content))
    with pytest.raises(InputError, match=message) as caught:
        read_profile(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("content", ["[" * 100_000, '{"a":' * 100_000, "9" * 5000, "\xff"])
def test_what_json_cannot_be_read_from_is_refused_by_name(tmp_path: Path, content: str) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(content.encode("latin-1"))
    with pytest.raises(InputError, match=r"a\.json: the profile is cut short or no JSON"):
        read_profile(path)


def test_names_that_are_no_text_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_profile(ProfileFile(models=(model_profile(op_time()),)), path)
    content = json.loads(path.read_text())
    content["models"][0]["ops"][0]["inputs"] = ["float[4]", None]
    path.write_text(json.dumps(content))
    with pytest.raises(InputError, match=r"ops\.inputs: expected texts, got \['float\[4\]', None"):
        read_profile(path)


@pytest.mark.parametrize(
    "value", ["fast", -1, None, True, float("nan"), float("inf"), 1e19, 10**400, 10**4000]
)
def test_a_time_that_is_none_is_refused(tmp_path: Path, value: object) -> None:
    path = tmp_path / "a.json"
    write_profile(ProfileFile(models=(model_profile(op_time()),)), path)
    content = json.loads(path.read_text())
    content["models"][0]["ops"][0]["seconds"] = value
    path.write_text(json.dumps(content))
    with pytest.raises(InputError, match=r"ops\.seconds: expected a number of at least 0"):
        read_profile(path)


@pytest.mark.parametrize("rate", [0.0, 5e-324])
def test_a_bandwidth_of_nothing_is_refused(tmp_path: Path, rate: float) -> None:
    path = tmp_path / "a.json"
    write_profile(ProfileFile(links=(links(bytes_per_s=rate),)), path)
    with pytest.raises(InputError, match=r"links\.bytes_per_s: expected a number above 0"):
        read_profile(path)


def test_hand_overs_without_costs_of_calls_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_profile(ProfileFile(links=(links(),)), path)
    content = json.loads(path.read_text())
    del content["links"][0]["calls"]
    path.write_text(json.dumps(content))
    with pytest.raises(InputError, match=r"a\.json: calls: expected a list, got None"):
        read_profile(path)


def test_differences_are_said_in_words() -> None:
    made = Setting(device="CPU", onnxruntime="1.20", provider="p", cpu="x86_64", processor="A")
    here = dataclasses.replace(made, onnxruntime="1.31", processor="B")
    assert made.differences(here) == ["onnxruntime is 1.31, not 1.20", "the processor is B, not A"]
    assert made.differences(dataclasses.replace(made, cpu="x86_64 avx")) == [
        "the CPU's vector instructions are others"
    ]
    assert made.differences(made) == []
