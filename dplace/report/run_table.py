"""The report of ``run`` as a table, at most 80 columns wide."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from dplace.report.plain import change_text, time_text
from dplace.report.table import cell, columns, facts

if TYPE_CHECKING:
    from dplace.runtime.check import OutputDifference
    from dplace.runtime.gaps import Gaps
    from dplace.runtime.report import RunReport

__all__ = ["run_table"]

SHOWN_OUTPUTS = 20


def run_table(report: RunReport) -> RenderableType:
    """Return a run for people: a headline, the devices, the differences, what was fed and saved.

    Where it was traced, how far it was from its prediction follows the devices.
    """
    measured, plan = report.measurement, report.plan
    latency = (
        f"min {time_text(measured.min_s)}, median {time_text(measured.median_s)}, "
        f"p90 {time_text(measured.p90_s)} over {len(measured.latencies_s)} runs"
    )
    headline = f"Took {time_text(measured.median_s)}, predicted {time_text(plan.makespan_s)}"
    lines = [("Model", plan.model), ("Latency", latency)]
    lines += evenness(report)
    if report.drawn:
        lines.append(("Drawn", ", ".join(report.drawn)))
    if report.saved is not None:
        lines.append(("Outputs", str(report.saved)))
    body: list[RenderableType] = [Text(headline, style="bold"), "", device_table(report), ""]
    if len(measured.latencies_s) > 1 and report.plan.parts:
        body += [spread_table(report), ""]
    if report.gaps is not None:
        run = f"run {measured.median_run + 1} of {len(measured.latencies_s)}"
        lines.append(("Trace", f"{report.trace}: {run}, the median, beside its prediction"))
        if report.gaps.parts:
            body += [furthest_table(report.gaps), "", cause_table(report.gaps), ""]
    if report.checked is not None:
        lines.append(("Check", check_text(report)))
        body += [difference_table(report.differences), ""]
    return Group(*body, facts(lines))


def evenness(report: RunReport) -> list[tuple[str, str]]:
    """Return how even the runs were and how long devices waited for the last one."""
    measured = report.measurement
    lines: list[tuple[str, str]] = []
    if len(measured.latencies_s) > 1:
        most = time_text(measured.spread.max_s)
        deviation = percent(measured.spread.relative_deviation)
        lines.append(("Spread", f"max {most}, standard deviation {deviation} of the mean"))
    if sum(device.done_s is not None for device in measured.device_spreads) > 1:
        effect = measured.stragglers
        waits = f"a device waits at the end for {percent(effect.mean)} of a run"
        lines.append(("Stragglers", f"{waits}, at most {percent(effect.max)}"))
    return lines


def device_table(report: RunReport) -> Table:
    """Return a row for each device: its parts and how long it was busy in a run."""
    table = columns("Device", "Kind", ">Parts", ">Busy", ">Predicted", ">of the time", ">Idle")
    measured = report.measurement
    median_s = measured.median_s
    rows = zip(report.plan.devices, measured.devices, measured.device_spreads, strict=True)
    for planned, use, spread in rows:
        share = use.busy_s / median_s if median_s > 0 else 0.0
        table.add_row(
            cell(planned.name),
            cell(planned.kind),
            str(use.parts),
            time_text(use.busy_s),
            time_text(planned.busy_s),
            percent(share),
            f"{time_text(spread.idle_s)} ({percent(spread.idle_share)})",
        )
    return table


def spread_table(report: RunReport) -> Table:
    """Return when each device that works was done in a run, and how long it waits after that."""
    table = columns("Done after", ">min", ">median", ">p90", ">max", ">deviation", ">waits")
    measured = report.measurement
    for use, spread in zip(measured.devices, measured.device_spreads, strict=True):
        if spread.done_s is not None:
            done = spread.done_s
            times = (done.min_s, done.median_s, done.p90_s, done.max_s)
            table.add_row(
                cell(use.name),
                *map(time_text, times),
                percent(done.relative_deviation),
                time_text(spread.waits_s),
            )
    return table


def furthest_table(gaps: Gaps) -> Table:
    """Return the three parts that are furthest from their prediction, their calls included."""
    table = columns("Furthest part", "Device", ">Predicted", ">Took", ">Ratio", ">of it calls")
    for part in gaps.furthest():
        table.add_row(
            cell(part.name),
            cell(part.device),
            time_text(part.total.predicted_s),
            time_text(part.total.measured_s),
            f"{part.total.ratio:.2f}x",
            time_text(part.call.measured_s),
        )
    return table


def cause_table(gaps: Gaps) -> Table:
    """Return for each device how much more time than predicted went where."""
    table = columns("Over prediction", ">Compute", ">Calls", ">Request", ">Waiting", ">Together")
    for device in gaps.devices:
        causes = [
            both.difference_s
            for both in (device.compute, device.calls, device.request, device.waiting)
        ]
        table.add_row(cell(device.name), *map(change_text, (*causes, sum(causes))))
    return table


def percent(share: float) -> str:
    """Return a share in whole percent.

    >>> percent(0.126)
    '13 %'
    """
    return f"{share * 100:.0f} %"


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
