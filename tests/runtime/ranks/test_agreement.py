"""Ranks find out at the start whether they can run a plan together; here they are threads."""

import dataclasses
import shutil
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from dplace.errors import DeviceLostError, DplaceError, InputError, PlanError
from dplace.plan.records import Plan
from dplace.runtime.devices import CPU_PROVIDER
from dplace.runtime.ranks.agreement import Hello, agree, read_together
from dplace.runtime.ranks.cores import free_cores
from dplace.runtime.ranks.gathering import Gathering
from dplace.runtime.ranks.launch import Launch
from dplace.runtime.ranks.member import run_device
from tests.runtime.ranks.processes import free_port, in_threads, launches, written

HELLO = Hello(digest="ab" * 32, dplace="1.0", onnxruntime="1.20.1", torch="2.6.0+cpu")
NAMES = ("rank 0 (cpu:0)", "rank 1 (cpu:1)", "rank 2 (cpu:2)")


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            {"digest": "cd" * 32},
            (
                "rank 1 (cpu:1) holds the plan cdcdcdcdcdcd, not abababababab as rank 0 (cpu:0); "
                "copy the plan folder of rank 0 to all hosts"
            ),
        ),
        (
            {"dplace": "1.1"},
            (
                "rank 1 (cpu:1) runs dplace 1.1, not 1.0 as rank 0 (cpu:0); install one version on "
                "all hosts"
            ),
        ),
        (
            {"onnxruntime": "1.21.0"},
            (
                "rank 1 (cpu:1) runs onnxruntime 1.21, not 1.20 as rank 0 (cpu:0); install one "
                "minor version on all hosts"
            ),
        ),
        (
            {"byte_order": "big"},
            (
                "rank 1 (cpu:1) has big byte order, not little as rank 0 (cpu:0); values cross as "
                "they lie in memory"
            ),
        ),
        ({"problem": "the disk is gone"}, "rank 1 (cpu:1): the disk is gone"),
        ({"onnxruntime": "1.20.2", "torch": "2.6.1", "machine": "another"}, None),
    ],
)
def test_the_rank_that_differs_is_named(changes: dict[str, Any], expected: str | None) -> None:
    other = dataclasses.replace(HELLO, **changes)
    assert agree([HELLO, other, HELLO], NAMES) == expected


def test_what_is_wrong_on_all_ranks_names_none() -> None:
    bad = dataclasses.replace(HELLO, problem="no such folder")
    assert agree([bad, bad, bad], NAMES) == "no such folder"


def test_more_ranks_that_differ_are_counted() -> None:
    other = dataclasses.replace(HELLO, dplace="2.0")
    assert "rank 0 (cpu:0) (and 1 more ranks differ)" in (agree([HELLO, other, other], NAMES) or "")


def messages(results: Sequence[object]) -> list[str]:
    """Return what each rank says, all of them refusing the plan."""
    assert [type(result) for result in results] == [PlanError] * len(results)
    return [str(result) for result in results]


def test_ranks_with_the_files_of_their_own_devices_agree(
    there_and_back: Plan, tmp_path: Path
) -> None:
    folders = [tmp_path / "0", tmp_path / "1"]
    for folder, device in zip(folders, ("cpu:0", "cpu:1"), strict=True):
        folder.mkdir()
        written(there_and_back, folder)
        for part in there_and_back.parts:
            if part.device == device:
                (folder / "parts").mkdir(exist_ok=True)
                shutil.copy(tmp_path / part.file, folder / part.file)

    def read(gathering: Gathering) -> Plan:
        return read_together(folders[gathering.launch.rank], gathering)[0]

    assert in_threads(read, 2) == [there_and_back, there_and_back]
    (folders[1] / "parts" / "middle.onnx").write_bytes(b"changed")
    said = messages(in_threads(read, 2))
    assert said[0] == said[1]
    assert said[0].startswith("rank 1 (cpu:1): ")
    assert "parts/middle.onnx was changed since the plan was made" in said[0]


def test_different_plans_end_all_ranks(there_and_back: Plan, tmp_path: Path) -> None:
    folders = [written(there_and_back, tmp_path), tmp_path / "other"]
    shutil.copytree(tmp_path, folders[1])
    written(dataclasses.replace(there_and_back, policy="another"), folders[1])
    said = messages(
        in_threads(
            lambda gathering: read_together(folders[gathering.launch.rank], gathering),
            2,
        )
    )
    assert said[0] == said[1]
    assert said[0].startswith("rank 1 (cpu:1) holds the plan ")


