"""RankSession: the face of PlacedSession on rank 0 of a run over several processes."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from dplace.errors import DplaceError, InputError
from dplace.plan.records import Plan
from dplace.runtime.devices import RunDevice
from dplace.runtime.events import RunEvent
from dplace.runtime.inputs import InputCheck, unknown_name
from dplace.runtime.placed_session import DeviceUsage, NodeArg, node_arg
from dplace.runtime.ranks.gathering import Gathering
from dplace.runtime.ranks.member import Member
from dplace.runtime.values import Held, Value, to_python

__all__ = ["RankSession"]

LOGGER = logging.getLogger(__name__)

PINGS = 16


class RankSession:
    """A model on the devices of several processes, seen from rank 0.

    The other ranks ``serve``. One request runs at a time: callers from several threads take turns.
    The thread that opens the session has to be the one that runs it where a device is a CPU core,
    for it is pinned to that.
    """

    def __init__(
        self,
        folder: Path,
        gathering: Gathering,
        *,
        allow_cpu: bool = False,
        verify: bool = True,
    ) -> None:
        """Open the parts of rank 0's device; return when all ranks have opened theirs.

        Args:
            folder: The plan folder; only the files of rank 0's device have to be in it.
            gathering: Entered by the caller, who leaves it when the session is closed.
            allow_cpu: Let a CPU core stand in for a device that is not on this machine.
            verify: Compare the digests of the device's files first.

        Raises:
            PlanError: The ranks hold different plans, or this one cannot be run by them.
            DeviceLostError: A rank did not come, or was lost.
            DplaceError: A device is not where its rank runs.
        """
        self._gathering = gathering
        self._offsets_s: dict[int, float] = {}
        self._first = 0
        self._lock = threading.Lock()
        self._number = 0
        self._is_closed = False
        self._member = Member(folder, gathering, allow_cpu=allow_cpu, verify=verify)
        self.plan: Plan = self._member.plan
        self._check = InputCheck(self.plan.inputs, self.plan.overridable)
        self._overridable = frozenset(value.name for value in self.plan.overridable)
        self._output_names = tuple(value.name for value in self.plan.outputs)
        self._others = range(1, len(self.plan.devices))
        for rank in self._others:
            self._member.inbox.order(rank)
        LOGGER.info("all %d ranks are ready", len(self.plan.devices))

    def get_inputs(self) -> list[NodeArg]:
        """Return name, type and shape of each input."""
        return [node_arg(value) for value in self.plan.inputs]

    def get_outputs(self) -> list[NodeArg]:
        """Return name, type and shape of each output."""
        return [node_arg(value) for value in self.plan.outputs]

    def get_overridable_initializers(self) -> list[NodeArg]:
        """Return the initializers that may be fed another value."""
        return [node_arg(value) for value in self.plan.overridable]

    @property
    def devices(self) -> tuple[RunDevice, ...]:
        """Return the device that is driven by this process."""
        return (self._member.device,)

    def run(
        self, output_names: Sequence[str] | None, input_feed: Mapping[str, Value]
    ) -> list[Value]:
        """Return the outputs called ``output_names``, or all for None or an empty list.

        Args:
            input_feed: By name an array, a list (for sequences too) or an OrtValue.

        Raises:
            InputError: A name is unknown or missing, or a value is of another type or shape.
            DeviceLostError: A rank was lost; the session cannot be used any more.
            DplaceError: A part failed, on this rank or another, and with it all ranks.
        """
        held = self._check.hold(input_feed)
        names = tuple(output_names) if output_names else self._output_names
        for name in names:
            if name not in self._output_names:
                raise InputError(unknown_name("output", name, self._output_names))
        with self._lock:
            if self._is_closed:
                raise DplaceError(f"the session of {self.plan.model} is closed")
            try:
                return self._run(names, held)
            except BaseException as error:
                self._gathering.tell(error)  # what the others have begun has no end any more
                raise

    def _run(self, names: tuple[str, ...], held: Mapping[str, tuple[Held, object]]) -> list[Value]:
        member, request = self._member, self._number
        self._number += 1
        fed = sorted(self._overridable & held.keys())
        routes = member.route(names, frozenset(fed))
        order = {
            "do": "run",
            "request": request,
            "outputs": names,
            "fed": fed,
        }
        homes = {stream.source for route in routes for stream in route.streams}
        for rank in self._others:
            if routes[rank].turns or rank in homes:
                member.order(rank, order)
        member.begin(request, routes)
        route, value_names = routes[0], member.values.names
        for crossing in route.feeds:
            member.send(held.get(value_names[crossing.value], (None, None))[0], crossing, request)
        own = [value for value in route.uses if value < len(member.values.given)]
        values = [held.get(value_names[value], (None, None))[0] for value in own]
        member.inbox.keep(request, own, values)
        member.work(route.turns, request)
        fetched = [fetch for fetch in route.fetches if isinstance(fetch, int)]
        found = iter(member.inbox.take(request, fetched))
        return [
            self._as_python(next(found)) if isinstance(fetch, int) else self._passed(*held[fetch])
            for fetch in route.fetches
        ]

    def _as_python(self, held: Held) -> Value:
        return to_python(held, self._member.any_session())

    def _passed(self, held: Held, _owner: object) -> Value:
        """Return an input that is an output as an array of its own."""
        value = self._as_python(held)
        return value.copy() if isinstance(value, np.ndarray) else value

    def usage(self) -> tuple[DeviceUsage, ...]:
        """Return what each device has done so far, in the plan's order."""
        member = self._member
        with self._lock:
            for rank in self._others:
                member.order(rank, {"do": "usage"})
            found: list[dict[str, Any]] = [{"calls": member.calls, "busy_s": member.busy_s}]
            found += [member.inbox.order(rank) for rank in self._others]
        return tuple(
            DeviceUsage(
                name=device.name,
                parts=sum(part.device == device.name for part in self.plan.parts),
                calls=use["calls"],
                busy_s=use["busy_s"],
            )
            for device, use in zip(self.plan.devices, found, strict=True)
        )

    def start_recording(self) -> None:
        """Record what requests do on all ranks from here on; those are numbered from 0.

        All times are then those of rank 0's clock: the offset of another's is taken half-way
        through the quickest of a few questions for its time, so it is off by half of that at most.
        """
        with self._lock:
            self._offsets_s = {rank: self._offset_s(rank) for rank in self._others}
            self._first = self._number
        self._set_recording(True)

    def take_events(self) -> list[RunEvent]:
        """Return what was recorded since the start or the last call, in the order of starts."""
        member = self._member
        with self._lock:
            for rank in self._others:
                member.order(rank, {"do": "events"})
            events = member.take_events()
            for rank in self._others:
                offset_s = self._offsets_s.get(rank, 0.0)
                for fields in member.inbox.order(rank)["events"]:
                    event = RunEvent(*fields)
                    start_s, end_s = event.start_s + offset_s, event.end_s + offset_s
                    events.append(event._replace(start_s=start_s, end_s=end_s))
        events = [event._replace(request=event.request - self._first) for event in events]
        return sorted(events, key=lambda event: event.start_s)

    def stop_recording(self) -> list[RunEvent]:
        """Record no more; return what ``take_events`` would."""
        events = self.take_events()
        self._set_recording(False)
        return events

    def _set_recording(self, is_on: bool) -> None:
        member = self._member
        with self._lock:
            for rank in self._others:
                member.order(rank, {"do": "record", "is_on": is_on})
            member.is_recording = is_on
            member.take_events()
            for rank in self._others:
                member.inbox.order(rank)

    def _offset_s(self, rank: int) -> float:
        """Return what to add to the times of a rank."""
        member = self._member
        best_s, offset_s = float("inf"), 0.0
        for _ in range(PINGS):
            asked_s = time.perf_counter()
            member.order(rank, {"do": "clock"})
            there_s: float = member.inbox.order(rank)["now_s"]
            took_s = time.perf_counter() - asked_s
            if took_s < best_s:
                best_s, offset_s = took_s, asked_s + took_s / 2 - there_s
        return offset_s

    def close(self) -> None:
        """Let all ranks end.

        Raises:
            DeviceLostError: A rank was lost before it had ended.
        """
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
        watch = self._gathering.watch
        for rank in self._others:
            self._member.order(rank, {"do": "stop"})
        self._member.close()
        watch.check()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is None:
            self.close()
        else:
            self._gathering.tell(error)
            self._is_closed = True
            self._member.close()
