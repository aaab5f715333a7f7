"""How a training went, and the policies that come with dplace, as tables."""

import math
from pathlib import Path

from rich.console import Group, RenderableType
from rich.text import Text

from dplace.report.learning import LearnAnswer, ShippedPolicies, ShippedPolicy, results_of
from dplace.report.plain import plain, size_text, time_text
from dplace.report.table import cell, columns

__all__ = ["learn_table", "policies_table"]


def learn_table(answer: LearnAnswer) -> RenderableType:
    """Return a row for each model and cluster, and what it comes to over all."""
    table = columns("Model", "Cluster", ">Groups", ">One device", ">Best met", ">Policy", ">Bound")
    for row in answer.models:
        times = (row.single_s, row.best_s, row.policy_s, row.bound_s)
        table.add_row(
            *(cell(text) for text in (Path(row.model).name, row.cluster, str(row.num_groups))),
            *(cell(time_text(seconds)) for seconds in times),
        )
    results = results_of(answer.models)
    head = f"{answer.out}: {answer.steps} steps"
    if "policy_over_single" in results:
        head += f"; {_result_text(results)}"
    return Group(Text(plain(head)), "", table)


def policies_table(listed: ShippedPolicies) -> RenderableType:
    """Return a row for each policy, and below it what trained it."""
    if not listed.policies:
        return Text("no policy comes with this version of dplace; dplace pretrain makes one")
    parts: list[RenderableType] = []
    for policy in listed.policies:
        if parts:
            parts.append("")
        parts.append(Text(plain(policy.name), style="bold"))
        parts += [Text(plain(line)) for line in _about(policy)]
    return Group(*parts)


def _about(policy: ShippedPolicy) -> list[str]:
    lines = [
        f"  families  {', '.join(policy.families) or 'not told'}",
        f"  clusters  {', '.join(policy.clusters) or 'not told'}",
        f"  size      {size_text(policy.size_bytes)}",
        f"  results   {_result_text(policy.results)}",
    ]
    if policy.command:
        lines.append(f"  trained   {policy.command}")
    return lines


def _result_text(results: object) -> str:
    """Return what is known of a policy on what it was trained on, in words."""
    told = results if isinstance(results, dict) else {}

    def figure(name: str) -> float:
        value = told.get(name)
        return float(value) if isinstance(value, int | float) else math.nan

    parts = []
    if figure("policy_over_single") > 0:
        parts.append(f"{1 / figure('policy_over_single'):.2f}x as fast as one device")
    if figure("policy_over_bound") > 0:
        parts.append(f"{figure('policy_over_bound') - 1:.1%} above the bound")
    if not parts:
        return "not told"
    return f"{', '.join(parts)}, mean of {figure('problems'):.0f}"
