"""Bad input: one clear line, the right exit code, and nothing half written."""

import re
from pathlib import Path

import numpy as np
import pytest

from tests.command_line import Ended, one_line, run_here
from tests.zoo import SITUATIONS
from tests.zoo.broken import BROKEN
from tests.zoo.external_data import write_chain

Capture = pytest.CaptureFixture[str]

FAULT, USAGE, NO_ROOM = 1, 2, 3
SIZES = ("--dim", "H=8", "--dim", "W=8", "--policy", "single")
"""Pooling leaves nothing of a picture of one pixel, which makes onnxruntime end the process."""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Return the file of a model with dynamic dimensions N, H and W."""
    path = tmp_path / "model.onnx"
    path.write_bytes(SITUATIONS["convolutions_with_branches"]().model.SerializeToString())
    return path


def expect(ended: Ended, code: int, *words: str) -> None:
    """Check the exit code and that the one line matches every regular expression."""
    line = one_line(ended)
    assert ended.code == code, line
    assert line.startswith("dplace: error: ")
    for word in words:
        assert re.search(word, line, re.IGNORECASE), f"{word!r} is not in: {line}"


@pytest.mark.parametrize("name", BROKEN)
def test_broken_model_is_refused_in_one_line(name: str, tmp_path: Path, capfd: Capture) -> None:
    broken = BROKEN[name]
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    target.mkdir()
    path = broken.write(source)
    ended = run_here(capfd, "place", path, "--cluster", "2xCPU", "-o", target / "plan")
    expect(ended, broken.exit_code, *broken.words)
    assert list(target.iterdir()) == []


@pytest.mark.parametrize("name", ["not_a_protobuf", "non_ssa", "missing_external_data"])
def test_inspect_refuses_it_likewise(name: str, tmp_path: Path, capfd: Capture) -> None:
    path = BROKEN[name].write(tmp_path)
    expect(run_here(capfd, "inspect", path), BROKEN[name].exit_code, *BROKEN[name].words)


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (["--dim", "Batch=2"], FAULT, ["Batch", "N"]),
        (["--dim", "N=0"], FAULT, ["N", "0"]),
        (["--dim", "N=-3"], FAULT, ["N", "-3"]),
        (["--dim", "N=two"], USAGE, ["N=two"]),
        (["--cluster", "0xCPU"], FAULT, ["0xCPU"]),
        (["--cluster", ""], FAULT, ["cluster"]),
        (["--cluster", "2xV1000"], FAULT, ["V1000", "V100"]),
        (["--cluster", "2xV100@nvlnk"], FAULT, ["nvlnk", "nvlink"]),
        (["--cluster", "nowhere.yaml"], FAULT, ["nowhere.yaml"]),
        (["--policy", "heftt"], USAGE, ["heftt", "heft"]),
        (["--pin", "nothing*=cpu:0"], FAULT, [r"nothing\*"]),
        (["--pin", "*=gpu:0"], FAULT, ["gpu:0", "cpu:0"]),
        (["--pin", "no device"], USAGE, ["no device"]),
        (["--cluster", "2xCPU-1KB"], NO_ROOM, ["KiB missing"]),
    ],
    ids=lambda value: " ".join(map(str, value)) if isinstance(value, list) else str(value),
)
def test_option_is_refused_in_one_line(
    options: list[str], code: int, words: list[str], model: Path, tmp_path: Path, capfd: Capture
) -> None:
    cluster = [] if "--cluster" in options else ["--cluster", "2xCPU"]
    ended = run_here(capfd, "place", model, *cluster, *options, "-o", tmp_path / "plan")
    expect(ended, code, *words)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.onnx"]


def test_cluster_without_a_link_between_two_devices(
    model: Path, tmp_path: Path, capfd: Capture
) -> None:
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text(
        "devices:\n  - {kind: CPU, count: 2}\n"
        "links:\n  pairs:\n    - {from: cpu:0, to: cpu:1, preset: host}\n"
    )
    ended = run_here(capfd, "place", model, "--cluster", cluster)
    expect(ended, FAULT, "no link", "cpu:1", "cpu:0")


def test_model_that_fits_nowhere_says_how_much_is_missing(tmp_path: Path, capfd: Capture) -> None:
    path = write_chain(tmp_path / "chain", num_weights=4, size=512)  # 4 x 1.05 MB
    ended = run_here(capfd, "place", path, "--cluster", "3xCPU-1MB", "-o", tmp_path / "plan")
    expect(ended, NO_ROOM, r"\d+(\.\d+)? ?[KMG]i?B missing")
    assert not (tmp_path / "plan").exists()


def test_output_folder_that_is_not_a_plan_is_left_alone(
    model: Path, tmp_path: Path, capfd: Capture
) -> None:
    out = tmp_path / "photos"
    out.mkdir()
    (out / "cat.jpg").write_bytes(b"miaow")
    ended = run_here(capfd, "place", model, "--cluster", "2xCPU", "-o", out)
    expect(ended, FAULT, "photos", "not a plan")
    assert [(file.name, file.read_bytes()) for file in out.iterdir()] == [("cat.jpg", b"miaow")]


def test_output_folder_that_is_a_file_is_left_alone(
    model: Path, tmp_path: Path, capfd: Capture
) -> None:
    (tmp_path / "notes").write_text("keep")
    ended = run_here(capfd, "place", model, "--cluster", "2xCPU", "-o", tmp_path / "notes")
    expect(ended, FAULT, "notes", "file|folder")
    assert (tmp_path / "notes").read_text() == "keep"


def test_a_plan_that_stands_there_is_replaced_whole(
    model: Path, tmp_path: Path, capfd: Capture
) -> None:
    out = tmp_path / "plan"
    for seed in ("0", "1"):
        ended = run_here(
            capfd,
            *("place", model, "--cluster", "3xCPU", *SIZES),
            *("--policy", "random", "--seed", seed, "-o", out),
        )
        assert ended.code == 0, ended.err
    assert run_here(capfd, "run", out, "--check", model).code == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.onnx", "plan"]


def test_a_failed_place_leaves_the_old_plan(model: Path, tmp_path: Path, capfd: Capture) -> None:
    out = tmp_path / "plan"
    assert run_here(capfd, "place", model, "--cluster", "2xCPU", "-o", out).code == 0
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    assert run_here(capfd, "place", model, "--cluster", "2xCPU-1KB", "-o", out).code == NO_ROOM
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        ({"y": (1, 3, 8, 8)}, ['"y"', '"x"']),
        ({"x": (1, 4, 8, 8)}, ['"x"', "3", "4"]),
        ({"x": (3, 8)}, ['"x"', "shape|rank|dimension|expected"]),
        ({"x": (1, 3, 8, 8), "extra": (1,)}, ['"extra"']),
    ],
    ids=["name", "shape", "rank", "one too many"],
)
def test_run_refuses_wrong_inputs(
    inputs: dict[str, tuple[int, ...]],
    words: list[str],
    model: Path,
    tmp_path: Path,
    capfd: Capture,
) -> None:
    plan, file = tmp_path / "plan", tmp_path / "x.npz"
    run_here(capfd, "place", model, "--cluster", "2xCPU", *SIZES, "-o", plan)
    np.savez(file, **{name: np.ones(shape, np.float32) for name, shape in inputs.items()})  # type: ignore[arg-type]
    expect(run_here(capfd, "run", plan, "--inputs", file), FAULT, *words)


def test_run_refuses_a_wrong_type(model: Path, tmp_path: Path, capfd: Capture) -> None:
    plan, file = tmp_path / "plan", tmp_path / "x.npz"
    run_here(capfd, "place", model, "--cluster", "2xCPU", *SIZES, "-o", plan)
    np.savez(file, x=np.ones((1, 3, 8, 8)))
    expect(run_here(capfd, "run", plan, "--inputs", file), FAULT, '"x"', "float", "double|float64")


@pytest.mark.parametrize("content", [b"", b"not a zip", b"PK\x03\x04 and then nothing"])
def test_run_refuses_an_inputs_file_that_is_none(
    content: bytes, model: Path, tmp_path: Path, capfd: Capture
) -> None:
    plan, file = tmp_path / "plan", tmp_path / "x.npz"
    run_here(capfd, "place", model, "--cluster", "2xCPU", *SIZES, "-o", plan)
    file.write_bytes(content)
    expect(run_here(capfd, "run", plan, "--inputs", file), FAULT, "x.npz")


def test_run_refuses_pickled_inputs(model: Path, tmp_path: Path, capfd: Capture) -> None:
    plan, file = tmp_path / "plan", tmp_path / "x.npz"
    run_here(capfd, "place", model, "--cluster", "2xCPU", *SIZES, "-o", plan)
    np.savez(file, x=np.array([{"a": 1}], dtype=object))
    expect(run_here(capfd, "run", plan, "--inputs", file), FAULT, 'x.npz|"x"')


def test_run_refuses_a_check_against_another_model(
    model: Path, tmp_path: Path, capfd: Capture
) -> None:
    plan, other = tmp_path / "plan", tmp_path / "other.onnx"
    run_here(capfd, "place", model, "--cluster", "2xCPU", *SIZES, "-o", plan)
    other.write_bytes(SITUATIONS["six_small_ops"]().model.SerializeToString())
    ended = run_here(capfd, "run", plan, "--check", other)
    assert ended.code == FAULT
    assert "other.onnx" in ended.err
