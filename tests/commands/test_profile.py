"""``dplace profile``: options in, one call, an answer out; and once for real."""

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from dplace.commands.terminal import say
from dplace.errors import InputError
from dplace.profiles.store import read_profile
from dplace.report.profile import (
    OpTypeTime,
    ProfiledCalls,
    ProfiledLinks,
    ProfiledModel,
    ProfileReport,
)
from tests.commands.conftest import Dplace, Record
from tests.graph_io.models import parse


def profiled(**changes: Any) -> ProfiledModel:
    """Return a model of three ops, 4 ms."""
    made: dict[str, Any] = {
        "model": "towers.onnx",
        "device": "CPU",
        "optimize": "native",
        "opt_level": "all",
        "dims": {"batch": 8},
        "call_s": 0.004,
        "relative_error": 0.008,
        "runs": 24,
        "ops": 3,
        "signatures": 2,
        "seconds": 1.25,
        "by_type": (
            OpTypeTime(op_type="MatMul", ops=2, signatures=1, seconds=0.003, share=0.75),
            OpTypeTime(op_type="Relu", ops=1, signatures=1, seconds=0.001, share=0.25),
        ),
        "path": Path("p.json"),
    }
    return ProfiledModel(**(made | changes))


LINKS = ProfiledLinks(
    device="CPU",
    between="devices",
    calls=(
        ProfiledCalls(
            working_set_bytes=800_000,
            call_overhead_s=25e-6,
            single_call_overhead_s=30e-6,
            request_s=90e-6,
        ),
        ProfiledCalls(
            working_set_bytes=59_000_000,
            call_overhead_s=80e-6,
            single_call_overhead_s=95e-6,
            request_s=150e-6,
        ),
    ),
    latency_s=31e-6,
    bytes_per_s=9.5e9,
    relative_error=0.12,
    path=Path("links.json"),
)


def test_defaults(dplace: Dplace, record: Record) -> None:
    calls = record("profile", ProfileReport(models=(profiled(),))).calls
    assert dplace("profile", "a.onnx", "b.onnx").code == 0
    expected: dict[str, object] = {
        "device": "CPU",
        "out": None,
        "dims": {},
        "optimize": "auto",
        "opt_level": "all",
        "inputs": None,
        "seed": 0,
        "limit_s": 20.0,
    }
    assert calls == [((["a.onnx", "b.onnx"],), expected)]


def test_every_option_arrives(dplace: Dplace, record: Record) -> None:
    calls = record("profile", ProfileReport(models=(profiled(),))).calls
    dplace(
        *("profile", "a.onnx", "--device", "H100", "-o", "p.json", "--dim", "n=2"),
        *("--optimize", "portable", "--opt-level", "basic", "--inputs", "x.npz"),
        *("--seed", "3", "--limit", "1.5", "--json"),
    )
    assert calls[0][1] == {
        "device": "H100",
        "out": Path("p.json"),
        "dims": {"n": 2},
        "optimize": "portable",
        "opt_level": "basic",
        "inputs": Path("x.npz"),
        "seed": 3,
        "limit_s": 1.5,
    }


def test_links(dplace: Dplace, record: Record) -> None:
    calls = record("profile_links", ProfileReport(links=LINKS)).calls
    result = dplace("profile", "--links", "-o", "l.json", "--connect", "10.0.0.2:5000")
    assert calls == [
        (
            (),
            {
                "device": "CPU",
                "out": Path("l.json"),
                "listen": None,
                "connect": "10.0.0.2:5000",
                "progress": say,
            },
        )
    ]
    assert (
        result.out
        == """\
Between    two CPU devices of one process
Calls      800.0 kB a device: 0.025 ms a part, 0.090 ms a request, 0.030 ms
           alone
Calls      59.0 MB a device: 0.080 ms a part, 0.150 ms a request, 0.095 ms alone
Latency    0.031 ms
Bandwidth  9.50 GB/s
Fit        half of the sizes are within 12 %
Stored     links.json
"""
    )


def test_the_table(dplace: Dplace, record: Record) -> None:
    record("profile", ProfileReport(models=(profiled(),), warnings=("batch is taken as 1",)))
    result = dplace("profile", "towers.onnx")
    assert result.err == "dplace: warning: batch is taken as 1\n"
    assert (
        result.out
        == """\
towers.onnx takes 4.000 ms on CPU (+- 0.8 %, 24 runs)

Op type  Ops  Signatures      Time  of the model
MatMul     2           1  3.000 ms        75.0 %
Relu       1           1  1.000 ms        25.0 %

Measured    3 ops of 2 signatures in 1.2 s
Optimized   native, all
Dimensions  batch=8
Stored      p.json
"""
    )


def test_many_types_are_summed_up(dplace: Dplace, record: Record) -> None:
    types = tuple(
        OpTypeTime(op_type=f"Op{i}", ops=1, signatures=1, seconds=0.001, share=0.04)
        for i in range(25)
    )
    record("profile", ProfileReport(models=(profiled(by_type=types),)))
    lines = dplace("profile", "towers.onnx").out.splitlines()
    assert lines[23].split() == ["5", "more", "5", "5", "5.000", "ms", "20.0", "%"]


