"""The summary of a model as tables, at most 80 columns wide."""

from rich.console import Group, RenderableType

from dplace.plan.records import ValueType
from dplace.report.model_summary import ModelSummary, UncutReason
from dplace.report.plain import size_text, work_text
from dplace.report.table import cell, columns, facts

__all__ = ["model_table"]

REASONS: dict[UncutReason, str] = {
    "control-flow": "its bodies run inside it",
    "fused": "it runs as one kernel",
    "optional-value": "the value cannot cross",
    "co-located": "the model asks for it",
}


def model_table(summary: ModelSummary, *, top: int) -> RenderableType:
    """Return the summary for people.

    Args:
        summary: what was found in the model.
        top: how many op types, captures and uncut ops are listed; the rest is counted.
    """
    blocks: list[RenderableType] = [facts(model_facts(summary)), "", op_type_table(summary, top)]
    if summary.captures:
        table = columns("Reads outer values", "Op", "Values")
        for capture in summary.captures[:top]:
            table.add_row(cell(capture.op), cell(capture.op_type), cell(", ".join(capture.values)))
        blocks += ["", table, *rest_line(len(summary.captures), top)]
    if summary.uncut:
        table = columns("Cannot be cut", "Because", "What it is")
        for uncut in summary.uncut[:top]:
            table.add_row(cell(uncut.op), REASONS[uncut.reason], cell(uncut.detail))
        blocks += ["", table, *rest_line(len(summary.uncut), top)]
    return Group(*blocks)


def model_facts(summary: ModelSummary) -> list[tuple[str, str]]:
    """Return what the model is, as pairs of a word and its value."""
    opsets = ", ".join(f"{domain} {version}" for domain, version in summary.opset_imports.items())
    written = f" by {summary.producer}" if summary.producer else ""
    lines = [
        ("Model", summary.model),
        ("Format", f"IR {summary.ir_version}{written}; opset {opsets}"),
        ("Optimized", "not at all" if summary.optimize == "none" else summary.optimize),
        ("Ops", f"{summary.num_ops} to place, of {summary.num_nodes} nodes"),
        ("Work", work_text(summary.flop)),
        ("Weights", f"{summary.num_weights}, {size_text(summary.weight_bytes)} in all"),
    ]
    lines += [("Input", value_text(value)) for value in summary.inputs]
    lines += [("Output", value_text(value)) for value in summary.outputs]
    if summary.dynamic_dims:
        sizes = ", ".join(f"{name}={size}" for name, size in summary.dynamic_dims.items())
        lines.append(("Dynamic", f"{sizes}; --dim NAME=N changes it"))
    if summary.functions:
        lines.append(("Functions", ", ".join(summary.functions)))
    return lines


def op_type_table(summary: ModelSummary, top: int) -> RenderableType:
    """Return a row for each op type, those with the most work first."""
    uses = sorted(summary.op_types, key=lambda use: (-use.flop, -use.size_bytes, use.op_type))
    table = columns("Op type", ">Ops", ">Work", ">of all", ">Read and written")
    for use in uses[:top]:
        share = use.flop / summary.flop if summary.flop > 0 else 0.0
        table.add_row(
            cell(use.op_type),
            str(use.count),
            work_text(use.flop),
            f"{share * 100:.1f} %",
            size_text(use.size_bytes),
        )
    return Group(table, *rest_line(len(uses), top))


def value_text(value: ValueType) -> str:
    """Return name, type and shape of a value, as in ``x: tensor(float)[batch, 3]``."""
    if value.shape is None:
        return f"{value.name}: {value.type}"
    dims = ", ".join("?" if dim is None else str(dim) for dim in value.shape)
    return f"{value.name}: {value.type}[{dims}]"


def rest_line(count: int, top: int) -> list[str]:
    """Return a line that says how many rows a table leaves out, if it does."""
    return [f"and {count - top} more; --top {count} shows all"] if count > top else []
