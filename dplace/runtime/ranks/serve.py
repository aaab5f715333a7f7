"""Every rank but the first: does what rank 0 orders, until that says stop."""

import logging
import time
from pathlib import Path

from dplace.runtime.ranks.gathering import Gathering
from dplace.runtime.ranks.member import Member

__all__ = ["serve"]

LOGGER = logging.getLogger(__name__)


def serve(
    folder: Path, gathering: Gathering, *, allow_cpu: bool = False, verify: bool = True
) -> None:
    """Run this rank's parts for as many requests as rank 0 has.

    Raises:
        DplaceError: A part failed, here or on another rank, or a rank was lost.
        KeyboardInterrupt: Somebody pressed Ctrl-C, here or where another rank runs.
    """
    member = Member(folder, gathering, allow_cpu=allow_cpu, verify=verify)
    LOGGER.info("%s is ready", gathering.watch.names[member.rank])
    member.order(0, {"ready": True})
    while True:
        order = member.inbox.order(0)
        match order["do"]:
            case "run":
                _run(member, order)
            case "usage":
                member.order(0, {"calls": member.calls, "busy_s": member.busy_s})
            case "clock":
                member.order(0, {"now_s": time.perf_counter()})
            case "record":
                member.is_recording = bool(order["is_on"])
                member.take_events()
                member.order(0, {"recording": member.is_recording})
            case "events":
                member.order(0, {"events": [list(event) for event in member.take_events()]})
            case _:
                break
    gathering.watch.close()  # before the others can leave
    member.close()


def _run(member: Member, order: dict[str, object]) -> None:
    outputs, fed, request = order["outputs"], order["fed"], order["request"]
    assert isinstance(outputs, list)
    assert isinstance(fed, list)
    assert isinstance(request, int)
    routes = member.route(tuple(outputs), frozenset(fed))
    member.begin(request, routes)
    member.work(routes[member.rank].turns, request)
