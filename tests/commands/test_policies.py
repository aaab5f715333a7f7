"""``dplace policies``, and ``--policy placeto``, which takes the one of them that fits."""

import json
from pathlib import Path

import pytest

from dplace.graph_io.families import FAMILIES
from dplace.policies.learned import shipped as shipped_files
from dplace.policies.placeto.checkpoint import load_policy, save_policy
from tests.command_line import one_line, run_here
from tests.graph_io.cost_graphs.files import diamond, text
from tests.policies.placeto.test_train import network

Capture = pytest.CaptureFixture[str]

COMMAND = "dplace pretrain ptb nmt --cluster 2xV100 -o recurrent.safetensors"


@pytest.fixture
def shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder that stands in for that of the policies that come with dplace."""
    folder = tmp_path / "pretrained"
    folder.mkdir()
    monkeypatch.setattr("dplace.policies.learned.files", lambda _: folder)
    return folder


def test_none_are_listed_where_none_are(shipped: Path, capfd: Capture) -> None:
    ended = run_here(capfd, "policies")
    assert (ended.code, ended.err) == (0, "")
    assert "no policy comes with this version" in ended.out
    assert json.loads(run_here(capfd, "policies", "--json").out) == {"policies": []}


def test_headers_tell_families_results_and_command(shipped: Path, capfd: Capture) -> None:
    results = {"problems": 48, "policy_over_single": 0.5, "policy_over_bound": 1.25}
    told = {
        "families": ["ptb", "nmt"],
        "clusters": ["2xV100"],
        "command": COMMAND,
        "results": results,
    }
    save_policy(shipped / "recurrent.safetensors", network(), told)
    save_policy(shipped / "all.safetensors", network(), {})
    (shipped / "notes.txt").write_text("not one of them")
    out = run_here(capfd, "policies").out
    size = (shipped / "recurrent.safetensors").stat().st_size
    assert out.splitlines()[6:] == [
        "recurrent",
        "  families  ptb, nmt",
        "  clusters  2xV100",
        f"  size      {size / 1000:.1f} kB",
        "  results   2.00x as fast as one device, 25.0% above the bound, mean of 48",
        f"  trained   {COMMAND}",
    ]
    listed = json.loads(run_here(capfd, "policies", "--json").out)["policies"]
    assert [policy["name"] for policy in listed] == ["all", "recurrent"]
    assert listed[1] == {"name": "recurrent", "size_bytes": size, **told}


def test_placeto_asks_one_of_them(shipped: Path, tmp_path: Path, capfd: Capture) -> None:
    save_policy(shipped / "all.safetensors", network(), {})
    graph = tmp_path / "graph.json"
    graph.write_text(text(diamond()))
    ended = run_here(capfd, "place", graph, "--cluster", "file", "--policy", "placeto", "--json")
    assert json.loads(ended.out)["policy"] == "placeto"
    call = ("--cluster", "file", "-o", tmp_path / "mine", "--episodes", "2")
    assert run_here(capfd, "finetune", graph, *call, "--from", "placeto").code == 0


def test_a_damaged_one_is_named(shipped: Path, capfd: Capture) -> None:
    (shipped / "bad.safetensors").write_bytes(b"nothing")
    ended = run_here(capfd, "policies")
    assert ended.code == 1
    assert "bad.safetensors: not a policy" in one_line(ended)


def test_what_comes_with_dplace_is_small_and_tells_how_it_was_made(capfd: Capture) -> None:
    told = json.loads(run_here(capfd, "policies", "--json").out)["policies"]
    assert {"cifar10", "nmt", "ptb"} <= {policy["name"] for policy in told}
    with shipped_files() as paths:
        assert all(path.stat().st_size <= 2_000_000 for path in paths)
        script = (Path(__file__).parents[2] / "scripts/train-policies").read_text()
        for path in paths:
            training = load_policy(path).training
            assert training["is_finished"]
            assert set(training["families"]) <= set(FAMILIES)
            words = training["command"].replace("policies/pretrained", "$out")
            assert words in script.replace(" \\\n   ", "")
