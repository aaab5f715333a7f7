"""PlacedSession: a plan, driven like an onnxruntime.InferenceSession."""

import itertools
import os
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from types import TracebackType
from typing import Self

import numpy as np
import onnxruntime

from dplace.errors import DplaceError, InputError, PlanError
from dplace.plan.records import Plan, ValueType
from dplace.runtime.devices import RunDevice, resolve_devices
from dplace.runtime.events import RunEvent
from dplace.runtime.fingerprint import check_fingerprint
from dplace.runtime.inputs import InputCheck, unknown_name
from dplace.runtime.part import LoadedPart
from dplace.runtime.recording import Recording
from dplace.runtime.request import Request
from dplace.runtime.route import Route, compile_route
from dplace.runtime.streams import Homes, Streamer, streamers
from dplace.runtime.values import Held, NativeValue, Value, to_python
from dplace.runtime.worker import Worker

__all__ = ["DeviceUsage", "NodeArg", "PlacedSession", "node_arg"]


@dataclass(frozen=True, slots=True)
class NodeArg:
    """Name and type of an input or output, with the fields of onnxruntime's NodeArg."""

    name: str
    type: str
    shape: list[int | str | None]
    """Empty for an unknown rank, too, as onnxruntime has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceUsage:
    """What a device has done for a session."""

    name: str
    parts: int
    """Parts that it holds."""
    calls: int
    """Parts that it has run."""
    busy_s: float
    """Time that it has spent in them."""


class PlacedSession:
    """A model that runs on the devices it was placed on.

    Looks like ``onnxruntime.InferenceSession``: ``get_inputs``, ``get_outputs``, ``run``. Any
    number of threads may call ``run`` at once; their requests overlap on the devices. Close it, or
    use it as a context manager, to give the weights' memory back.

    Every device has a thread, that of a CPU device pinned to a core. Where all parts lie on one
    CPU device, the caller's thread does its work, one request at a time. A device that weights are
    streamed to has one more thread, and holds no more of them than the plan has room for.

    Outputs of types that NumPy lacks (bfloat16, float8, int4, ...) come as arrays of ml_dtypes,
    where onnxruntime raises or returns the bytes; inputs of such types are taken likewise.
    """

    def __init__(
        self,
        plan: str | os.PathLike[str] | Plan,
        *,
        folder: str | os.PathLike[str] | None = None,
        allow_cpu: bool = False,
        verify: bool = True,
    ) -> None:
        """Open every part on its device.

        Args:
            plan: A plan folder, or the Plan that was read from ``folder``.
            allow_cpu: Let CPU cores stand in for devices that are not on this machine.
            verify: Compare the digests of the plan's files first.

        Raises:
            PlanError: The plan is incomplete, was changed, or is bound to another machine.
            DplaceError: A device is not on this machine.
        """
        if isinstance(plan, Plan):
            if folder is None:
                raise PlanError(f"the plan of {plan.model}: give the folder that it lies in")
            path = Path(folder)
        else:
            from dplace.plan.read import read_plan

            path = Path(plan)
            plan = read_plan(path, verify=verify)
        check_fingerprint(plan)
        self.plan = plan
        self._devices = resolve_devices(plan, allow_cpu=allow_cpu)
        self._check = InputCheck(plan.inputs, plan.overridable)
        self._output_names = tuple(value.name for value in plan.outputs)
        self._numbers = itertools.count()
        self._routes: dict[tuple[str, ...], Route] = {}
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._idle = threading.Condition(self._lock)
        self._running = 0
        self._is_closed = False
        self._parts: dict[str, LoadedPart] = {}
        self._workers = [Worker(device) for device in self._devices]
        self._lone = _lone_worker(plan, self._workers)
        self._homes = Homes(plan, path)
        self._streamers: list[Streamer] = []
        self._recording = Recording(self._workers, self._streamers)
        self._in_order = threading.Lock()
        self._finalizer = weakref.finalize(self, _stop, self._workers, self._streamers, self._homes)
        try:
            self._streamers += streamers(plan, self._devices, self._homes)
            self._open(path)
            self._route(self._output_names)
        except BaseException:
            self.close()
            raise

    def _open(self, folder: Path) -> None:
        """Open all parts, each in the thread that will run it."""
        answers: SimpleQueue[Exception | None] = SimpleQueue()
        level = "none" if self.plan.optimize == "native" else self.plan.opt_level
        if self._lone is not None:
            _opener(self.plan, folder, self._lone.device, level, self._parts, self._homes)()
            return
        for worker in self._workers:
            opener = _opener(self.plan, folder, worker.device, level, self._parts, self._homes)
            worker.start(opener, answers.put)
        errors = [error for _ in self._workers if (error := answers.get()) is not None]
        if errors:
            raise errors[0]

    def get_inputs(self) -> list[NodeArg]:
        """Return name, type and shape of each input."""
        return [node_arg(value) for value in self.plan.inputs]

    def get_outputs(self) -> list[NodeArg]:
        """Return name, type and shape of each output."""
        return [node_arg(value) for value in self.plan.outputs]

    def get_overridable_initializers(self) -> list[NodeArg]:
        """Return the initializers that may be fed another value."""
        return [node_arg(value) for value in self.plan.overridable]

    def run(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Value],
        run_options: onnxruntime.RunOptions | None = None,
    ) -> list[Value]:
        """Return the outputs called ``output_names``, or all for None or an empty list.

        Parts that only other outputs need are not run.

        Args:
            input_feed: By name an array, a list (for sequences too), a map or an OrtValue.
            run_options: Handed to every part.

        Raises:
            InputError: A name is unknown or missing, or a value is of another type or shape.
            DplaceError: A part failed; the message names it and its device.
        """
        return self._run(output_names, input_feed, run_options, self._as_python)

    def run_with_ort_values(
        self,
        output_names: Sequence[str] | None,
        input_dict_ort_values: Mapping[str, onnxruntime.OrtValue],
        run_options: onnxruntime.RunOptions | None = None,
    ) -> list[onnxruntime.OrtValue]:
        """Return the outputs as OrtValues in host memory; see ``run``."""
        return self._run(output_names, input_dict_ort_values, run_options, _as_ort_value)

    def _run(
        self,
        output_names: Sequence[str] | None,
        feeds: Mapping[str, Value],
        options: onnxruntime.RunOptions | None,
        convert: Callable[[Held], Value],
    ) -> list[Value]:
        """Run one request and convert what it returns."""
        if os.getpid() != self._process:
            raise DplaceError("a PlacedSession does not survive a fork; open it in the child")
        with self._lock:
            if self._closed():
                raise DplaceError(f"the session of {self.plan.model} is closed")
            self._running += 1
        try:
            held = self._check.hold(feeds)
            route = self._route(tuple(output_names) if output_names else self._output_names)
            request = self._request(route, held, options)
            values = request.run(lone=self._lone)
            return [
                convert(values[fetch]) if isinstance(fetch, int) else _passed(*held[fetch], convert)
                for fetch in route.fetches
            ]
        finally:
            with self._lock:
                self._running -= 1
                if self._closed():
                    self._idle.notify_all()

    def _request(
        self,
        route: Route,
        feeds: Mapping[str, tuple[Held, object]],
        options: onnxruntime.RunOptions | None,
    ) -> Request:
        """Return a new request; what is streamed for it is on its way."""
        if not (route.constants or any(route.deliveries)):
            return Request(next(self._numbers), route, self._workers, feeds, options)
        lying = {name: (self._homes.held(name), None) for name, _ in route.constants}
        with self._in_order:
            request = Request(
                next(self._numbers),
                route,
                self._workers,
                {**feeds, **lying},
                options,
                self._streamers,
            )
            for streamer in self._streamers:
                if route.deliveries[streamer.number]:
                    streamer.put(request, route.deliveries[streamer.number])
        return request

    def _closed(self) -> bool:
        return self._is_closed

    def _route(self, names: tuple[str, ...]) -> Route:
        """Return the compiled route to some outputs; a caller asks for few different ones."""
        route = self._routes.get(names)
        if route is None:
            for name in names:
                if name not in self._output_names:
                    raise InputError(unknown_name("output", name, self._output_names))
            route = compile_route(self.plan, self._devices, self._parts, names)
            self._routes[names] = route
        return route

    def _as_python(self, held: Held) -> Value:
        # Sequences are read through a session, any will do.
        return to_python(held, next(iter(self._parts.values())).session if self._parts else None)

    @property
    def devices(self) -> tuple[RunDevice, ...]:
        """Return the devices as they are driven here, in the plan's order."""
        return self._devices

    def usage(self) -> tuple[DeviceUsage, ...]:
        """Return what each device has done so far, in the plan's order."""
        return tuple(
            DeviceUsage(
                name=worker.device.name,
                parts=sum(part.device == worker.device.name for part in self.plan.parts),
                calls=worker.calls,
                busy_s=worker.busy_s,
            )
            for worker in self._workers
        )

    def start_recording(self) -> None:
        """Record what requests do from here on; those are numbered from 0."""
        self._recording.start(lambda: next(self._numbers))

    def take_events(self) -> list[RunEvent]:
        """Return what was recorded since the start or the last call, in the order of starts."""
        return self._recording.take()

    def stop_recording(self) -> list[RunEvent]:
        """Record no more; return what ``take_events`` would."""
        return self._recording.stop()

    def close(self) -> None:
        """Wait for requests that are running, then end the threads and close all parts."""
        with self._idle:
            if self._is_closed:
                return
            self._is_closed = True
            self._idle.wait_for(lambda: self._running == 0)
        self._finalizer()
        self._routes.clear()
        self._parts.clear()
        self._streamers.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def _lone_worker(plan: Plan, workers: Sequence[Worker]) -> Worker | None:
    """Return the worker that callers drive: that of the CPU device which has all parts, if any.

    With streamed weights there is none: the worker has to wait for them.
    """
    if plan.streamed:
        return None
    used = {part.device for part in plan.parts}
    busy = [worker for worker in workers if worker.device.name in used] or workers[:1]
    return busy[0] if len(busy) == 1 and busy[0].device.is_cpu else None


