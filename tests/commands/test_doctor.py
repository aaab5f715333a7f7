"""``dplace doctor``: nothing in, a verdict out."""

import dataclasses
import json

from dplace.examination import Check, DoctorReport
from tests.commands.conftest import Dplace, Record

WELL = DoctorReport(
    python="3.11.7",
    versions={"onnx": "1.23.2"},
    cores=2,
    memory_bytes=16_000_000_000,
    checks=(Check(status="ok", subject="dgl", message="loads"),),
)
ILL = dataclasses.replace(
    WELL, checks=(Check(status="fault", subject="dgl", message="not installed"),)
)


def test_exit_code_0_when_all_is_well(dplace: Dplace, record: Record) -> None:
    record("doctor", WELL)
    result = dplace("doctor")
    assert (result.code, result.err) == (0, "")
    assert result.out.endswith("\nAll is well\n")


def test_exit_code_1_and_the_whole_report_when_there_is_a_fault(
    dplace: Dplace, record: Record
) -> None:
    record("doctor", ILL)
    result = dplace("doctor")
    assert (result.code, result.err) == (1, "")
    assert result.out.endswith("\nfault  dgl  not installed\n\n1 fault to mend\n")


def test_json(dplace: Dplace, record: Record) -> None:
    record("doctor", ILL)
    result = dplace("doctor", "--json")
    assert result.code == 1
    assert json.loads(result.out) == {
        "python": "3.11.7",
        "versions": {"onnx": "1.23.2"},
        "cores": 2,
        "memory_bytes": 16_000_000_000,
        "faults": 1,
        "checks": [{"status": "fault", "subject": "dgl", "message": "not installed"}],
    }
