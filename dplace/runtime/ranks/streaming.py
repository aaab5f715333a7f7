"""This rank's part in streamed weights: as the home of some, and as the target of others."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from dplace.plan.records import HOST, Plan
from dplace.runtime.devices import RunDevice
from dplace.runtime.events import RunEvent
from dplace.runtime.ranks.inbox import Inbox
from dplace.runtime.ranks.link import FIRST, Parcel, Sender
from dplace.runtime.ranks.message import Buffer, Header, Kind, Message
from dplace.runtime.ranks.payload import room_for
from dplace.runtime.ranks.route import RankRoute, Values, plan_streams
from dplace.runtime.ranks.verdict import verdict_of
from dplace.runtime.ranks.watch import Watch
from dplace.runtime.ranks.weights import Incoming, LocalWeights, Stream, file_message
from dplace.runtime.streams import Homes
from dplace.runtime.values import Held, tensor_over

__all__ = ["Streaming"]


class Streaming:
    """Weights that come to this rank and leave it."""

    def __init__(
        self,
        plan: Plan,
        folder: Path,
        device: RunDevice,
        values: Values,
        inbox: Inbox,
        watch: Watch,
        senders: Mapping[int, Sender],
    ) -> None:
        """Open the files of weights whose home this rank is, and take room for those that come.

        Args:
            senders: By rank; only filled after this.

        Raises:
            PlanError: A file is missing or too short.
        """
        self._device = device
        self._values = values
        self._inbox = inbox
        self._watch = watch
        self._senders = senders
        self._rank = rank = watch.launch.rank
        homes = (device.name, HOST) if rank == 0 else (device.name,)
        own = tuple(weight for weight in plan.streamed if weight.home in homes)
        self._homes = Homes(dataclasses.replace(plan, streamed=own), folder)
        streams = plan_streams(plan, values)
        self._streams = {
            (target, stream.value): stream
            for target, coming in enumerate(streams)
            for stream in coming
        }
        self.from_host = frozenset(
            value for value, weight in values.weights.items() if weight.home == HOST
        )
        self._own = {
            value: weight for value, weight in values.weights.items() if weight.home == device.name
        }
        self._record: Callable[[RunEvent], None] = lambda _: None
        self._incoming: Incoming | None = None
        if streams[rank]:
            self._incoming = Incoming(
                plan.devices[rank].buffer_bytes,
                [values.weights[stream.value] for stream in streams[rank]],
                ask=self._ask,
                check=watch.check,
            )
        self._local: LocalWeights | None = None
        if rank == 0 and any(stream.source == 0 for stream in streams[0]):
            self._local = LocalWeights(self._bring_here, self._failed)

    def load(self, record: Callable[[RunEvent], None]) -> None:
        """Bring the weights whose home is this device into its memory.

        Args:
            record: Is told of each weight that comes from this rank's own host.
        """
        self._record = record
        self._homes.load(self._device)

    def resident(self, value: int) -> Held:
        """Return a weight whose home is this device."""
        return self._homes.held(self._own[value].name)

    def is_resident(self, value: int) -> bool:
        """Return whether a value is a weight whose home is this device."""
        return value in self._own

    def begin(self, request: int, routes: Sequence[RankRoute]) -> None:
        """Start what weights a request needs: take room here, send what others have room for."""
        own = routes[self._rank]
        if self._incoming is not None:
            self._incoming.begin(request, own.streams, own.unasked)
        for target, route in enumerate(routes):
            for stream in route.streams[: route.unasked]:
                if stream.source == self._rank:
                    self._bring(target, stream, request)

    def asked(self, target: int, request: int, value: int) -> None:
        """Send a weight that a target has room for."""
        self._bring(target, self._streams[target, value], request)

    def room_for(self, header: Header) -> tuple[Held, Buffer]:
        """Return what a payload is received into: of weights, the buffers."""
        weight = self._values.weights.get(header.value)
        if weight is None or header.kind is not Kind.TENSOR or self._incoming is None:
            return room_for(header, self._device)
        memory = self._incoming.memory(header.request, header.value, header.size_bytes)
        return tensor_over(memory, weight.type, weight.shape), memory

    def free(self, request: int, values: Sequence[int]) -> None:
        """Give the room of weights back that no part of a request reads any more."""
        if self._incoming is not None and values:
            self._incoming.free(request, values)

    def wake(self) -> None:
        """Let whoever waits for room look whether the run is over."""
        if self._incoming is not None:
            self._incoming.wake()

    def close(self, seconds: float) -> None:
        """End the thread, close the files."""
        if self._local is not None:
            self._local.finish()
            self._local.join(seconds)
        self._homes.close()

    def _ask(self, stream: Stream, request: int) -> None:
        if stream.source == self._rank:
            self._bring(self._rank, stream, request)
            return
        header = Header(kind=Kind.ASK, value=stream.value, request=request)
        self._senders[stream.source].put(Message(header=header), FIRST)

    def _bring(self, target: int, stream: Stream, request: int) -> None:
        """Have a weight that this rank is the home of brought to a target that has room."""
        if target == self._rank:
            assert self._local is not None  # only the host's come to the rank that they are at
            self._local.put(stream, request)
            return
        weight = self._values.weights[stream.value]
        if stream.value in self._own:
            parcel = Parcel(stream.value, request, self._homes.held(weight.name))
        else:
            parcel = Parcel(
                stream.value,
                request,
                None,
                lambda: file_message(weight, stream.value, request, self._homes),
            )
        self._senders[target].put(parcel, stream.priority)

    def _bring_here(self, stream: Stream, request: int) -> None:
        """Read a weight of the host into this rank's buffers."""
        assert self._incoming is not None
        started_s = time.perf_counter()
        weight = self._values.weights[stream.value]
        memory = self._incoming.memory(request, stream.value, stream.size_bytes)
        self._homes.read(weight, memory)
        self._record(
            RunEvent(
                kind="receive",
                subject=weight.name,
                device=self._device.name,
                peer=HOST,
                start_s=started_s,
                end_s=time.perf_counter(),
                request=request,
                size_bytes=stream.size_bytes,
            )
        )
        self._inbox.put((request, stream.value), tensor_over(memory, weight.type, weight.shape))

    def _failed(self, error: BaseException) -> None:
        self._watch.tell(verdict_of(error, self._rank))