def _stop(workers: Sequence[Worker], streams: Sequence[Streamer], homes: Homes) -> None:
    threads: list[Worker | Streamer] = [*workers, *streams]
    for thread in threads:
        thread.stop()
    for thread in threads:
        thread.join()
    homes.close()


def _opener(
    plan: Plan,
    folder: Path,
    device: RunDevice,
    level: str,
    parts: dict[str, LoadedPart],
    homes: Homes,
) -> Callable[[], None]:
    """Return the function with which a worker opens the parts of its device."""
    # A memory pattern takes the room of all values of a part at once. Where weights are streamed
    # memory is scarce: measured, a plan with patterns took 6 MB in 1.2 GB more than was planned.
    fixed_shapes = not plan.streamed and all(
        value.shape is not None and all(isinstance(size, int) for size in value.shape)
        for value in (*plan.inputs, *plan.overridable)
    )

    def open_parts() -> None:
        homes.load(device)
        for part in plan.parts:
            if part.device == device.name:
                parts[part.name] = LoadedPart(
                    part.name,
                    folder / part.file,
                    (*part.inputs, *part.overridable),
                    device,
                    label=f"part {part.name} ({part.file}) on {device.name}",
                    level=level,
                    fixed_shapes=fixed_shapes,
                )

    return open_parts


def node_arg(value: ValueType) -> NodeArg:
    """Return an input or output of a plan as onnxruntime would describe it."""
    return NodeArg(name=value.name, type=value.type, shape=list(value.shape or ()))


def _as_ort_value(held: Held) -> Value:
    return onnxruntime.OrtValue(held) if type(held) is NativeValue else held


def _passed(held: Held, owner: object, convert: Callable[[Held], Value]) -> Value:
    """Return an input that is an output: an OrtValue as it is, an array as one of its own."""
    if convert is _as_ort_value:
        return owner
    value = convert(held)
    return value.copy() if isinstance(value, np.ndarray) else value
