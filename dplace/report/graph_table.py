"""The answer for a graph with given costs as a table, in the unit that its file has."""

import math

from rich.console import Group, RenderableType
from rich.text import Text

from dplace.report.graph_answer import GraphAnswer
from dplace.report.plain import figure_text, size_text
from dplace.report.table import bound_text, device_table, facts, order_text

__all__ = ["graph_table"]


def graph_table(answer: GraphAnswer) -> RenderableType:
    """Return the placement for people: a headline, the devices, the figures."""
    devices = device_table(answer.devices, answer.makespan_s, time=lambda s: _figure(answer, s))
    return Group(headline(answer), "", devices, "", facts(graph_facts(answer)))


def headline(answer: GraphAnswer) -> Text:
    """Return the prediction in one line."""
    what = "Bottleneck" if answer.objective == "throughput" else "Predicted"
    line = f"{what} {_figure(answer, answer.makespan_s)} {answer.unit}"
    if answer.makespan_s <= 0:
        return Text(f"{line}, nothing to compute", style="bold")
    if math.isfinite(answer.best_single_device_s):
        line += f", {answer.best_single_device_s / answer.makespan_s:.2f}x one device"
    else:
        line += ", one device cannot hold it"
    if answer.gap_to_bound is not None:
        line += f", {max(answer.gap_to_bound, 0) * 100:.1f} % above the bound"
    return Text(line, style="bold")


def graph_facts(answer: GraphAnswer) -> list[tuple[str, str]]:
    """Return what was placed and how, as pairs of a word and its value."""
    sent = f", {size_text(answer.transfer_bytes)} in all" if answer.transfer_bytes else ""
    single_s = answer.best_single_device_s
    lines = [
        ("Graph", f"{answer.graph} ({answer.format})"),
        ("Cluster", answer.cluster),
        ("Judged by", f"{answer.machine}, {answer.objective}"),
        ("Times in", _unit_text(answer)),
        (
            "One device",
            f"the best takes {_figure(answer, single_s)}"
            if math.isfinite(single_s)
            else "none has the memory for all",
        ),
        ("Bound", bound_text(_figure(answer, answer.bound_s), answer.bound_argument)),
        ("Transfers", f"{answer.transfers}{sent}"),
        ("Policy", _policy_text(answer)),
    ]
    if answer.transfers and answer.machine == "native":
        scores = {name: _figure(answer, score) for name, score in answer.order_scores.items()}
        lines.insert(-1, ("Order", order_text(answer.comm_order, scores)))
    if answer.policy != "given":
        where = "not written; -o DIR writes it" if answer.out is None else str(answer.out)
        lines.append(("Answer", where))
    return lines


def _policy_text(answer: GraphAnswer) -> str:
    if answer.policy == "given":
        return "a placement that was given"
    scores = ", ".join(f"{name} {_figure(answer, s)}" for name, s in answer.scores.items())
    tried = f"; {scores}" if scores else ""
    return f"{answer.policy} after {answer.evaluations} evaluations{tried}"


def _unit_text(answer: GraphAnswer) -> str:
    if answer.unit == "ms":
        return "ms"
    return f"{answer.unit}; one is taken as {answer.unit_s * 1e3:g} ms"


def _figure(answer: GraphAnswer, seconds: float) -> str:
    return figure_text(seconds, answer.unit_s)
