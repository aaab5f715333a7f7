"""What ``dplace finetune`` refuses, each with one line and before any work."""

import json
import os
import sys
from pathlib import Path

import pytest

from dplace import api
from dplace.errors import UsageError
from tests.command_line import Ended, one_line, run_here
from tests.graph_io.cost_graphs.files import diamond, text

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    path = tmp_path / "graph.json"
    path.write_text(text(diamond()))
    return path


def refuse(ended: Ended, code: int, words: str) -> None:
    line = one_line(ended)
    assert ended.code == code, line
    assert words in line


def test_bad_policies_and_places_are_refused(
    graph: Path, tmp_path: Path, capfd: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    (empty := tmp_path / "pretrained").mkdir()
    monkeypatch.setattr("dplace.policies.learned.files", lambda _: empty)
    call = ("finetune", graph, "--cluster", "file", "--episodes", "4")
    foreign = tmp_path / "foreign.safetensors"
    foreign.write_bytes(b"no policy")
    full = tmp_path / "full"
    full.mkdir()
    (full / "notes.txt").write_text("mine")
    file = tmp_path / "file"
    file.write_text("")
    before = sorted(tmp_path.rglob("*"))
    new = tmp_path / "new"
    for options, words in (
        (("-o", foreign), "not a policy"),
        (("-o", foreign, "--overwrite"), "not a policy"),
        (("-o", full), "the folder exists and has no policy"),
        (("-o", file), "expected a folder or a name that ends in .safetensors"),
        (("-o", file / "new"), "is not a folder"),
        (("-o", new, "--from", foreign), "not a policy"),
        (("-o", new, "--from", full), "not a policy"),
        (("-o", new, "--from", tmp_path / "missing"), "not a policy"),
        (("-o", new, "--from", "placeto"), "no policy comes with"),
        (("-o", new, "--dim", "n=2"), "no model has such a dimension"),
    ):
        refuse(run_here(capfd, *call, *options), 1, words)
    refuse(run_here(capfd, *call, "-o", new, "--from", new), 2, "is -o as well")
    place = ("place", graph, "--cluster", "file", "--policy")
    refuse(run_here(capfd, *place, foreign), 1, "not a policy")
    refuse(run_here(capfd, *place, "placeto"), 1, "no policy comes with this version")
    assert sorted(tmp_path.rglob("*")) == before


def test_numbers_that_cannot_be_are_refused(graph: Path, tmp_path: Path, capfd: Capture) -> None:
    call = ("finetune", graph, "--cluster", "file", "-o", tmp_path / "mine")
    assert run_here(capfd, *call, "--episodes", "0").code == 2
    for options in ({"episodes": 0}, {"imitate": -1}, {"seed": -1}):
        with pytest.raises(UsageError, match="expected at least"):
            api.finetune([graph], cluster="file", out=tmp_path / "mine", **options)  # type: ignore[arg-type]
    for option, number in (("--seed", 2**64), ("--seed", 10**30)):
        ended = run_here(capfd, *call, option, str(number))
        refuse(ended, 2, f"{option} {number}: expected at most")
    with pytest.raises(UsageError, match="expected at least one model"):
        api.finetune([], cluster="file", out=tmp_path / "mine")
    assert not (tmp_path / "mine").exists()


def test_a_model_that_fits_nowhere_is_refused(tmp_path: Path, capfd: Capture) -> None:
    path = tmp_path / "heavy.json"
    path.write_text(text(diamond(maxCPUs=0, maxSizePerFPGA=100.0)))
    ended = run_here(capfd, "finetune", path, "--cluster", "file", "-o", tmp_path / "mine")
    refuse(ended, 3, "heavy.json")


def test_weights_that_a_machine_does_not_count_need_no_room(tmp_path: Path, capfd: Capture) -> None:
    path = tmp_path / "heavy.json"
    told = {
        "format": "dplace-cost-graph",
        "version": 1,
        "machine": "placeto",
        "ops": [{"id": name, "seconds": 0.001, "memory_bytes": 1000} for name in ("a", "b", "c")],
        "values": [{"from": "a", "to": "b", "bytes": 10}],
        "devices": [{"kind": "GPU", "memory_bytes": 100} for _ in range(2)],
        "links": {"latency_s": 0, "bytes_per_s": 1e9},
    }
    path.write_text(json.dumps(told))
    call = ("finetune", path, "--cluster", "file", "-o", tmp_path / "mine", "--episodes", "1")
    ended = run_here(capfd, *call)
    assert ended.code == 0, ended.err
    told["machine"] = "baechi"
    path.write_text(json.dumps(told))
    refuse(run_here(capfd, *call, "--overwrite"), 3, "heavy.json")


def test_a_folder_that_may_not_be_written_is_refused_before_any_work(
    graph: Path, tmp_path: Path, capfd: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    (closed := tmp_path / "closed").mkdir()
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK or Path(path) != closed)
    for out in (closed, closed / "new", closed / "mine.safetensors"):
        call = ("finetune", graph, "--cluster", "file", "--episodes", "4", "-o", out)
        refuse(run_here(capfd, *call), 1, "may not be written to")


def test_without_tensorboard_one_line_says_what_to_install(
    graph: Path, tmp_path: Path, capfd: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    call = ("finetune", graph, "--cluster", "file", "-o", tmp_path / "mine", "--logdir", tmp_path)
    refuse(run_here(capfd, *call), 2, "pip install 'dplace[tensorboard]'")
