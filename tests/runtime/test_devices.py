import dataclasses
import logging
import os
from pathlib import Path

import onnxruntime
import pytest

from dplace.errors import DplaceError, PlanError
from dplace.plan.records import Plan
from dplace.runtime.devices import resolve_devices, usable_cores, working_providers
from dplace.runtime.fingerprint import check_fingerprint, cpu_features, runtime_fingerprint
from dplace.runtime.placed_session import PlacedSession
from tests.runtime.plans import given, make_plan, node_model

HAS_GPU = working_providers().get("CUDAExecutionProvider") == "works"


def plan_on(folder: Path, provider: str, kind: str, count: int = 2) -> Plan:
    return make_plan(
        folder,
        {f"p{i}": (f"gpu:{i}", node_model("Neg", [f"v{i}"], [f"v{i + 1}"])) for i in range(count)},
        {f"gpu:{i}": [f"run p{i}"] for i in range(count)},
        inputs=[given("v0", shape=["N"])],
        outputs=[given(f"v{count}", shape=["N"])],
        provider=provider,
        kind=kind,
    )


def test_only_providers_that_make_a_session_work(capfd: pytest.CaptureFixture[str]) -> None:
    found = working_providers()
    assert found["CPUExecutionProvider"] == "works"
    assert set(found) == set(onnxruntime.get_available_providers())
    assert capfd.readouterr() == ("", "")


@pytest.mark.skipif(HAS_GPU, reason="there is a GPU")
@pytest.mark.parametrize("provider", ["CUDAExecutionProvider", "NoSuchExecutionProvider"])
def test_a_device_that_is_not_here_is_named(
    tmp_path: Path, provider: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(DplaceError, match=r"device gpu:0: not on this machine .*--allow-cpu"):
        PlacedSession(plan_on(tmp_path, provider, "V100"), folder=tmp_path)
    assert capfd.readouterr() == ("", "")


@pytest.mark.skipif(HAS_GPU, reason="there is a GPU")
def test_the_cpu_stands_in_where_it_may(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    plan = plan_on(tmp_path, "CUDAExecutionProvider", "V100")
    with PlacedSession(plan, folder=tmp_path, allow_cpu=True) as session:
        assert session.run(None, {"v0": [1.0]})[0].tolist() == [1.0]
        assert [device.is_cpu for device in session.devices] == [True, True]
    assert "the CPU stands in for gpu:0, gpu:1" in caplog.text


def test_a_plan_for_two_hosts_needs_leave_to_run_on_one(tmp_path: Path) -> None:
    plan = plan_on(tmp_path, "CPUExecutionProvider", "CPU")
    devices = (plan.devices[0], dataclasses.replace(plan.devices[1], host=1))
    plan = dataclasses.replace(plan, devices=devices)
    with pytest.raises(PlanError, match="for 2 hosts"):
        resolve_devices(plan, allow_cpu=False)
    assert len(resolve_devices(plan, allow_cpu=True)) == 2


def test_cpu_devices_take_the_cores_they_are_numbered_by(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plan_on(tmp_path, "CPUExecutionProvider", "CPU", count=3)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {2, 3, 5, 7})
    assert usable_cores() == (2, 3, 5, 7)
    with caplog.at_level(logging.WARNING):
        assert [device.core for device in resolve_devices(plan, allow_cpu=False)] == [2, 3, 5]
        devices = tuple(
            dataclasses.replace(device, index=index)
            for device, index in zip(plan.devices, (3, 0, 1), strict=True)
        )
        numbered = dataclasses.replace(plan, devices=devices)
        assert [one.core for one in resolve_devices(numbered, allow_cpu=False)] == [7, 2, 3]
        assert caplog.text == ""
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: {4, 6})
        assert [device.core for device in resolve_devices(plan, allow_cpu=False)] == [4, 6, 4]
    assert "3 CPU devices and this process may use 2" in caplog.text


def test_a_native_plan_runs_where_it_was_made(tmp_path: Path) -> None:
    plan = plan_on(tmp_path, "CPUExecutionProvider", "CPU")
    native = dataclasses.replace(plan, optimize="native", runtime=runtime_fingerprint())
    check_fingerprint(native)
    with PlacedSession(native, folder=tmp_path) as session:
        assert session.run(None, {"v0": [1.0]})[0].tolist() == [1.0]


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("onnxruntime", "1.0.0", "onnxruntime is .*, not 1.0.0; place the model again here, or "),
        ("cpu", "riscv64 rvv", r"cpu is \w+ .*, not riscv64 rvv"),
        ("cpu", f"{cpu_features()} avx9", "here the CPU lacks avx9; place"),
        ("cpu", cpu_features().rsplit(" ", 1)[0], "here the CPU also has"),
    ],
)
def test_a_native_plan_of_another_machine_is_refused(
    tmp_path: Path, field: str, value: str, message: str
) -> None:
    plan = plan_on(tmp_path, "CPUExecutionProvider", "CPU")
    runtime = runtime_fingerprint() | {field: value}
    native = dataclasses.replace(plan, optimize="native", runtime=runtime)
    with pytest.raises(PlanError, match=message):
        PlacedSession(native, folder=tmp_path)
    check_fingerprint(dataclasses.replace(native, optimize="portable"))


def test_the_cpus_features_are_those_that_kernels_are_chosen_by(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("processor : 0\nflags\t\t: fpu sse4_2 avx512f avx2 hypervisor amx_int8\n")
    assert cpu_features(cpuinfo) == "x86_64 amx_int8 avx2 avx512f sse4_2"
    assert cpu_features(tmp_path / "none") == "x86_64"
