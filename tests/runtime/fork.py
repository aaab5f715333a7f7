"""A plan of three parts on two devices, with what is predicted and what was measured of it."""

from pathlib import Path

from dplace.plan.records import Plan
from dplace.runtime.events import RunEvent
from tests.runtime.plans import given, make_plan, node_model, with_times

__all__ = ["EVENTS", "START_S", "event", "fork"]

START_S = 10.0
"""When the measured request began; it ended 4.1 s later."""


def fork(folder: Path) -> Plan:
    """Return the plan: a makes h on cpu:0; c on cpu:0 and b on cpu:1 read it.

    Calls take 0.1 s each and the way to the other device 0.25 s, so it is predicted that a runs
    from 0 to 1.1 s, c from 1.1 to 1.7 s and b from 1.35 to 3.45 s.
    """
    plan = make_plan(
        folder,
        {
            "a": ("cpu:0", node_model("Neg", ["x"], ["h"])),
            "b": ("cpu:1", node_model("Exp", ["h"], ["y"])),
            "c": ("cpu:0", node_model("Relu", ["h"], ["z"])),
        },
        {"cpu:0": ["run a", "send h cpu:1", "run c"], "cpu:1": ["receive h cpu:0", "run b"]},
        inputs=[given("x", shape=["N"])],
        outputs=[given("y", shape=["N"]), given("z", shape=["N"])],
    )
    return with_times(plan, {"a": 1.0, "b": 2.0, "c": 0.5}, overhead_s=0.1, latency_s=0.25)


def event(
    kind: str, subject: str, device: str, start_s: float, end_s: float, peer: str | None = None
) -> RunEvent:
    return RunEvent(kind, subject, device, peer, start_s, end_s)  # type: ignore[arg-type]


EVENTS = (
    event("run", "a", "cpu:0", 10.2, 11.4),
    event("run", "c", "cpu:0", 11.5, 12.0),
    event("run", "b", "cpu:1", 11.6, 14.0),
)
