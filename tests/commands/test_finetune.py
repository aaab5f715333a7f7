"""``dplace finetune``: options, what models are meant, Ctrl-C and going on."""

import json
import math
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dplace.api_learn_models import model_files
from dplace.errors import InputError
from dplace.policies.placeto.checkpoint import load_policy
from dplace.policies.placeto.course import Course, Step
from dplace.report.learning import LearnAnswer, LearnedModel
from tests.command_line import interrupted_on_a_terminal, one_line, run_here
from tests.commands.conftest import Dplace, Record
from tests.graph_io.cost_graphs.files import diamond, text
from tests.zoo import SITUATIONS

Capture = pytest.CaptureFixture[str]

SHORT = ("--cluster", "2xCPU", "--episodes", "16")


def answered(**changes: Any) -> LearnAnswer:
    """Return what a training of two models comes to."""
    models = tuple(
        LearnedModel(
            model=name,
            cluster="2xCPU",
            num_ops=20,
            num_groups=10,
            bound_s=0.002,
            single_s=single_s,
            best_s=0.0025,
            policy_s=policy_s,
        )
        for name, single_s, policy_s in (("a.onnx", 0.008, 0.004), ("b.onnx", math.inf, math.inf))
    )
    made: dict[str, Any] = {"out": Path("mine"), "steps_done": 9, "steps": 9, "models": models}
    return LearnAnswer(**(made | changes))


@pytest.fixture
def models(tmp_path: Path) -> Path:
    """Return a folder with two small models."""
    folder = tmp_path / "family"
    folder.mkdir()
    for name in ("six_small_ops", "interleaved_branches"):
        (folder / f"{name}.onnx").write_bytes(SITUATIONS[name]().model.SerializeToString())
    return folder


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    path = tmp_path / "graph.json"
    path.write_text(text(diamond()))
    return path


def test_defaults(dplace: Dplace, record: Record) -> None:
    calls = record("finetune", answered()).calls
    assert dplace("finetune", "a.onnx", "b.onnx", "--cluster", "2xCPU", "-o", "mine").code == 0
    positional, keywords = calls[0]
    assert positional == (["a.onnx", "b.onnx"],)
    assert keywords.pop("tell") is not None
    assert keywords == {
        "cluster": "2xCPU",
        "out": Path("mine"),
        "from_policy": None,
        "episodes": None,
        "imitate": None,
        "seed": 0,
        "dims": {},
        "logdir": None,
        "overwrite": False,
        "device": "cpu",
        "command": "dplace finetune a.onnx b.onnx --cluster 2xCPU -o mine",
        "progress": None,
    }


def test_every_option_arrives(dplace: Dplace, record: Record) -> None:
    calls = record("finetune", answered()).calls
    dplace(
        *("finetune", "f/*.onnx", "--cluster", "4xV100", "-o", "m.safetensors", "--from", "old"),
        *("--episodes", "7", "--imitate", "5", "--seed", "3", "--dim", "n=2", "--logdir", "tb"),
        *("--overwrite", "--device", "cuda", "--json"),
    )
    keywords = calls[0][1]
    expected = {
        "from_policy": Path("old"),
        "episodes": 7,
        "imitate": 5,
        "seed": 3,
        "dims": {"n": 2},
        "logdir": Path("tb"),
        "overwrite": True,
        "device": "cuda",
    }
    assert {name: keywords[name] for name in expected} == expected
    assert str(keywords["command"]).startswith("dplace finetune 'f/*.onnx' --cluster 4xV100")


def test_table_and_json(dplace: Dplace, record: Record) -> None:
    record("finetune", answered(warnings=("no rule for Foo",)))
    call = ("finetune", "a", "--cluster", "2xCPU", "-o", "mine")
    result = dplace(*call)
    assert result.err == "dplace: warning: no rule for Foo\n"
    lines = result.out.splitlines()
    assert lines[0].startswith("mine: 9 steps; 2.00x as fast as one device, 100.0% above the bound")
    assert max(map(len, lines)) <= 80
    assert lines[-1].split() == [*("b.onnx", "2xCPU", "10", "-", "2.500", "ms", "-", "2.000", "ms")]
    told = json.loads(dplace(*call, "--json").out)
    assert told["results"]["policy_over_single"] == 0.5
    assert told["models"][1]["single_s"] is None


