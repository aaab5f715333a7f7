"""Run a plan: in this process, or as one of several."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dplace.runtime.ranks.launch import Launch
    from dplace.runtime.report import RunReport

__all__ = ["launch_lines", "run", "run_ranks"]


def run(plan: Path | str, **options: Any) -> RunReport:
    """Run a plan, time it, and compare it with the whole model; see ``dplace.runtime.report``."""
    from dplace.runtime.report import run_plan

    return run_plan(Path(plan), **options)


def run_ranks(plan: Path | str, launch: Launch, **options: Any) -> RunReport | None:
    """Run a plan as one of several processes; see ``dplace.runtime.ranks.run``."""
    from dplace.runtime.ranks.run import run_ranks

    return run_ranks(Path(plan), launch, **options)


def launch_lines(plan: Path | str, arguments: Sequence[str]) -> list[str]:
    """Return the lines that start a plan's ranks, one for each host.

    Args:
        arguments: Those of ``dplace``, such as ``["run", "plan"]``.

    Raises:
        PlanError: The folder is no plan, or is broken.
    """
    from dplace.plan.read import read_plan
    from dplace.runtime.ranks.hosts import launch_lines

    return launch_lines(read_plan(Path(plan), verify=False), arguments)
