"""``dplace pretrain``: families and folders, clusters, sizes to learn at, several processes."""

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from dplace import api_learn
from dplace.api_learn_models import FAMILY_DIMS, family_sources
from dplace.errors import UsageError
from dplace.graph_io.families import FAMILIES, split_members
from dplace.policies.placeto.checkpoint import load_policy
from dplace.policies.placeto.kept import load_kept
from tests.command_line import one_line, run_here
from tests.commands.conftest import Dplace, Record
from tests.commands.test_finetune import answered
from tests.graph_io.cost_graphs.files import diamond, text

Capture = pytest.CaptureFixture[str]


def test_defaults(dplace: Dplace, record: Record) -> None:
    calls = record("pretrain", answered()).calls
    assert dplace("pretrain", "ptb", "models/", "-o", "p.safetensors").code == 0
    positional, keywords = calls[0]
    assert positional == (["ptb", "models/"],)
    assert keywords.pop("tell") is not None
    assert keywords == {
        "out": Path("p.safetensors"),
        "clusters": None,
        "updates": None,
        "imitate": None,
        "seed": 0,
        "members": None,
        "dims": {},
        "logdir": None,
        "overwrite": False,
        "device": "cpu",
        "command": "dplace pretrain ptb models/ -o p.safetensors",
        "progress": None,
    }


def test_every_option_arrives(dplace: Dplace, record: Record) -> None:
    calls = record("pretrain", answered()).calls
    dplace(
        *("pretrain", "ptb", "-o", "p", "--cluster", "2xV100", "--cluster", "4xA100"),
        *("--updates", "0", "--imitate", "5", "--seed", "3", "--members", "4", "--dim", "batch=2"),
        *("--logdir", "tb", "--overwrite", "--device", "cuda"),
    )
    expected = {
        "clusters": ["2xV100", "4xA100"],
        "updates": 0,
        "imitate": 5,
        "seed": 3,
        "members": 4,
        "dims": {"batch": 2},
        "logdir": Path("tb"),
        "overwrite": True,
        "device": "cuda",
    }
    assert {name: calls[0][1][name] for name in expected} == expected


def test_only_training_members_are_taken_on_each_cluster() -> None:
    clusters = ["2xV100", "4xV100"]
    sources = list(family_sources(["lstm"], clusters, members=3, dims={}))
    train = split_members("lstm").train[:3]
    expected = [(name, cluster) for name in train for cluster in clusters]
    assert [(source.name, source.cluster) for source in sources] == expected
    assert not {source.name for source in sources} & set(split_members("lstm").test)
    assert dict(sources[0].sizes) == FAMILY_DIMS["lstm"]
    (other,) = family_sources(["lstm"], clusters[:1], members=1, dims={"batch": 3})
    assert dict(other.sizes) == {**FAMILY_DIMS["lstm"], "batch": 3}


def test_every_family_has_a_size_at_which_there_is_something_to_learn() -> None:
    assert set(FAMILY_DIMS) == set(FAMILIES)


@pytest.mark.slow
def test_a_family_is_learned_and_tells_how(tmp_path: Path, capfd: Capture) -> None:
    out = tmp_path / "inception.safetensors"
    ended = run_here(
        capfd,
        *("pretrain", "inception", "--members", "1", "--cluster", "2xV100", "-o", out),
        *("--updates", "1", "--imitate", "1", "--json"),
    )
    assert ended.code == 0, ended.err
    assert ended.err == ""
    told = json.loads(ended.out)
    assert [model["model"] for model in told["models"]] == ["inception-000"]
    training = load_policy(out).training
    assert training["families"] == ["inception"]
    assert training["clusters"] == ["2xV100"]
    assert training["results"] == told["results"]
    assert len(training["kind"]["mean"]) == len(training["kind"]["spread"])
    assert out.stat().st_size < 2e6


def test_words_that_mean_nothing_are_refused(tmp_path: Path, capfd: Capture) -> None:
    out = tmp_path / "mine"
    for words, message in (
        (["ptp"], "ptp: no family and no folder of that name; families are inception"),
        ([str(tmp_path)], "the folder has no files"),
        (["lstm", "--cluster", "4xFoo"], "Foo"),
        (["lstm", "--dim", "tokens=2", "--members", "1"], "--dim tokens: no model has such"),
    ):
        ended = run_here(capfd, "pretrain", *words, "-o", out)
        assert ended.code == 1
        assert message in one_line(ended)
    nothing = ("--updates", "0", "--imitate", "0")
    ended = run_here(capfd, "pretrain", "lstm", *nothing, "-o", out)
    assert ended.code == 2
    assert "nothing to learn" in one_line(ended)
    with pytest.raises(UsageError, match="at least one family"):
        api_learn.pretrain([], out=out)
    assert not out.exists()


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    path = tmp_path / "graph.json"
    path.write_text(text(diamond()))
    return path


@pytest.mark.slow
def test_torchrun_shares_the_work_and_ctrl_c_ends_all_after_the_same_step(
    graph: Path, tmp_path: Path, capfd: Capture
) -> None:
    out = tmp_path / "mine"

    def begin(updates: int) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [
                *(sys.executable, "-m", "torch.distributed.run", "--standalone"),
                *(
                    "--nproc-per-node",
                    "2",
                    "-m",
                    "dplace",
                    "-v",
                    "pretrain",
                    graph,
                    "--cluster",
                    "file",
                ),
                *("--imitate", "2", "--updates", str(updates), "-o", out, "--json"),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    process = begin(10**6)
    assert process.stderr is not None
    try:
        while "step 1 of" not in process.stderr.readline():
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        told, err = process.communicate(timeout=120)
    finally:
        process.kill()
        process.wait()
    assert process.returncode != 0
    assert "goes on from there" in err
    done = json.loads(told)["steps_done"]
    assert len((out / "log.jsonl").read_text().splitlines()) == done
    kept = load_kept((out / "state.safetensors").read_bytes(), "state")
    assert kept.told["course"]["steps_done"] == done
    ended = run_here(capfd, "pretrain", graph, "--cluster", "file", "--imitate", "2", "-o", out)
    assert ended.code == 1
    assert "processes: 2 then, 1 now" in one_line(ended)

    shutil.rmtree(out)
    process = begin(3)
    told, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    # One step of search for both processes finds the one target.
    assert [json.loads(line)["steps_done"] for line in told.splitlines()] == [6]
    assert {path.name for path in out.iterdir()} == {"policy.safetensors", "log.jsonl"}
