"""A comparison of policies as tables, one a model, at most 80 columns wide."""

import math

from rich.console import Group, RenderableType
from rich.text import Text

from dplace.report.comparison import ComparedModel, Comparison, PolicyRow
from dplace.report.plain import figure_text, plain, size_text
from dplace.report.table import cell, columns

__all__ = ["comparison_table"]

_BY_ORDER = (">Rate", ">Straggling", ">Gap", ">Speed", ">Sent", ">Bytes", ">s")

_FIGURES = (">Gap", ">Speed", ">Sent", ">Bytes", ">Peak", ">Evals", ">s")

_WIDTH = 80


def comparison_table(comparison: Comparison) -> RenderableType:
    """Return a table for each model, the best makespan of it in bold."""
    parts: list[RenderableType] = []
    for model in comparison.models:
        if parts:
            parts.append("")
        parts.append(Text(plain(model.model), style="bold"))
        if model.error is not None:
            parts.append(Text(plain(f"failed: {model.error}")))
            continue
        parts += [Text(plain(line)) for line in _about(comparison, model)]
        parts.append(_policies(comparison, model))
        parts += [
            Text(plain(f"{row.policy}: {row.error}")) for row in model.rows if row.error is not None
        ]
    return Group(*parts)


def _about(comparison: Comparison, model: ComparedModel) -> list[str]:
    """Return the lines above a model's table."""
    single_s = model.best_single_device_s
    known = ""
    if any(row.error is None for row in model.rows):
        alone = (
            f"one device {_figure(model, single_s)}"
            if math.isfinite(single_s)
            else "one device cannot hold it"
        )
        known = f": {alone}, bound {_figure(model, model.bound_s)}"
    return [
        f"{model.num_ops} ops ({model.format}) on {model.cluster}",
        f"{comparison.objective} by {model.machine}, in {model.unit}{known}",
    ]


def _policies(comparison: Comparison, model: ComparedModel) -> RenderableType:
    means = [">Mean"] if comparison.seeds > 1 else []
    headers = ["Policy", ">Best", *means, *_FIGURES]
    if comparison.is_by_order:
        headers = ["Policy", "Order", ">Best", *means, *_BY_ORDER]
    cells = [_cells(comparison, model, row) for row in model.rows]
    table = columns(*headers)
    names = [header.removeprefix(">") for header in headers]
    widths = [max(map(len, column)) for column in zip(names, *cells, strict=True)]
    if sum(widths) + 2 * (len(widths) - 1) > _WIDTH:
        table.padding = (0, 1, 0, 0)
    best_s = min((row.best_s for row in model.rows), default=math.inf)
    for row, texts in zip(model.rows, cells, strict=True):
        style = "bold" if row.error is None and row.best_s == best_s else ""
        table.add_row(*(cell(text) for text in texts), style=style)
    return table


def _cells(comparison: Comparison, model: ComparedModel, row: PolicyRow) -> list[str]:
    means = [_figure(model, row.mean_s)] if comparison.seeds > 1 else []
    first = [row.policy, *([row.comm_order] if comparison.is_by_order else [])]
    if row.error is not None:
        figures = _BY_ORDER if comparison.is_by_order else _FIGURES
        return [*first, *["-"] * (1 + len(means) + len(figures))]
    single_s = model.best_single_device_s
    is_faster = math.isfinite(single_s) and row.best_s > 0
    compared = [
        f"{(row.best_s / model.bound_s - 1) * 100:.1f}%" if model.bound_s > 0 else "-",
        f"{single_s / row.best_s:.2f}x" if is_faster else "-",
        str(row.transfers),
        _size(row.transfer_bytes) if row.transfer_bytes else "-",
    ]
    seconds = f"{row.seconds:.1f}" if row.seconds >= 0.05 else f"{row.seconds:.2f}"
    best = [*first, _figure(model, row.best_s), *means]
    if comparison.is_by_order:
        rate = f"{row.throughput_per_s:.4g}/s" if row.best_s > 0 else "-"
        return [*best, rate, f"{row.straggler_effect * 100:.1f}%", *compared, seconds]
    return [*best, *compared, _size(row.peak_bytes), f"{row.evaluations:.0f}", seconds]


def _size(size_bytes: int) -> str:
    return size_text(size_bytes).replace(" ", "")


def _figure(model: ComparedModel, seconds: float) -> str:
    return figure_text(seconds, model.unit_s)
