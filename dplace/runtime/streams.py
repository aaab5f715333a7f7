"""Weights on their way: one thread a device brings them, in the order of the device's program.

A weight whose home is the host is read from the plan's file into the device's buffers, ahead of
the parts that read it for as long as there is room, and its room is free again when the last of
them has run. Files are read, not mapped: mapped pages would count as resident, and the system would
choose when they come.

Weights whose home is a device lie in its memory from the start. Between CPU devices of one process
all memory is one, so those are handed over as they are.
"""

import mmap
import os
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from dplace.errors import DplaceError, PlanError
from dplace.plan.records import HOST, Plan, StreamedWeight
from dplace.runtime.buffers import Buffers, Piece
from dplace.runtime.copies import copy_from
from dplace.runtime.devices import RunDevice
from dplace.runtime.reason import reason
from dplace.runtime.values import Held, tensor_over

if TYPE_CHECKING:
    from dplace.runtime.request import Request

__all__ = ["Delivery", "Homes", "LogEntry", "Streamer", "is_handed_over", "streamers"]

LogEntry: TypeAlias = "tuple[int, StreamedWeight, float, float]"
"""Number of the request, the weight, its start and its end by ``time.perf_counter``, in seconds."""

CHUNK_BYTES = 2**26
"""Read at once, so that a request that ends does not wait for a large weight."""


class Delivery(NamedTuple):
    """A weight that a request needs on a device, and the slot that it goes to."""

    slot: int
    weight: StreamedWeight


def is_handed_over(weight: StreamedWeight, homes: Mapping[str, RunDevice], to: RunDevice) -> bool:
    """Return whether a device reads a weight where it lies.

    Args:
        weight: What is read.
        homes: The plan's devices by name.
        to: The device that reads it.
    """
    home = homes.get(weight.home)
    return home is not None and (home.is_cpu or home.name == to.name)


class Homes:
    """Where weights lie: the files of the plan, and the memory of devices that are homes."""

    def __init__(self, plan: Plan, folder: Path) -> None:
        """Open the files.

        Raises:
            PlanError: One is missing or too short.
        """
        self._weights = plan.streamed
        self._files: dict[str, int] = {}
        self._held: dict[str, Held] = {}
        self._owners: list[object] = []
        """What the memory of those is, while they lie in host memory."""
        try:
            for weight in plan.streamed:
                if weight.file not in self._files:
                    self._files[weight.file] = _open(folder / weight.file, weight.file)
                size = os.fstat(self._files[weight.file]).st_size
                if weight.offset + weight.size_bytes > size:
                    raise PlanError(_too_short(weight, size))
        except PlanError:
            self.close()
            raise

    def load(self, device: RunDevice) -> None:
        """Bring the weights whose home is ``device`` into its memory; called by its thread."""
        for weight in self._weights:
            if weight.home == device.name:
                content = memoryview(mmap.mmap(-1, max(1, weight.size_bytes)))
                self.read(weight, content[: weight.size_bytes])
                held = tensor_over(content[: weight.size_bytes], weight.type, weight.shape)
                if device.is_cpu:
                    self._owners.append(content)
                else:
                    held = copy_from(device)(held)
                self._held[weight.name] = held

    def held(self, name: str) -> Held:
        """Return a weight that lies in the memory of a device."""
        return self._held[name]

    def read(self, weight: StreamedWeight, target: memoryview, first: int = 0) -> None:
        """Fill ``target`` with the bytes of a weight, from its byte ``first`` on.

        Raises:
            PlanError: The file cannot be read, or ends early.
        """
        file, done = self._files[weight.file], 0
        while done < len(target):
            piece = target[done : done + CHUNK_BYTES]
            try:
                count = os.preadv(file, [piece], weight.offset + first + done)
            except OSError as error:
                raise PlanError(
                    f'weight "{weight.name}": {weight.file} cannot be read: {error.strerror}'
                ) from error
            if not count:
                raise PlanError(_too_short(weight, weight.offset + first + done))
            done += count

    def close(self) -> None:
        """Close the files and give memory back."""
        while self._files:
            os.close(self._files.popitem()[1])
        self._held.clear()
        self._owners.clear()


def _open(path: Path, name: str) -> int:
    try:
        return os.open(path, os.O_RDONLY)
    except OSError as error:
        raise PlanError(f"{name}: cannot be read: {error.strerror}") from error


def _too_short(weight: StreamedWeight, size: int) -> str:
    return (
        f'{weight.file} is too short: weight "{weight.name}" ends at byte '
        f"{weight.offset + weight.size_bytes}, the file at {size}; place the model again"
    )


