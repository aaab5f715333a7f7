"""The answer of ``profile`` as tables, at most 80 columns wide."""

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from dplace.report.plain import size_text, time_text
from dplace.report.profile import ProfiledCalls, ProfiledLinks, ProfiledModel, ProfileReport
from dplace.report.table import cell, columns, facts

__all__ = ["profile_table"]

SHOWN_TYPES = 20


def profile_table(report: ProfileReport) -> RenderableType:
    """Return what was measured, for people."""
    blocks: list[RenderableType] = []
    for model in report.models:
        blocks += [*_model_blocks(model), ""]
    if report.links is not None:
        blocks += [_links_block(report.links), ""]
    return Group(*blocks[:-1])


def _model_blocks(model: ProfiledModel) -> list[RenderableType]:
    head = Text(
        f"{model.model} takes {time_text(model.call_s)} on {model.device} "
        f"(+- {model.relative_error * 100:.1f} %, {model.runs} runs)",
        style="bold",
    )
    lines = [
        ("Measured", f"{model.ops} ops of {model.signatures} signatures in {model.seconds:.1f} s"),
        ("Optimized", f"{model.optimize}, {model.opt_level}"),
    ]
    if model.dims:
        sizes = ", ".join(f"{name}={size}" for name, size in model.dims.items())
        lines.append(("Dimensions", sizes))
    lines.append(("Stored", str(model.path)))
    return [head, "", _type_table(model), "", facts(lines)]


def _type_table(model: ProfiledModel) -> Table:
    table = columns("Op type", ">Ops", ">Signatures", ">Time", ">of the model")
    for row in model.by_type[:SHOWN_TYPES]:
        table.add_row(
            cell(row.op_type),
            str(row.ops),
            str(row.signatures),
            time_text(row.seconds),
            f"{row.share * 100:.1f} %",
        )
    rest = model.by_type[SHOWN_TYPES:]
    if rest:
        table.add_row(
            cell(f"{len(rest)} more"),
            str(sum(row.ops for row in rest)),
            str(sum(row.signatures for row in rest)),
            time_text(sum(row.seconds for row in rest)),
            f"{sum(row.share for row in rest) * 100:.1f} %",
        )
    return table


def _links_block(links: ProfiledLinks) -> RenderableType:
    network = links.between == "hosts"
    lines = [
        ("Between", "two hosts" if network else f"two {links.device} devices of one process"),
        ("Latency", time_text(links.latency_s)),
        ("Bandwidth", f"{links.bytes_per_s / 1e9:.2f} GB/s"),
        ("Fit", f"half of the sizes are within {links.relative_error * 100:.0f} %"),
    ]
    if not network:
        lines[1:1] = [
            ("Calls", f"{size_text(calls.working_set_bytes)} a device: {_calls_text(calls)}")
            for calls in links.calls
        ]
    lines.append(("Stored", str(links.path)))
    return facts(lines)


def _calls_text(calls: ProfiledCalls) -> str:
    part, request = time_text(calls.call_overhead_s), time_text(calls.request_s)
    return f"{part} a part, {request} a request, {time_text(calls.single_call_overhead_s)} alone"