@pytest.mark.parametrize("size", [1, 3])
def test_a_wrong_number_of_ranks_ends_them(size: int, there_and_back: Plan, tmp_path: Path) -> None:
    folder = written(there_and_back, tmp_path)
    said = messages(in_threads(lambda gathering: read_together(folder, gathering), size))
    started = "1 rank was" if size == 1 else "3 ranks were"
    assert set(said) == {
        (
            "the plan of model.onnx has 2 devices, one for each rank, and "
            f"{started} started; start 2, as dplace run PLAN --hosts says"
        )
    }


def test_a_rank_that_has_no_plan_ends_all(there_and_back: Plan, tmp_path: Path) -> None:
    folders = [written(there_and_back, tmp_path), tmp_path / "nowhere"]
    said = messages(
        in_threads(
            lambda gathering: read_together(folders[gathering.launch.rank], gathering),
            2,
        )
    )
    # Whoever is first to say so: rank 0 knows the device, rank 1 has nothing to know it from.
    assert len(set(said)) == 1
    assert said[0].replace(" (cpu:1)", "") == (
        f"rank 1: {folders[1]}: expected a plan folder, there is none"
    )


def test_a_device_that_is_not_where_its_rank_runs_ends_all(
    there_and_back: Plan, tmp_path: Path
) -> None:
    first, second = there_and_back.devices
    gpu = dataclasses.replace(second, provider="NoSuchExecutionProvider")
    folder = written(dataclasses.replace(there_and_back, devices=(first, gpu)), tmp_path)
    (said, _) = messages(in_threads(lambda gathering: read_together(folder, gathering), 2))
    assert said == (
        "rank 1 (cpu:1): device cpu:1: not on this machine (this onnxruntime has no "
        "NoSuchExecutionProvider); give --allow-cpu to let a CPU stand in for it"
    )
    for result in in_threads(
        lambda gathering: read_together(folder, gathering, allow_cpu=True)[1][1].provider, 2
    ):
        assert result == CPU_PROVIDER


def test_ranks_of_one_machine_have_cores_of_their_own_whatever_their_hosts(
    there_and_back: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dplace.runtime.devices.usable_cores", lambda: (3, 5))
    monkeypatch.setattr("dplace.runtime.ranks.cores.usable_cores", lambda: (3, 5))
    plan = dataclasses.replace(
        there_and_back,
        devices=tuple(
            dataclasses.replace(device, host=host, index=0)
            for host, device in enumerate(there_and_back.devices)
        ),
    )

    def cores(*machines: str) -> list[int | None]:
        hellos = [
            dataclasses.replace(HELLO, machine=name, provider=CPU_PROVIDER) for name in machines
        ]
        return [run_device(plan, rank, hellos).core for rank in range(2)]

    assert cores("a", "a") == [3, 5]
    assert cores("a", "b") == [3, 3]
    one, other = (
        dataclasses.replace(HELLO, machine=name, provider=CPU_PROVIDER) for name in ("a", "b")
    )
    assert free_cores(plan, 0, (one, other)) == {5}
    assert free_cores(plan, 0, (one, one)) == set()
    served = dataclasses.replace(
        plan, parts=tuple(part for part in plan.parts if part.device == plan.devices[1].name)
    )
    assert free_cores(served, 0, (one, one)) == {3}


def test_a_rank_that_does_not_come_is_lost(there_and_back: Plan, tmp_path: Path) -> None:
    folder = written(there_and_back, tmp_path)
    launch = launches(2)[0]
    with (
        pytest.raises(
            DeviceLostError, match=r"^lost rank 1 \(cpu:1\): it did not come within 1 s$"
        ),
        Gathering(launch, timeout_s=1.0) as gathering,
    ):
        read_together(folder, gathering)


def test_what_fails_on_rank_0_before_the_others_hear_of_it_ends_them(
    there_and_back: Plan, tmp_path: Path
) -> None:
    folder = written(there_and_back, tmp_path)

    def work(gathering: Gathering) -> None:
        if gathering.launch.rank == 0:
            raise InputError("x.npz: there is no such file")
        read_together(folder, gathering)

    first, second = in_threads(work, 2)
    assert isinstance(first, InputError)
    assert isinstance(second, DplaceError)
    assert str(second) == str(first) == "x.npz: there is no such file"


def test_an_address_that_does_not_answer_is_said_within_the_timeout() -> None:
    port = free_port()
    with pytest.raises(
        DeviceLostError, match=f"nobody answers at 127.0.0.1:{port} within 1 s; is rank 0 started"
    ):
        Gathering(Launch(rank=1, size=2, address="127.0.0.1", port=port), timeout_s=1.0)


def test_a_port_in_use_is_said() -> None:
    with socket.socket() as other:
        other.bind(("", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(InputError, match=f"127.0.0.1:{port} is in use by another program"):
            Gathering(Launch(rank=0, size=2, address="127.0.0.1", port=port), timeout_s=1.0)
