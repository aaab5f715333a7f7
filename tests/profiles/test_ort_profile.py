"""onnxruntime's profile: what is read from it, and what is refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from dplace.errors import InputError
from dplace.profiles.ort_profile import read_node_events


def kernel(name: str, duration: object, **arguments: Any) -> dict[str, Any]:
    """Return the event of a node that ran."""
    args = {"op_name": "Relu", "provider": "CPUExecutionProvider", "node_index": "0"} | arguments
    return {"cat": "Node", "ph": "X", "name": f"{name}_kernel_time", "dur": duration, "args": args}


def written(folder: Path, events: object) -> Path:
    """Write a profile and return its path."""
    path = folder / "profile.json"
    path.write_text(json.dumps(events))
    return path


def seconds(path: Path, *names: str) -> dict[str, list[float]]:
    """Return the times of some nodes in microseconds."""
    found = read_node_events(path, dict.fromkeys(names))
    return {name: [round(s * 1e6, 3) for s in node.seconds] for name, node in found.items()}


def test_runs_follow_each_other(tmp_path: Path) -> None:
    events = [
        {"cat": "Session", "name": "model_loading_uri", "dur": 900},
        *[kernel("n0", 5), kernel("n1", 7)],
        *[kernel("n0", 4), kernel("n1", 6)],
    ]
    assert seconds(written(tmp_path, events), "n0", "n1") == {"n0": [5, 4], "n1": [7, 6]}


def test_numbers_may_be_text(tmp_path: Path) -> None:
    assert seconds(written(tmp_path, [kernel("n0", "12")]), "n0") == {"n0": [12]}


def test_nodes_of_a_subgraph_are_counted_and_not_added(tmp_path: Path) -> None:
    events = [
        kernel("n0", 3),
        *[kernel("n1/0", 10), kernel("n1/1", 20), kernel("n1", 50, op_name="If")],
        kernel("n2", 4),
    ]
    found = read_node_events(written(tmp_path, events), dict.fromkeys(("n0", "n1", "n2")))
    assert [node.inner.tolist() for node in found.values()] == [[0], [2], [0]]
    assert found["n1"].seconds.tolist() == [pytest.approx(50e-6)]


def test_a_node_that_onnxruntime_added_counts_to_the_next(tmp_path: Path) -> None:
    events = [kernel("InsertedCast_x", 3, op_name="Cast"), kernel("n0", 5)]
    assert seconds(written(tmp_path, events), "n0") == {"n0": [8]}


def test_events_that_lack_fields_are_passed_over(tmp_path: Path) -> None:
    events = [
        None,
        {},
        {"name": 5},
        {"name": "n0_kernel_time", "cat": "Node"},
        {"name": "n0_fence_before", "cat": "Node", "dur": 1},
        kernel("n0", "soon"),
        {"name": "n0_kernel_time", "dur": 9, "args": {"op_name": "Relu"}},
    ]
    assert seconds(written(tmp_path, events), "n0") == {"n0": [9]}


def test_a_file_that_is_cut_short_is_refused_by_name(tmp_path: Path) -> None:
    path = written(tmp_path, [kernel("n0", 5), kernel("n1", 5)])
    path.write_text(path.read_text()[:-40])
    with pytest.raises(InputError, match=r"profile\.json: the profile is cut short or broken"):
        read_node_events(path, {"n0": None})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"traceEvents": []}, "expected a profile of onnxruntime, a list of events, got dict"),
        ([], "found no times of nodes"),
        ([{"cat": "Session", "name": "model_run", "dur": 4}], "found no times of nodes"),
        ([{"cat": "Node", "name": "n0_kernel_time", "dur": 4}], "names no op types"),
        ([kernel("other", 4)], "no event of any node of the model"),
    ],
)
def test_what_is_no_profile_is_refused_by_name(
    tmp_path: Path, content: object, message: str
) -> None:
    path = written(tmp_path, content)
    with pytest.raises(InputError, match=message) as caught:
        read_node_events(path, {"n0": None})
    assert str(path) in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"gone\.json: No such file"):
        read_node_events(tmp_path / "gone.json", {})