def test_the_other_processes_say_nothing(dplace: Dplace, record: Record) -> None:
    record("finetune", answered(rank=1, warnings=("no rule for Foo",)))
    result = dplace("finetune", "a", "--cluster", "2xCPU", "-o", "mine")
    assert (result.code, result.out, result.err) == (0, "", "")


def test_models_are_a_folder_a_pattern_files_or_a_list(
    models: Path, graph: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    all_of = sorted(models.glob("*.onnx"))
    assert model_files([str(models)]) == all_of
    assert model_files([f"{models}/*.onnx"]) == all_of
    assert model_files([f"{models.parent}/**/*.onnx"]) == all_of
    assert model_files([str(graph), *map(str, all_of), str(models)]) == [graph, *all_of]
    read, write = os.pipe()
    os.write(write, f"{all_of[0]}\n\n  {graph}  \n".encode())
    os.close(write)
    with os.fdopen(read) as listed:
        monkeypatch.setattr(sys, "stdin", listed)
        assert model_files(["-"]) == [all_of[0], graph]
        with pytest.raises(InputError, match="standard input has no list"):
            model_files(["-"])


@pytest.mark.parametrize(
    ("word", "words"),
    [
        ("none/*.onnx", "none/\\*.onnx: no file matches"),
        ("none.onnx", "none.onnx: there is no such file"),
        (".", "the folder has no files \\*.onnx"),
    ],
)
def test_words_that_mean_nothing_are_refused(
    word: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=words):
        model_files([word])
    ended = run_here(capfd, "finetune", word, *SHORT, "-o", "mine")
    assert ended.code == 1
    one_line(ended)
    assert list(tmp_path.iterdir()) == []


def test_a_policy_is_written_and_placed_by(models: Path, tmp_path: Path, capfd: Capture) -> None:
    out, logdir = tmp_path / "my-policy", tmp_path / "logs"
    ended = run_here(capfd, "finetune", models, *SHORT, "-o", out, "--logdir", logdir, "--json")
    assert ended.code == 0, ended.err
    assert {path.name for path in out.iterdir()} == {"policy.safetensors", "log.jsonl"}
    assert any(path.name.startswith("events.out.tfevents") for path in logdir.iterdir())
    lines = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == list(range(2))
    training = load_policy(out / "policy.safetensors").training
    assert training["is_finished"]
    assert training["command"].startswith("dplace finetune ")
    assert training["results"] == json.loads(ended.out)["results"]
    model = next(models.iterdir())
    call = (model, "--cluster", "2xCPU")
    for path in (out, out / "policy.safetensors"):
        placed = run_here(capfd, "place", *call, "--policy", path, "--json")
        assert json.loads(placed.out)["policy"] == str(path)
    compared = run_here(capfd, "compare", *call, "--policies", f"single,{out}")
    assert compared.code == 0
    begun = tmp_path / "second.safetensors"
    ended = run_here(
        capfd, "finetune", models, *SHORT, "--from", out, "-o", begun, "--imitate", "1"
    )
    assert ended.code == 0, ended.err
    assert {path.name for path in tmp_path.glob("second*")} == {
        "second.safetensors",
        "second.log.jsonl",
    }


@pytest.fixture
def interrupts(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Yield the numbers of steps during which Ctrl-C is pressed."""
    at: list[int] = []
    plain = Course.step

    def step(course: Course) -> Step:
        if course.steps_done in at:
            at.remove(course.steps_done)
            os.kill(os.getpid(), signal.SIGINT)
        return plain(course)

    monkeypatch.setattr(Course, "step", step)
    yield at
    assert at == []


def test_ctrl_c_keeps_what_was_learned_and_the_same_command_goes_on(
    graph: Path, tmp_path: Path, capfd: Capture, interrupts: list[int]
) -> None:
    call = ("finetune", graph, "--cluster", "file", "--episodes", "16", "--imitate", "3", "-o")
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    assert run_here(capfd, *call, whole).code == 0
    for at in (0, 2, 6):  # the search of a target, the two other stages
        interrupts.append(at)
        ended = run_here(capfd, *call, parts)
        assert ended.code == 130
        assert ended.out == ""
        lines = ended.err.splitlines()
        assert lines[-1] == "dplace: interrupted"
        assert lines[-2].startswith(f"dplace: {parts}: kept after step {at + 1} of 8; the same")
        assert load_policy(parts / "policy.safetensors").training["steps_done"] == at + 1
        placed = run_here(capfd, "place", graph, "--cluster", "file", "--policy", parts)
        assert placed.code == 0
    ended = run_here(capfd, *call, parts)
    assert ended.code == 0
    assert ended.err == f"dplace: {parts}: going on after step 7 of 8\n"
    assert (whole / "log.jsonl").read_text() == (parts / "log.jsonl").read_text()
    one, other = (load_policy(out / "policy.safetensors").network for out in (whole, parts))
    for weight, same in zip(one.parameters(), other.parameters(), strict=True):
        assert weight.equal(same)


def test_a_kept_training_goes_on_as_it_was_asked_only(
    graph: Path, tmp_path: Path, capfd: Capture, interrupts: list[int]
) -> None:
    call = ("finetune", graph, "--cluster", "file", "--episodes", "8", "-o", tmp_path / "mine")
    interrupts.append(0)
    assert run_here(capfd, *call).code == 130
    ended = run_here(capfd, *call, "--seed", "7")
    assert ended.code == 1
    assert "interrupted there (seed: 0 then, 7 now; settings" in one_line(ended)
    state = tmp_path / "mine" / "state.safetensors"
    content = state.read_bytes()
    state.write_bytes(content[:-1])
    ended = run_here(capfd, *call)
    assert ended.code == 1
    assert "give --overwrite" in one_line(ended)
    assert run_here(capfd, *call, "--overwrite").code == 0
    ended = run_here(capfd, *call)
    assert ended.code == 1
    assert "there is a finished policy; give another -o, --overwrite" in one_line(ended)


def test_a_second_ctrl_c_ends_it_on_the_spot(
    graph: Path, tmp_path: Path, capfd: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def step(course: Course) -> Step:
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGINT)
        raise AssertionError("the step went on")

    monkeypatch.setattr(Course, "step", step)
    out = tmp_path / "mine"
    ended = run_here(capfd, "finetune", graph, "--cluster", "file", "-o", out)
    assert (ended.code, ended.err) == (130, "dplace: interrupted\n")
    assert not out.exists()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_the_terminal_shows_how_it_gets_on(graph: Path, tmp_path: Path) -> None:
    ended = interrupted_on_a_terminal(
        *("finetune", graph, "--cluster", "file", "-o", tmp_path / "mine"),
        *("--episodes", "1000000"),
        pattern=r"trying, best [\d.]+ ms, [\d.]+% above the bound .* +\d+% \d+:\d\d:\d\d",
    )
    assert (ended.code, ended.out) == (130, "")
    assert (tmp_path / "mine" / "state.safetensors").is_file()


def test_a_list_comes_through_a_pipe(
    models: Path, tmp_path: Path, capfd: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, write = os.pipe()
    os.write(write, "\n".join(map(str, sorted(models.iterdir()))).encode())
    os.close(write)
    with os.fdopen(read) as listed:
        monkeypatch.setattr(sys, "stdin", listed)
        ended = run_here(capfd, "finetune", "-", *SHORT, "-o", tmp_path / "mine")
    assert ended.code == 0, ended.err
    assert "six_small_ops.onnx" in ended.out
    both = run_here(capfd, "finetune", "-", "a.onnx", *SHORT, "-o", tmp_path / "other")
    assert both.code == 2
