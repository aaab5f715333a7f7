"""When a plan's parts and transfers are predicted to run, by name."""

from typing import NamedTuple

from dplace.plan.records import Plan
from dplace.plan.replay import replay_plan

__all__ = ["PlannedTimes", "PlannedTransfer", "planned_times"]


class PlannedTransfer(NamedTuple):
    """A value on its way between devices, or a streamed weight that comes from the host.

    Times are in seconds from the request's start.
    """

    value: str
    source: str
    target: str
    start_s: float
    end_s: float


class PlannedTimes(NamedTuple):
    """Times in seconds from the request's start."""

    makespan_s: float
    parts: dict[str, tuple[float, float]]
    """By name the start and the end, the call's overhead included."""
    transfers: tuple[PlannedTransfer, ...]


def planned_times(plan: Plan) -> PlannedTimes:
    """Return when all of a plan is predicted to run, by what is written in it.

    Raises:
        PlanError: Some part waits for a value that never comes.
    """
    replay = replay_plan(plan)
    times = replay.times
    parts = zip(plan.parts, times.part_start_s, times.part_end_s, strict=True)
    transfers = zip(
        replay.transfers,
        (*times.transfer_start_s, *times.copy_start_s),
        (*times.transfer_end_s, *times.copy_end_s),
        strict=True,
    )
    return PlannedTimes(
        makespan_s=times.makespan_s,
        parts={part.name: (float(start_s), float(end_s)) for part, start_s, end_s in parts},
        transfers=tuple(
            PlannedTransfer(value, source, target, float(start_s), float(end_s))
            for (value, source, target), start_s, end_s in transfers
        ),
    )
