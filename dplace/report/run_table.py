"""The report of ``run`` as a table, at most 80 columns wide."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from dplace.report.plain import time_text
from dplace.report.table import cell, columns, facts

if TYPE_CHECKING:
    from dplace.runtime.check import OutputDifference
    from dplace.runtime.report import RunReport

__all__ = ["run_table"]

SHOWN_OUTPUTS = 20


def run_table(report: RunReport) -> RenderableType:
    """Return a run for people: a headline, the devices, the differences, what was fed and saved."""
    measured, plan = report.measurement, report.plan
    latency = (
        f"min {time_text(measured.min_s)}, median {time_text(measured.median_s)}, "
        f"p90 {time_text(measured.p90_s)} over {len(measured.latencies_s)} runs"
    )
    headline = f"Took {time_text(measured.median_s)}, predicted {time_text(plan.makespan_s)}"
    lines = [("Model", plan.model), ("Latency", latency)]
    if report.drawn:
        lines.append(("Drawn", ", ".join(report.drawn)))
    if report.saved is not None:
        lines.append(("Outputs", str(report.saved)))
    body: list[RenderableType] = [Text(headline, style="bold"), "", device_table(report), ""]
    if report.checked is not None:
        lines.append(("Check", check_text(report)))
        body += [difference_table(report.differences), ""]
    return Group(*body, facts(lines))


def device_table(report: RunReport) -> Table:
    """Return a row for each device: its parts and how long it was busy in a run."""
    table = columns("Device", "Kind", ">Parts", ">Busy", ">Predicted", ">of the time")
    median_s = report.measurement.median_s
    for planned, use in zip(report.plan.devices, report.measurement.devices, strict=True):
        share = use.busy_s / median_s if median_s > 0 else 0.0
        table.add_row(
            cell(planned.name),
            cell(planned.kind),
            str(use.parts),
            time_text(use.busy_s),
            time_text(planned.busy_s),
            f"{share * 100:.0f} %",
        )
    return table


def difference_table(differences: tuple[OutputDifference, ...]) -> Table:
    """Return a row for each output, the furthest off first where there are many."""
    table = columns("Output", ">max abs diff", ">max rel diff", ">allowed", "")
    shown = differences
    if len(differences) > SHOWN_OUTPUTS:
        shown = tuple(sorted(differences, key=lambda one: -one.max_abs_diff)[:SHOWN_OUTPUTS])
    for output in shown:
        allowed = f"{output.tolerance.atol:.3g}"
        if output.tolerance.rtol:
            allowed += f" + {output.tolerance.rtol:.3g} rel"
        table.add_row(
            cell(output.name),
            f"{output.max_abs_diff:.3g}",
            f"{output.max_rel_diff:.3g}",
            allowed,
            "ok" if output.is_within else "too far",
        )
    if len(differences) > len(shown):
        table.add_row(cell(f"{len(differences) - len(shown)} more, no further off"), "", "", "", "")
    return table


def check_text(report: RunReport) -> str:
    """Return in words how the outputs compare with the whole model's."""
    if report.max_abs_diff == 0:
        return f"equal to {report.checked} in one session, bit for bit"
    word = "within" if report.failure is None else "beyond"
    return f"{word} what is allowed against {report.checked} in one session"