class Streamer:
    """Brings weights to one device, request by request, as far as its buffers have room."""

    def __init__(self, device: RunDevice, number: int, homes: Homes, buffers: Buffers) -> None:
        """Start the thread.

        Args:
            number: Of the device in the plan.
            homes: Where weights come from.
            buffers: Room for weights that are on their way or not freed yet.
        """
        self.device = device
        self.number = number
        self.brought_bytes = 0
        """What it has brought so far."""
        self.log: list[LogEntry] | None = None
        """What it has brought, while that is recorded: before the parts that read it are told."""
        self.buffers = buffers
        self._homes = homes
        self._room = threading.Condition()
        self._inbox: SimpleQueue[tuple[Request, Sequence[Delivery]] | None] = SimpleQueue()
        self._thread = threading.Thread(
            target=self._live, name=f"dplace weights {device.name}", daemon=True
        )
        self._thread.start()

    def put(self, request: "Request", deliveries: Sequence[Delivery]) -> None:
        """Bring the weights of a request, after those of the requests before it.

        All devices have to be given the requests in one order; else each could hold what the
        other's buffers have no room for.
        """
        self._inbox.put((request, deliveries))

    def give_back(self, piece: Piece) -> None:
        """Take back the room of a weight that nobody reads any more; any thread may call it."""
        with self._room:
            self.buffers.give_back(piece)
            self._room.notify()

    def wake(self) -> None:
        """Look again whether the request that room is waited for is over."""
        with self._room:
            self._room.notify()

    def stop(self) -> None:
        """End the thread when it comes to rest."""
        self._inbox.put(None)

    def join(self) -> None:
        """Wait until the thread has ended."""
        if self._thread is not threading.current_thread():
            self._thread.join()

    def _live(self) -> None:
        while self._serve():
            pass

    # A method of its own, so that a thread at rest has no name left for a request.
    def _serve(self) -> bool:
        """Bring the weights of one request; return whether to go on."""
        item = self._inbox.get()
        if item is None:
            return False
        request, deliveries = item
        for delivery in deliveries:
            piece = self._wait_for_room(request, delivery.weight.size_bytes)
            if piece is None:
                break
            try:
                held = self._bring(delivery.weight, piece, request.number)
            # onnxruntime's errors share no base below Exception.
            except Exception as error:
                self.give_back(piece)
                request.fail(self._failure(delivery.weight, error))
                break
            if not request.supply(delivery.slot, held, self, piece):
                self.give_back(piece)
                break
        return True

    def _wait_for_room(self, request: "Request", size_bytes: int) -> Piece | None:
        """Return room, or None if the request has ended meanwhile."""
        with self._room:
            while not request.has_failed:
                piece = self.buffers.take(size_bytes)
                if piece is not None:
                    return piece
                self._room.wait()
        return None

    def _bring(self, weight: StreamedWeight, piece: Piece, request: int) -> Held:
        """Return the weight in the device's memory."""
        start_s = time.perf_counter()
        if weight.home == HOST:
            self._homes.read(weight, piece.memory)
            held = tensor_over(piece.memory, weight.type, weight.shape)
        else:
            held = self._homes.held(weight.name)
        if weight.home != HOST or not self.device.is_cpu:
            held = copy_from(self.device)(held)
        self.brought_bytes += weight.size_bytes
        log = self.log
        if log is not None:
            log.append((request, weight, start_s, time.perf_counter()))
        return held

    def _failure(self, weight: StreamedWeight, error: Exception) -> DplaceError:
        """Return the error that the caller gets to see."""
        if isinstance(error, DplaceError):
            return error
        return DplaceError(
            f'weight "{weight.name}" cannot be brought to {self.device.name}: {reason(error)}'
        )


def streamers(plan: Plan, devices: Sequence[RunDevice], homes: Homes) -> list[Streamer]:
    """Return what brings weights to each device that needs some brought.

    Raises:
        PlanError: A weight is larger than the buffers of a device that it is sent to.
    """
    weights = {weight.name: weight for weight in plan.streamed}
    by_name = {device.name: device for device in devices}
    needed: list[tuple[int, RunDevice, Buffers]] = []
    for number, (device, planned) in enumerate(zip(devices, plan.devices, strict=True)):
        mine = [
            weights[step.subject]
            for step in planned.program
            if step.action == "receive" and step.subject in weights
        ]
        mine = [weight for weight in mine if not is_handed_over(weight, by_name, device)]
        for weight in mine:
            if weight.size_bytes > planned.buffer_bytes:
                raise PlanError(
                    f'weight "{weight.name}" takes {weight.size_bytes} bytes, the buffers of '
                    f"{device.name} have {planned.buffer_bytes}; place the model again"
                )
        if mine:
            sizes = [weight.size_bytes for weight in mine]
            needed.append((number, device, Buffers(planned.buffer_bytes, sizes)))
    return [Streamer(device, number, homes, buffers) for number, device, buffers in needed]
