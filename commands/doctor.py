"""``dplace doctor``: what this machine can do, and what stands in the way."""

import typer

from dplace.commands.options import Json
from dplace.commands.terminal import write_json, write_table

__all__ = ["doctor"]


def doctor(json: Json = False) -> None:
    """Check this machine's packages, devices and cores.

    Example: dplace doctor

    The exit code is 1 if there is a fault to mend.
    """
    import dplace.api

    report = dplace.api.doctor()
    if json:
        write_json(report.as_json())
    else:
        from dplace.report.doctor import doctor_table

        write_table(doctor_table(report))
    if report.num_faults:
        raise typer.Exit(1)
