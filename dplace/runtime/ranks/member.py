"""What rank 0 and every other rank have in common: parts that run, links that carry."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import onnxruntime

from dplace.plan.records import Plan
from dplace.runtime.devices import CPU_PROVIDER, RunDevice
from dplace.runtime.events import RunEvent
from dplace.runtime.part import LoadedPart
from dplace.runtime.ranks.agreement import Hello, read_together
from dplace.runtime.ranks.cores import cores_here, free_cores, yield_to_others
from dplace.runtime.ranks.gathering import Gathering
from dplace.runtime.ranks.inbox import Inbox
from dplace.runtime.ranks.link import FIRST, Ends, Parcel, Receiver, Sender
from dplace.runtime.ranks.payload import order_message
from dplace.runtime.ranks.route import Crossing, RankRoute, Turn, Values, plan_links, rank_routes
from dplace.runtime.ranks.streaming import Streaming
from dplace.runtime.ranks.verdict import verdict_of
from dplace.runtime.ranks.watch import Link
from dplace.runtime.ranks.wire import Wire, join_ranks, leave_ranks, make_wires
from dplace.runtime.values import Held
from dplace.runtime.worker import part_failure

__all__ = ["Member", "run_device"]

JOIN_S = 2.0
"""How long threads of links may take to end when the run is over."""


class Member:
    """This rank's device with its parts, and its links to other ranks.

    The thread that makes it is the one that runs the parts; on a CPU it is pinned to the device's
    core until ``close``.
    """

    def __init__(
        self, folder: Path, gathering: Gathering, *, allow_cpu: bool, verify: bool
    ) -> None:
        """Agree with the other ranks on the plan, connect with them and open the parts.

        Raises:
            PlanError: The plan cannot be run by these ranks.
            DeviceLostError: A rank did not come, or was lost meanwhile.
            DplaceError: The device is not on this machine.
        """
        self.gathering = gathering
        self.rank = gathering.launch.rank
        self.plan, self._hellos = read_together(
            folder, gathering, allow_cpu=allow_cpu, verify=verify
        )
        self.device = run_device(self.plan, self.rank, self._hellos)
        self.values = Values(self.plan)
        self.busy_s = 0.0
        """Time spent in parts so far."""
        self.calls = 0
        """Parts run so far."""
        self.is_recording = False
        self._events: list[RunEvent] = []
        self.inbox = Inbox(gathering.watch.check)
        self._senders: dict[int, Sender] = {}
        self._receivers: dict[int, Receiver] = {}
        self.streaming = Streaming(
            self.plan,
            folder,
            self.device,
            self.values,
            self.inbox,
            gathering.watch,
            self._senders,
        )
        self._options = onnxruntime.RunOptions()
        gathering.watch.on_verdict(self._stop)
        self._routes: dict[tuple[tuple[str, ...], frozenset[str]], tuple[RankRoute, ...]] = {}
        self._parts: dict[str, LoadedPart] = {}
        self.route(self._outputs(), frozenset())  # refuses what cannot run, on all ranks
        self._has_joined = False
        self._cores = os.sched_getaffinity(0) if self.device.core is not None else None
        free = free_cores(self.plan, self.rank, self._hellos)
        if free and self._cores is not None:
            # Threads inherit this. One that wakes up on the core of a part may have to wait for the
            # end of a time slice, 3 ms and more.
            os.sched_setaffinity(0, free)
        self._connect()
        if self.device.core is not None:
            os.sched_setaffinity(0, {self.device.core})  # 0 is this thread; links stay free
        self._open(folder)

    def _outputs(self) -> tuple[str, ...]:
        return tuple(value.name for value in self.plan.outputs)

    def _stop(self) -> None:
        """Leave the part that is running, and stop waiting: the run is over."""
        self._options.terminate = True
        self.inbox.wake()
        self.streaming.wake()

    def _connect(self) -> None:
        """Start the threads of this rank's links."""
        gathering = self.gathering
        watch, launch = gathering.watch, gathering.launch
        links = plan_links(self.plan)
        direct = {link for link in links if all(self._hellos[end].has_nccl for end in link)}

        def connect() -> Mapping[Link, Wire]:
            yield_to_others()
            self._has_joined = join_ranks(
                launch, gathering.store.store, gathering.timeout_s, with_nccl=bool(direct)
            )
            return make_wires(
                links,
                self.rank,
                gathering.timeout_s,
                direct=direct,
                given=watch.given,
                delivered=watch.delivered,
            )

        ends = Ends(
            names=tuple(device.name for device in self.plan.devices),
            value_names=self.values.names,
            session=self.any_session,
            record=self._record,
            failed=self._link_failed,
            device=self.device,
            from_host=self.streaming.from_host,
        )
        for (source, target), wire in gathering.do(connect).items():
            if source == self.rank:
                self._senders[target] = Sender(wire, ends)
            else:
                self._receivers[source] = Receiver(
                    wire,
                    ends,
                    deliver=lambda request, value, held: self.inbox.put((request, value), held),
                    order=self.inbox.put_order,
                    asked=self.streaming.asked,
                    room_for=self.streaming.room_for,
                )

    def _link_failed(self, other: int, error: BaseException) -> None:
        watch = self.gathering.watch
        if isinstance(error, RuntimeError):  # as torch says that a connection broke
            watch.lost(other, "its connection broke")
        else:
            watch.tell(verdict_of(error, self.rank))

    def _record(self, event: RunEvent) -> None:
        if self.is_recording:
            self._events.append(event)

    def _open(self, folder: Path) -> None:
        """Open this rank's parts."""
        plan = self.plan
        self.streaming.load(self._record)
        # As in one process: patterns of memory would take more than was planned.
        fixed_shapes = not plan.streamed and all(
            value.shape is not None and all(isinstance(size, int) for size in value.shape)
            for value in (*plan.inputs, *plan.overridable)
        )
        for part in plan.parts:
            self.gathering.watch.check()
            if part.device == self.device.name:
                self._parts[part.name] = LoadedPart(
                    part.name,
                    folder / part.file,
                    (*part.inputs, *part.overridable),
                    self.device,
                    label=f"part {part.name} ({part.file}) on {self.device.name}",
                    level="none" if plan.optimize == "native" else plan.opt_level,
                    fixed_shapes=fixed_shapes,
                )

    def any_session(self) -> Any:
        """Return a session of onnxruntime's, any will do to read a sequence; None without parts."""
        return next((part.session for part in self._parts.values()), None)

    def route(self, outputs: tuple[str, ...], fed: frozenset[str]) -> tuple[RankRoute, ...]:
        """Return what each rank does for some outputs; a caller asks for few different ones."""
        key = (outputs, fed)
        if key not in self._routes:
            self._routes[key] = rank_routes(self.plan, outputs, fed)
        return self._routes[key]

    def order(self, target: int, content: dict[str, Any]) -> None:
        """Send an order, or an answer, to another rank."""
        self._senders[target].put(order_message(content), FIRST)

    def send(self, held: Held, crossing: Crossing, request: int) -> None:
        """Have a value sent that is ready now."""
        parcel = Parcel(value=crossing.value, request=request, held=held)
        self._senders[crossing.target].put(parcel, crossing.priority)

    def begin(self, request: int, routes: Sequence[RankRoute]) -> None:
        """Be ready for what comes in a request, and start what can be before any part has run."""
        self.inbox.expect(request, routes[self.rank].uses)
        self.streaming.begin(request, routes)

    def work(self, turns: Sequence[Turn], request: int) -> None:
        """Run this rank's parts for a request, in the plan's order, each when its inputs are here.

        Raises:
            DplaceError: A part failed, here or on another rank, or a rank was lost.
        """
        for turn in turns:
            self._run(turn, request)

    # A method of its own, so that a thread at rest has no name left for a request's values.
    def _run(self, turn: Turn, request: int) -> None:
        part = self._parts[turn.part]
        feeds = self._feeds(turn, request)
        started_s = time.perf_counter()
        try:
            results = part.run(turn.outputs, feeds, self._options)
        # onnxruntime's errors share no base below Exception.
        except Exception as error:
            self.gathering.watch.check()  # which may have ended the part
            raise part_failure(f"part {part.name}", self.device, error) from error
        ended_s = time.perf_counter()
        del feeds
        self.streaming.free(request, turn.frees)
        self.busy_s += ended_s - started_s
        self.calls += 1
        for at, crossing in turn.sends:
            self.send(results[at], crossing, request)
        self.inbox.keep(request, turn.writes, results)
        self._record(
            RunEvent(
                kind="run",
                subject=part.name,
                device=self.device.name,
                peer=None,
                start_s=started_s,
                end_s=ended_s,
                request=request,
            )
        )

    def _feeds(self, turn: Turn, request: int) -> list[Held]:
        """Return what a part reads when all of it is here."""
        resident = self.streaming.is_resident
        wanted = [value for value in turn.reads if value >= 0 and not resident(value)]
        found = iter(self.inbox.take(request, wanted))
        return [
            None
            if value < 0
            else self.streaming.resident(value)
            if resident(value)
            else next(found)
            for value in turn.reads
        ]

    def take_events(self) -> list[RunEvent]:
        """Return what happened on this rank since it was last asked, by its own clock."""
        for sender in self._senders.values():
            sender.flush()
        self._events, events = [], self._events
        return events

    def close(self) -> None:
        """End the links and close the parts; the threads of links that hang are left behind."""
        for sender in self._senders.values():
            sender.finish()
        until_s = time.perf_counter() + JOIN_S
        threads: list[Sender | Receiver] = [*self._senders.values(), *self._receivers.values()]
        have_ended = [thread.join(max(0.0, until_s - time.perf_counter())) for thread in threads]
        if self._has_joined and all(have_ended):
            leave_ranks()
        self.streaming.close(JOIN_S)
        if self._cores is not None:
            os.sched_setaffinity(0, self._cores)
        self._parts.clear()
        self._routes.clear()


def run_device(plan: Plan, rank: int, hellos: Sequence[Hello]) -> RunDevice:
    """Return a rank's device as it is driven here, with a core that no other rank here has."""
    device, own = plan.devices[rank], hellos[rank]
    core: int | None = None
    if own.provider == CPU_PROVIDER:
        core = cores_here(plan, rank, hellos, say=True).get(device.name)
    return RunDevice(name=device.name, provider=own.provider, index=device.index, core=core)