def test_json(dplace: Dplace, record: Record) -> None:
    record("profile", ProfileReport(models=(profiled(),)))
    shown = json.loads(dplace("profile", "towers.onnx", "--json").out)
    assert shown["links"] is None
    assert shown["models"][0]["path"] == "p.json"
    assert shown["models"][0]["by_type"][0] == {
        "op_type": "MatMul",
        "ops": 2,
        "signatures": 1,
        "seconds": 0.003,
        "share": 0.75,
    }


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("a.onnx", "--links"),
        ("a.onnx", "--connect", "10.0.0.2:5000"),
        ("--listen", "10.0.0.2:5000"),
        ("--links", "--listen", "10.0.0.2:5000", "--connect", "10.0.0.2:5000"),
        ("--links", "--listen", "10.0.0.2:5000", "-o", "l.json"),
        ("--links", "--connect", ""),
        ("a.onnx", "--limit", "-1"),
        ("--links", "--dim", "n=2"),
        ("--links", "--opt-level", "all"),
        ("--links", "--limit", "20"),
    ],
)
def test_options_that_do_not_go_together(dplace: Dplace, arguments: tuple[str, ...]) -> None:
    result = dplace("profile", *arguments)
    assert result.code == 2
    assert result.out == ""


@pytest.mark.parametrize(
    "arguments", [("--listen", "nonsense"), ("--listen", "127.0.0.1:0", "--device", "abacus")]
)
def test_nobody_is_waited_for_before_the_options_are_right(
    dplace: Dplace, arguments: tuple[str, ...]
) -> None:
    result = dplace("profile", "--links", *arguments)
    assert result.err.startswith("dplace: error: ")
    assert result.err.count("\n") == 1


@pytest.mark.parametrize(
    ("device", "message"),
    [
        ("V100", "device V100: not on this machine: this onnxruntime has no CUDAExecutionProvider"),
        ("abacus", "device kind 'abacus': unknown; "),
    ],
)
def test_a_device_that_is_not_here_is_one_line(
    dplace: Dplace, monkeypatch: pytest.MonkeyPatch, device: str, message: str
) -> None:
    monkeypatch.setattr("dplace.runtime.devices.working_providers", dict)
    result = dplace("profile", "m.onnx", "--device", device)
    assert result.code == 1
    assert result.err.startswith(f"dplace: error: {message}")
    assert result.err.count("\n") == 1


def test_a_folder_is_no_file_to_write(dplace: Dplace, tmp_path: Path) -> None:
    result = dplace("profile", "m.onnx", "-o", str(tmp_path))
    assert result.code == 1
    assert "expected a file for the profile, got a folder" in result.err


@pytest.mark.parametrize("arguments", [("m.onnx",), ("--links",)])
def test_a_data_folder_that_cannot_be_is_refused_before_anything_is_measured(
    dplace: Dplace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    def measure(*_: object, **__: object) -> None:
        raise AssertionError("measured for nothing")

    monkeypatch.setattr("dplace.graph_io.read.read_model", measure)
    monkeypatch.setattr("dplace.profiles.links.measure_links", measure)
    home = tmp_path / "home"
    home.write_text("a file")
    monkeypatch.setenv("DPLACE_HOME", str(home))
    result = dplace("profile", *arguments)
    assert result.code == 1
    assert result.err == (
        f"dplace: error: {home}/profiles: no profile can be written there: Not a directory\n"
    )
    assert [path.name for path in tmp_path.iterdir()] == ["home"]


def test_a_real_profile_is_stored_and_used(dplace: Dplace, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    text = "g (float[64,64] x) => (float[64,64] y) { a = Sin(x)  y = Cos(a) }"
    path.write_bytes(parse(text).SerializeToString())
    shown = json.loads(dplace("profile", str(path), "--limit", "0.5", "--json").out)
    (model,) = shown["models"]
    assert model["ops"] == model["signatures"] == 2
    assert sorted(row["op_type"] for row in model["by_type"]) == ["Cos", "Sin"]
    (stored,) = read_profile(Path(model["path"])).models
    assert stored.model_digest.startswith("sha256:")
    answer = json.loads(dplace("place", str(path), "--cluster", "1xCPU", "--json").out)
    assert answer["measured_share"] == 1.0
    assert answer["makespan_s"] == pytest.approx(sum(op.seconds for op in stored.ops), abs=100e-6)


def test_an_error_of_the_library_is_one_line(dplace: Dplace, api: ModuleType) -> None:
    def fail(*_: object, **__: object) -> None:
        raise InputError("m.onnx: no such file")

    api.profile = fail  # type: ignore[attr-defined]
    result = dplace("profile", "m.onnx")
    assert (result.code, result.err) == (1, "dplace: error: m.onnx: no such file\n")
