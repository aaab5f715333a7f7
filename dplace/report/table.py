"""The answers of ``place`` and ``simulate`` as tables, at most 80 columns wide."""

import math
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from dplace.plan.records import Plan, PlannedDevice
from dplace.report.answer import PlaceAnswer, SimulateAnswer, streamed_bytes
from dplace.report.plain import plain, size_text, time_text

__all__ = ["columns", "device_table", "facts", "place_table", "simulate_table"]


def place_table(answer: PlaceAnswer) -> RenderableType:
    """Return the placement for people: a headline, the devices, the figures, what to do next."""
    plan = answer.plan
    lines = [
        *plan_facts(
            plan,
            answer.transfers,
            answer.transfer_bytes,
            answer.bound_argument,
            {name: time_text(score) for name, score in answer.order_scores.items()},
        ),
        ("Times", times_text(answer.measured_share)),
        ("Policy", policy_text(answer)),
    ]
    if answer.out is None:
        lines.append(("Plan", "not written; -o DIR writes it"))
    else:
        lines.append(("Plan", str(answer.out)))
        lines.append(("Next", next_text(answer)))
    head = headline(plan, plan.objective_s, answer.gap_to_bound)
    return Group(head, "", device_table(plan.devices, plan.objective_s), "", facts(lines))


def simulate_table(answer: SimulateAnswer) -> RenderableType:
    """Return the prediction for people: a headline, the devices, the figures."""
    plan = answer.plan
    lines = plan_facts(plan, answer.transfers, answer.transfer_bytes)
    if not math.isclose(answer.objective_s, plan.objective_s, rel_tol=1e-6):
        lines.append(("When made", f"{time_text(plan.objective_s)} predicted"))
    head = headline(plan, answer.objective_s, answer.gap_to_bound)
    return Group(head, "", device_table(answer.devices, answer.objective_s), "", facts(lines))


def headline(plan: Plan, objective_s: float, gap: float | None) -> Text:
    """Return the prediction in one line: a request's time, or the time between two results."""
    is_stream = plan.objective == "throughput"
    what = "A result each" if is_stream else "Predicted"
    single_s = plan.best_single_device_s
    if objective_s <= 0:
        return Text(f"{what} {time_text(objective_s)}, nothing to compute", style="bold")
    if math.isfinite(single_s):
        how = "often" if is_stream else "fast"
        against = f"{single_s / objective_s:.2f}x as {how} as one device"
    else:
        against = "one device cannot hold it"
    above = "" if gap is None else f", {max(gap, 0) * 100:.1f} % above the bound"
    return Text(f"{what} {time_text(objective_s)}, {against}{above}", style="bold")


def device_table(
    devices: Sequence[PlannedDevice],
    makespan_s: float,
    time: Callable[[float], str] = time_text,
) -> Table:
    """Return a row for each device: what it holds and how long it computes."""
    table = columns("Device", "Kind", ">Ops", ">Weights", ">Peak memory", ">Busy", ">of the time")
    for device in devices:
        share = device.busy_s / makespan_s if makespan_s > 0 else 0.0
        table.add_row(
            cell(device.name),
            cell(device.kind),
            str(device.num_ops),
            size_text(device.weight_bytes),
            size_text(device.peak_bytes),
            time(device.busy_s),
            f"{share * 100:.0f} %",
        )
    return table


def plan_facts(
    plan: Plan,
    transfers: int,
    transfer_bytes: int,
    bound_argument: str = "",
    order_scores: Mapping[str, str] | None = None,
) -> list[tuple[str, str]]:
    """Return what a plan is, as pairs of a word and its value."""
    lines = [
        ("Model", f"{plan.model} ({optimize_text(plan)})"),
        ("Cluster", plan.cluster),
        ("One device", single_text(plan)),
        ("Bound", bound_text(time_text(plan.bound_s), bound_argument)),
        ("Transfers", f"{transfers}, {size_text(transfer_bytes)} in all"),
        ("Parts", str(len(plan.parts))),
    ]
    if plan.streamed:
        lines.insert(-1, ("Streamed", streamed_text(plan)))
    if transfers or plan.streamed:
        lines.insert(-1, ("Order", order_text(plan.comm_order, order_scores or {})))
    if plan.objective == "throughput":
        lines.insert(2, ("One request", f"takes {time_text(plan.makespan_s)}"))
    if plan.dims:
        sizes = ", ".join(f"{name}={size}" for name, size in plan.dims.items())
        lines.insert(1, ("Dimensions", sizes))
    return lines


