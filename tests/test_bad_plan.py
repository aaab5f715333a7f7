"""A plan that was changed, cut short, or made for another machine; a disk that is full."""

import re
import resource
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.command_line import one_line, run_here, start
from tests.zoo import SITUATIONS
from tests.zoo.external_data import write_chain

Capture = pytest.CaptureFixture[str]

FAULT = 1


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a model of 1 MB of weights and a plan of it on two devices."""
    path = tmp_path_factory.mktemp("good")
    weights = {i: np.eye(256) + i for i in range(4)}
    model = write_chain(path, num_weights=4, size=256, weights=weights)
    ended = start(
        *("place", model, "--cluster", "2xCPU", "--policy", "random", "--seed", "2"),
        *("-o", path / "plan"),
    )
    assert ended.code == 0, ended.err
    return path


@pytest.fixture
def plan(folder: Path, tmp_path: Path) -> Path:
    """Return a copy of that plan to break."""
    return Path(shutil.copytree(folder / "plan", tmp_path / "plan"))


def part_of(plan: Path, pattern: str) -> Path:
    """Return the first file of the plan's parts that matches."""
    return sorted(plan.glob(f"parts/{pattern}"))[0]


def edit(plan: Path, pattern: str, replacement: str) -> None:
    """Change plan.yaml once, at the first match."""
    file = plan / "plan.yaml"
    text, count = re.subn(pattern, replacement, file.read_text(), count=1)
    assert count == 1, f"{pattern} is not in:\n{text}"
    file.write_text(text)


def append(file: Path) -> None:
    """Add a byte to a file."""
    file.write_bytes(file.read_bytes() + b"\0")


def flip(file: Path) -> None:
    """Change a bit in the middle of a file, and not its size."""
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(bytes(content))


def weights_of(plan: Path) -> Path:
    """Return a weights file of the plan."""
    others = [file for file in sorted(plan.glob("parts/*")) if file.suffix != ".onnx"]
    return others[0]


