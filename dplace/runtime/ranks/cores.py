"""Which cores of a machine its ranks compute on, and where all else that they do goes."""

import os
from collections.abc import Sequence
from contextlib import suppress

from dplace.plan.records import Plan
from dplace.runtime.devices import CPU_PROVIDER, cores_of, usable_cores
from dplace.runtime.ranks.agreement import Hello

__all__ = ["cores_here", "free_cores", "yield_to_others"]


def yield_to_others() -> None:
    """Let this thread, and those that it starts, interrupt no other when they wake up.

    For gloo's: one that is woken by what a thread of ours sends, while that still has the lock of
    the connection, would ask for it again and again until the end of its time slice.
    """
    if hasattr(os, "SCHED_BATCH"):
        with suppress(OSError):  # where even this is not allowed
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


def cores_here(
    plan: Plan, rank: int, hellos: Sequence[Hello], *, say: bool = False
) -> dict[str, int]:
    """Return the core of each CPU device whose rank is on this machine, by its name.

    Args:
        say: Warn if there are not enough; the first rank of a machine does.
    """
    here = [other for other, hello in enumerate(hellos) if hello.machine == hellos[rank].machine]
    on_cpu = [plan.devices[other] for other in here if hellos[other].provider == CPU_PROVIDER]
    return cores_of(on_cpu, say=say and rank == here[0])


def free_cores(plan: Plan, rank: int, hellos: Sequence[Hello]) -> set[int]:
    """Return the cores of this process that no device of this machine has parts on."""
    computing = {part.device for part in plan.parts}
    taken = {core for name, core in cores_here(plan, rank, hellos).items() if name in computing}
    return set(usable_cores()) - taken
