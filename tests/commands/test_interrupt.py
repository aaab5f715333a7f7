"""Ctrl-C in the middle of a search: place keeps the best so far, compare has nothing to show."""

import re
from pathlib import Path

import pytest

from dplace import api
from dplace.policies.walk import Walker
from tests.command_line import interrupted_on_a_terminal, run_here
from tests.graph_io.cost_graphs.files import diamond, text
from tests.zoo import SITUATIONS

Capture = pytest.CaptureFixture[str]

KEPT = r"dplace: warning: the search was interrupted after \d+ evaluations; this is the best .*"


@pytest.fixture
def interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    def anneal(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Walker, "anneal", anneal)


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    path = tmp_path / "graph.json"
    path.write_text(text(diamond()))
    return path


@pytest.mark.usefixtures("interrupted")
def test_place_keeps_the_best_so_far_and_says_so(tmp_path: Path, capfd: Capture) -> None:
    model = tmp_path / "model.onnx"
    model.write_bytes(SITUATIONS["six_small_ops"]().model.SerializeToString())
    ended = run_here(capfd, "place", model, "--cluster", "2xCPU", "-o", tmp_path / "plan", "--json")
    assert ended.code == 130
    assert ended.out.startswith("{")
    assert re.search(KEPT, ended.err)
    assert ended.err.splitlines()[-1] == "dplace: interrupted"
    assert api.simulate(tmp_path / "plan").makespan_s > 0


@pytest.mark.usefixtures("interrupted")
def test_place_of_a_cost_graph_keeps_it_too(graph: Path, tmp_path: Path, capfd: Capture) -> None:
    ended = run_here(capfd, "place", graph, "--cluster", "file", "-o", tmp_path / "answer")
    assert ended.code == 130
    assert re.search(KEPT, ended.err)
    assert (tmp_path / "answer" / "placement.json").is_file()


@pytest.mark.usefixtures("interrupted")
def test_compare_of_one_model_ends(graph: Path, capfd: Capture) -> None:
    # Half a search compares with nothing, and a second policy must not begin.
    ended = run_here(
        capfd, "compare", graph, "--cluster", "file", "--policies", "search,auto", "--seeds", "9"
    )
    assert (ended.code, ended.out, ended.err) == (130, "", "dplace: interrupted\n")


def test_a_search_shows_how_it_gets_on_and_ends_at_ctrl_c(graph: Path, tmp_path: Path) -> None:
    ended = interrupted_on_a_terminal(
        *("place", graph, "--cluster", "file", "-o", tmp_path / "answer"),
        *("--policy", "search", "--evaluations", "1000000000"),
        pattern=r"searching, best of this walk [\d.]+ ms .* +\d+% (-:--:--|\d+:\d\d:\d\d)",
    )
    assert ended.code == 130
    assert re.search(KEPT, ended.err)
    assert re.match(r"Predicted \d", ended.out)
    assert (tmp_path / "answer" / "placement.json").is_file()
