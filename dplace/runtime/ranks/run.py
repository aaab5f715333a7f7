"""``dplace run`` where a launcher has started one process for each device of the plan."""

from pathlib import Path
from typing import Any

from dplace.runtime.ranks.gathering import Gathering
from dplace.runtime.ranks.launch import Launch
from dplace.runtime.ranks.serve import serve
from dplace.runtime.ranks.session import RankSession
from dplace.runtime.ranks.watch import Leave
from dplace.runtime.report import RunReport, run_plan

__all__ = ["run_ranks"]


def run_ranks(
    folder: Path,
    launch: Launch,
    *,
    timeout_s: float = 60.0,
    leave: Leave | None = None,
    allow_cpu: bool = False,
    **options: Any,
) -> RunReport | None:
    """Run a plan as one of its ranks; see ``dplace.runtime.report.run_plan``.

    Args:
        folder: The plan folder; only the files of this rank's device have to be in it.
        timeout_s: How long an address may not answer, a rank be silent, a link carry nothing.
        leave: Ends the process where it does not end by itself; None in a program of others.
        options: Those of ``run_plan``, which rank 0 alone goes by.

    Returns:
        The report on rank 0, None on the others.

    Raises:
        DeviceLostError: A rank was lost, or nobody answers at the address.
        DplaceError: What went wrong on whichever rank.
        KeyboardInterrupt: Somebody pressed Ctrl-C, here or where another rank runs.
    """
    with Gathering(launch, timeout_s=timeout_s, leave=leave) as gathering:
        if launch.rank > 0:
            serve(folder, gathering, allow_cpu=allow_cpu)
            return None

        def open_session(path: Path, *, allow_cpu: bool) -> RankSession:
            return RankSession(path, gathering, allow_cpu=allow_cpu)

        return run_plan(folder, allow_cpu=allow_cpu, open_session=open_session, **options)