FAULTS: dict[str, tuple[Callable[[Path], object], tuple[str, ...]]] = {
    "part changed": (lambda plan: append(part_of(plan, "*.onnx")), ("parts/", "changed|digest")),
    "part removed": (
        lambda plan: part_of(plan, "*.onnx").unlink(),
        ("parts/", "missing|no such|not there|removed|is gone"),
    ),
    "weights changed": (lambda plan: flip(weights_of(plan)), ("parts/", "changed|digest")),
    "weights removed": (
        lambda plan: weights_of(plan).unlink(),
        ("parts/", "missing|no such|not there|removed|is gone"),
    ),
    "weights cut": (lambda plan: weights_of(plan).write_bytes(b""), ("parts/", "changed|digest")),
    "another version": (
        lambda plan: edit(plan, r"format_version: \d+", "format_version: 999"),
        ("999", "version"),
    ),
    "no plan.yaml": (lambda plan: (plan / "plan.yaml").unlink(), ("plan.yaml",)),
    "empty plan.yaml": (lambda plan: (plan / "plan.yaml").write_text(""), ("plan.yaml",)),
    "plan.yaml is no YAML": (
        lambda plan: (plan / "plan.yaml").write_text("a: [1, 2\n:"),
        ("plan.yaml", "YAML"),
    ),
    "plan.yaml is a list": (lambda plan: (plan / "plan.yaml").write_text("- a\n"), ("plan.yaml",)),
    "a field is missing": (
        lambda plan: edit(plan, r"(?m)^model_digest: .*\n", ""),
        ("model_digest",),
    ),
    "a field is of another type": (
        lambda plan: edit(plan, r"(?m)^makespan_s: .*$", "makespan_s: soon"),
        ("makespan_s", "soon"),
    ),
    "an unknown device": (
        lambda plan: edit(plan, r"device: cpu:1", "device: cpu:7"),
        ("cpu:7",),
    ),
    "a path that leads out": (
        lambda plan: edit(plan, r"file: parts/", "file: ../parts/"),
        (r"\.\./parts",),
    ),
    "a send is missing": (
        lambda plan: edit(plan, r"(?m)^( *)- send: .*\n(?:\1 .*\n)*", ""),
        ("send|wait",),
    ),
    "another onnxruntime": (
        lambda plan: edit(plan, r"(onnxruntime: *)\S+", r"\g<1>0.0.1"),
        ("0.0.1", "place"),
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_run_refuses_the_plan_in_one_line(fault: str, plan: Path, capfd: Capture) -> None:
    damage, words = FAULTS[fault]
    damage(plan)
    ended = run_here(capfd, "run", plan)
    line = one_line(ended)
    assert ended.code == FAULT
    for word in words:
        assert re.search(word, line, re.IGNORECASE), f"{word!r} is not in: {line}"


@pytest.mark.parametrize("fault", ["another version", "no plan.yaml", "plan.yaml is no YAML"])
def test_simulate_refuses_it_likewise(fault: str, plan: Path, capfd: Capture) -> None:
    FAULTS[fault][0](plan)
    ended = run_here(capfd, "simulate", plan)
    assert (ended.code, bool(one_line(ended))) == (FAULT, True)


def test_a_plan_that_is_not_there(tmp_path: Path, capfd: Capture) -> None:
    for command in ("run", "simulate"):
        ended = run_here(capfd, command, tmp_path / "gone")
        assert "gone" in one_line(ended)
        assert ended.code == FAULT


def test_a_plan_for_a_gpu_names_it_and_runs_when_a_cpu_may_stand_in(
    folder: Path, tmp_path: Path, capfd: Capture
) -> None:
    out = tmp_path / "plan"
    model = folder / "chain.onnx"
    place = ("place", model, "--cluster", "2xV100", "--policy", "random", "-o", out)
    assert run_here(capfd, *place).code == 0
    ended = run_here(capfd, "run", out)
    line = one_line(ended)
    assert ended.code == FAULT
    assert "gpu:0" in line
    assert "--allow-cpu" in line
    assert run_here(capfd, "run", out, "--allow-cpu").code == 0


def limit_files() -> None:
    """Let no file of this process grow beyond 300 kB."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))


@pytest.mark.parametrize("optimize", ["none", "native"])
def test_a_file_that_cannot_grow_leaves_nothing_behind(
    optimize: str, folder: Path, tmp_path: Path
) -> None:
    """With ``native`` it is the optimised graph in the temporary folder that cannot grow."""
    scratch, target = tmp_path / "scratch", tmp_path / "target"
    scratch.mkdir()
    target.mkdir()
    ended = start(
        *("place", folder / "chain.onnx", "--cluster", "1xCPU", "--policy", "single"),
        *("--optimize", optimize, "-o", target / "plan"),
        before=limit_files,
        environment={"TMPDIR": str(scratch)},
    )
    line = one_line(ended)
    assert ended.code == FAULT
    assert re.search("too large|no space|write", line, re.IGNORECASE), line
    assert "refuses the model" not in line
    left = {path.name for path in scratch.iterdir()} - {".ses"}  # written by import onnxruntime
    assert (left, list(target.iterdir())) == (set(), [])


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a file system of 400 kB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", str(disk)]
    try:
        done = subprocess.run(mount, capture_output=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no mount here")
    if done.returncode != 0:
        pytest.skip("only root can mount a small file system")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def test_a_full_disk_leaves_nothing_behind(small_disk: Path, folder: Path, capfd: Capture) -> None:
    ended = run_here(
        capfd,
        *("place", folder / "chain.onnx", "--cluster", "2xCPU", "--policy", "single"),
        *("-o", small_disk / "plan"),
    )
    line = one_line(ended)
    assert ended.code == FAULT
    assert "No space left" in line
    assert "plan" in line
    assert list(small_disk.iterdir()) == []


def test_a_model_on_standard_input_that_is_none(capfd: Capture) -> None:
    for given, words in ((b"", "empty"), (b"hello, " * 50, "not an ONNX model")):
        ended = start("place", "-", "--cluster", "2xCPU", given=given)
        assert words in one_line(ended)
        assert ended.code == FAULT


def test_a_good_model_on_standard_input() -> None:
    content = SITUATIONS["six_small_ops"]().model.SerializeToString()
    ended = start("place", "-", "--cluster", "2xCPU", "--json", given=content)
    assert ended.code == 0, ended.err
    assert ended.out.startswith("{")
