"""The report on this machine as tables, at most 80 columns wide."""

from rich.console import Group, RenderableType

from dplace.examination import DoctorReport
from dplace.report.plain import size_text
from dplace.report.table import cell, columns

__all__ = ["doctor_table"]


def doctor_table(report: DoctorReport) -> RenderableType:
    """Return the report for people: the machine, the versions, the checks, the verdict."""
    versions = columns("Package", "Version")
    for package, version in report.versions.items():
        versions.add_row(cell(package), cell(version or "not installed"))
    checks = columns("Check", "", "")
    for check in report.checks:
        checks.add_row(check.status, cell(check.subject), cell(check.message))
    machine = (
        f"Python {report.python}, {report.cores} {'core' if report.cores == 1 else 'cores'}, "
        f"{size_text(report.memory_bytes)} of memory"
    )
    faults = report.num_faults
    verdict = (
        f"{faults} {'fault' if faults == 1 else 'faults'} to mend" if faults else "All is well"
    )
    return Group(machine, "", versions, "", checks, "", verdict)
