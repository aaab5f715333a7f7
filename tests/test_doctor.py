"""What is found out about the machine, and what counts as a fault."""

import json
import os
import sys
from pathlib import Path

import pytest

from dplace.examination import (
    Check,
    Probe,
    core_checks,
    core_quota,
    dgl_check,
    examine,
    memory_bytes,
    onnxruntime_distributions,
    probe,
    provider_checks,
    runtimes_check,
)


def install(folder: Path, name: str, *, package: str = "onnxruntime") -> None:
    """Make a distribution with one package."""
    metadata = folder / f"{name.replace('-', '_')}-1.2.3.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.2.3\n")
    (metadata / "RECORD").write_text(f"{package}/__init__.py,,\n")


def test_every_distribution_that_installs_onnxruntime_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    install(tmp_path, "onnxruntime")
    install(tmp_path, "onnxruntime-gpu")
    install(tmp_path, "ort-nightly")
    install(tmp_path, "onnxruntime-genai", package="onnxruntime_genai")
    found = onnxruntime_distributions()
    assert found == {"onnxruntime": "1.2.3", "onnxruntime-gpu": "1.2.3", "ort-nightly": "1.2.3"}


def test_several_of_them_are_a_fault() -> None:
    check = runtimes_check(["onnxruntime", "onnxruntime-gpu"])
    assert check.status == "fault"
    assert "pip uninstall onnxruntime onnxruntime-gpu" in check.message
    assert runtimes_check([]).status == "fault"
    assert runtimes_check(["onnxruntime"]).status == "ok"


PROVIDERS = Probe(
    output=json.dumps(
        [
            ["TensorrtExecutionProvider", "CUDAExecutionProvider", "CPUExecutionProvider"],
            {
                "TensorrtExecutionProvider": "/src/a.cc:7 void f(int&, g&) Please install TensorRT",
                "CUDAExecutionProvider": "no libcublasLt",
                "CPUExecutionProvider": "works",
            },
        ]
    ),
    reason="",
)


@pytest.mark.parametrize(("has_gpu", "status"), [(True, "fault"), (False, "note")])
def test_cuda_that_does_not_work_is_a_fault_where_there_is_a_gpu(
    has_gpu: bool, status: str
) -> None:
    tensorrt, cuda, cpu = provider_checks(PROVIDERS, has_gpu=has_gpu)
    assert (tensorrt.status, cuda.status, cpu.status) == ("note", status, "ok")
    assert "no libcublasLt" in cuda.message
    assert tensorrt.message == "does not work here: Please install TensorRT"


def test_an_onnxruntime_that_cannot_be_imported_is_a_fault() -> None:
    tried = Probe(output="", reason="ImportError: no InferenceSession")
    assert provider_checks(tried, has_gpu=False) == [
        Check(status="fault", subject="providers", message="ImportError: no InferenceSession")
    ]


REMEDY = "run: pip install dgl==1.1.3, and set DGLBACKEND=pytorch before importing it"
LOADS = Probe(output="1.1.3", reason="")


@pytest.mark.parametrize(
    ("installed", "tried", "status", "message"),
    [
        ("1.1.3", LOADS, "ok", "loads"),
        ("1.1.3+cu118", LOADS, "ok", "loads"),
        ("2.4.0", LOADS, "note", "loads, but is 2.4.0; dplace is tested with dgl==1.1.3"),
        (
            None,
            LOADS,
            "fault",
            f"not installed; {REMEDY}",
        ),
        (
            "2.4.0",
            Probe(output="", reason="OSError: no graphbolt library"),
            "fault",
            f"cannot be imported: OSError: no graphbolt library; {REMEDY}",
        ),
    ],
)
def test_dgl(installed: str | None, tried: Probe, status: str, message: str) -> None:
    check = dgl_check(installed, tried)
    assert (check.status, check.message) == (status, message)


def test_a_probe_gives_the_last_line() -> None:
    assert probe("print('loading'); print('1.1.3')") == LOADS


def test_a_probe_that_fails_says_why_in_one_line() -> None:
    reason = probe("import sys; sys.path.clear(); import nothing_like_it").reason
    assert reason == "ModuleNotFoundError: No module named 'nothing_like_it'"


def test_a_probe_that_crashes_does_not_take_this_process_along() -> None:
    crash = "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"
    assert probe(crash).reason == "the process was ended by signal 11"


def test_a_probe_writes_to_a_home_that_is_thrown_away() -> None:
    program = "import os; print(os.environ['DGLBACKEND'], os.path.expanduser('~'))"
    backend, home = probe(program).output.split()
    assert backend == "pytorch"
    assert home != os.path.expanduser("~")  # noqa: PTH111
    assert not Path(home).exists()


@pytest.mark.parametrize(
    ("text", "quota"), [("150000 100000\n", 1.5), ("max 100000\n", None), ("", None)]
)
def test_the_cores_that_a_container_allows(tmp_path: Path, text: str, quota: float | None) -> None:
    file = tmp_path / "cpu.max"
    file.write_text(text)
    assert core_quota(file) == quota
    assert core_quota(tmp_path / "missing") is None


def test_a_container_that_allows_less_than_its_cores_is_noted() -> None:
    assert core_checks(4, None) == core_checks(4, 4.0) == []
    (check,) = core_checks(4, 1.5)
    assert check.status == "note"
    assert check.message.startswith("4 can be used, but only 1.5 of them all the time")


def test_there_is_memory() -> None:
    assert memory_bytes() > 2**20


def test_where_these_tests_run_dplace_has_what_it_needs() -> None:
    report = examine()
    assert report.cores >= 1
    assert report.versions["dgl"] == "1.1.3"
    found = {check.subject: check.status for check in report.checks}
    needed = ("onnxruntime", "CPUExecutionProvider", "dgl")
    assert [found[subject] for subject in needed] == ["ok", "ok", "ok"]