def order_text(taken: str, scores: Mapping[str, str]) -> str:
    """Return in words in which order transfers go, and what each gives.

    >>> order_text("tac", {"fifo": "10 ms", "tac": "9 ms"})
    'tac, for fifo gives 10 ms, tac 9 ms'
    >>> order_text("fifo", {"fifo": "10 ms"})
    'fifo'
    """
    if len(scores) < 2:
        return taken
    first, *others = (f"{name} {score}" for name, score in scores.items())
    name, score = first.split(" ", 1)
    return ", ".join([f"{taken}, for {name} gives {score}", *others])


def bound_text(figure: str, argument: str) -> str:
    """Return in words what no placement can beat, and by which argument where that is known."""
    by = f", by {argument}" if argument else ""
    return f"no placement takes less than {figure}{by}"


def optimize_text(plan: Plan) -> str:
    """Return in words what was done to the model before it was cut."""
    if plan.optimize == "none":
        return "as it is"
    return f"optimized: {plan.optimize}, {plan.opt_level}"


def single_text(plan: Plan) -> str:
    """Return in words what the best single device takes."""
    if math.isfinite(plan.best_single_device_s):
        return f"the best takes {time_text(plan.best_single_device_s)}"
    return "none has the memory for all"


def streamed_text(plan: Plan) -> str:
    """Return in words which weights are sent for each request, to where, and through what room."""
    homes = " and ".join(dict.fromkeys(weight.home for weight in plan.streamed))
    total = size_text(sum(weight.size_bytes for weight in plan.streamed))
    shares = [
        f"{size_text(sent)} to {device.name} through {size_text(device.buffer_bytes)}"
        for device in plan.devices
        if (sent := streamed_bytes(device, plan))
    ]
    return f"{total} of weights from {homes} for each request: {', '.join(shares)}"


def policy_text(answer: PlaceAnswer) -> str:
    """Return the policy, what it was compared with and what that cost."""
    scores = ", ".join(f"{name} {time_text(score)}" for name, score in answer.scores.items())
    tried = f"; {scores}" if scores else ""
    return f"{answer.plan.policy} after {answer.evaluations} evaluations{tried}"


def times_text(share: float) -> str:
    """Return in words how much of the predicted time was measured.

    >>> times_text(0.0), times_text(0.874), times_text(1.0)
    ('modelled; dplace profile measures them', '87 % measured, 13 % modelled', 'measured')
    """
    percent = round(share * 100)
    if percent == 0:
        return "modelled; dplace profile measures them"
    return "measured" if percent == 100 else f"{percent} % measured, {100 - percent} % modelled"


def next_text(answer: PlaceAnswer) -> str:
    """Return the command that runs the plan."""
    command = f"dplace run {shlex.quote(str(answer.out))}"
    if answer.plan.optimize == "portable":
        return f"{command}   where the cluster is"
    return command


def columns(*headers: str) -> Table:
    """Return an empty table without lines; ``>`` before a header puts its numbers right."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for header in headers:
        right = header.startswith(">")
        table.add_column(
            header.removeprefix(">"),
            justify="right" if right else "left",
            no_wrap=right,
            overflow="fold",
        )
    return table


def facts(lines: Iterable[tuple[str, str]]) -> Table:
    """Return pairs of a word and its value, one a line."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for word, value in lines:
        table.add_row(Text(word, style="bold"), cell(value))
    return table


def cell(text: str) -> Text:
    """Return text as it is: no markup, no emoji codes, nothing a terminal acts on."""
    return Text(plain(text))
