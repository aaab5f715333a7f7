"""Measure every op of a model: whole runs under onnxruntime's profiler, beside runs without.

The profiler adds to what it measures: a few microseconds within the time of each node, and more
between nodes. Plain runs tell what a call takes without it, and predictions are of calls, so what
the profiler adds is taken out such that the times of the ops and the overhead of the call are the
time of a plain call. Both kinds of run take turns, so that a busy machine is busy for both.

Before each timed run its session has run a few times, as those of requests that are repeated have.
What counts are runs during which the core was its own (``probe.py``), and of these the quicker
half, for whatever else a machine does only ever adds time.
"""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dplace.errors import ModelError
from dplace.profiles.measured_graph import MeasuredGraph
from dplace.profiles.ort_profile import NodeEvents, read_node_events
from dplace.profiles.probe import FEWEST, SpeedProbe, num_undisturbed, undisturbed, waited_s
from dplace.profiles.timing import SETTLE_RUNS, pinned, quickest, settle, spread, timed
from dplace.runtime.devices import RunDevice, session_options
from dplace.runtime.reason import reason
from dplace.runtime.values import Value, hold

__all__ = [
    "Effort",
    "OpTimes",
    "empty_call_s",
    "measure_ops",
    "net_seconds",
    "plain_call",
]

WARMUP = 3
MAX_EVENTS = 250_000
"""In one profile: each takes 0.4 kB of the file and 4 kB once read; above a million, onnxruntime
drops them. The least number of runs is made nevertheless."""
LEAST_RUNS = 4
_CPU_DEVICE = RunDevice(name="CPU", provider="CPUExecutionProvider", index=0, core=None)
LEAST_S = 2e-7
"""No node takes less: onnxruntime has to step over it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """When to stop: at the confidence wanted or at the limit, whichever comes first."""

    relative_error: float = 0.01
    """Standard error of a call's median, as a fraction of it."""
    min_runs: int = 24
    """Undisturbed ones."""
    max_runs: int = 600
    limit_s: float = 20.0
    """Seconds after which no further run starts, the first few aside."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OpTimes:
    """What a model's ops take."""

    seconds: NDArray[np.float64]
    """Shape ``(num_ops,)``; NaN for an op that has no node that ran."""
    relative_error: NDArray[np.float64]
    """Shape ``(num_ops,)``: standard error of the op's time, as a fraction of it."""
    runs: int
    """Runs under the profiler that count."""
    call_s: float
    """A plain call of the whole model, in seconds."""
    profiled_call_s: float
    """The same with the profiler."""
    event_s: float
    """What the profiler added to each node, in seconds."""
    relative_call_error: float
    """Standard error of ``call_s``, as a fraction of it."""
    probe_s: float
    """What the speed probe took beside the calls that ``call_s`` is of."""
    was_disturbed: bool
    """Whether there were so few runs with a core of their own that others had to do."""


def measure_ops(
    graph: MeasuredGraph,
    feeds: Mapping[str, Value],
    *,
    num_ops: int,
    device: RunDevice,
    fixed_shapes: bool,
    folder: Path,
    effort: Effort | None = None,
) -> OpTimes:
    """Run the model and return what its ops take on ``device``.

    Args:
        feeds: A value for each input.
        fixed_shapes: Whether all inputs have fixed shapes, so that memory is planned once.
        folder: Takes the profiler's file.

    Raises:
        ModelError: The model does not run on these inputs.
        InputError: onnxruntime wrote a profile that cannot be read.
    """
    effort = effort or Effort()
    feeds = {name: feeds[name] for name in graph.inputs if name in feeds}
    with pinned(device.core):
        plain = _session(graph.path, device, fixed_shapes, None)
        traced = _session(graph.path, device, fixed_shapes, folder / "profile")
        run_plain, run_traced = (_Run(one, feeds, graph.outputs) for one in (plain, traced))
        log = RunLog()
        for _ in range(WARMUP):
            run_plain()
            run_traced()
        num_events = len(graph.node_ops)
        if graph.has_bodies:  # how often those run, only running them tells
            trial = _session(graph.path, device, fixed_shapes, folder / "trial")
            _Run(trial, feeds, graph.outputs)()
            num_events = sum(1 + int(node.inner.sum()) for node in _events(trial, graph).values())
            del trial
        most_traced = MAX_EVENTS // max(1, num_events) // (SETTLE_RUNS + 1)
        max_runs = max(LEAST_RUNS, min(effort.max_runs, most_traced))
        while len(log.plain_s) < max_runs and not log.is_enough(effort):
            settle(run_plain)
            log.plain_s.append(timed(run_plain))
            log.traced_before += settle(run_traced)
            log.add_traced(timed(run_traced))
            log.take_probe()
        overhead_s = empty_call_s(device)
    return _op_times(graph, _events(traced, graph), num_ops, log, overhead_s)


def _events(session: Any, graph: MeasuredGraph) -> dict[str, NodeEvents]:
    """Put an end to a session's profile and return what it holds."""
    file = Path(session.end_profiling())
    try:
        return read_node_events(file, graph.node_ops)
    finally:
        file.unlink(missing_ok=True)


def _session(
    model: Path | bytes, device: RunDevice, fixed_shapes: bool, prefix: Path | None
) -> Any:
    """Return a native session that runs the graph as it is, with the profiler if told where."""
    import onnxruntime

    options = session_options("none", fixed_shapes=fixed_shapes)
    if prefix is not None:
        options.enable_profiling = True
        options.profile_file_prefix = str(prefix)
    source = os.fspath(model) if isinstance(model, Path) else model
    try:
        session = onnxruntime.InferenceSession(
            source, options, providers=device.providers, enable_fallback=0
        )
    # onnxruntime's errors share no base below Exception.
    except Exception as error:
        raise ModelError(f"onnxruntime refuses the model: {reason(error)}") from error
    return session._sess


class _Run:
    """Runs a session on inputs, which it keeps alive: what is held is read where it lies."""

    def __init__(self, session: Any, feeds: Mapping[str, Value], outputs: Sequence[str]) -> None:
        self._session = session
        self._outputs = list(outputs)
        self._held = {name: hold(value) for name, value in feeds.items()}
        self._native = {name: one for name, (one, _) in self._held.items() if one is not None}

    def __call__(self) -> object:
        try:
            return self._session.run_with_ort_values(self._native, self._outputs, None)
        # onnxruntime's errors share no base below Exception.
        except Exception as error:
            raise ModelError(f"the model does not run on these inputs: {reason(error)}") from error


def plain_call(model: Path, feeds: Mapping[str, Value]) -> Callable[[], object]:
    """Return a function that runs a model file on the CPU, as it is and beside no runtime."""
    session = _session(model, _CPU_DEVICE, True, None)
    return _Run(session, feeds, [output.name for output in session.outputs_meta])


def empty_call_s(device: RunDevice | None = None) -> float:
    """Return what a call of a model with next to no work takes, in seconds."""
    from dplace.runtime.devices import TRIAL_MODEL

    session = _session(TRIAL_MODEL, device or _CPU_DEVICE, True, None)
    run = _Run(session, {"x": np.zeros(1, np.float32)}, ["y"])
    calls = np.array([timed(run) for _ in range(300)])
    return max(float(np.median(calls[quickest(calls)])) - LEAST_S, 0.0)


class RunLog:
    """What the runs took, plain and under the profiler by turns, with probes between."""

    def __init__(self) -> None:
        self.plain_s: list[float] = []
        self.traced_s: list[float] = []
        self.traced_runs: list[int] = []
        """Of each timed run under the profiler, its number among all of them."""
        self.traced_before = WARMUP
        self._probe = SpeedProbe()
        self._probes_s = [self._probe.take()]
        self._waited_s = [waited_s()]
        self._seen_s = [time.perf_counter()]

    def add_traced(self, seconds: float) -> None:
        """Note a timed run under the profiler."""
        self.traced_s.append(seconds)
        self.traced_runs.append(self.traced_before)
        self.traced_before += 1

    def take_probe(self) -> None:
        """Look how quick the core is; to be called after each pair of runs."""
        self._probes_s.append(self._probe.take())
        self._waited_s.append(waited_s())
        self._seen_s.append(time.perf_counter())

    def kept(self) -> NDArray[np.intp]:
        """Return the numbers of the pairs during which the core was its own."""
        return undisturbed(*self._conditions())

    @property
    def was_disturbed(self) -> bool:
        """Return whether the core was its own during so few pairs that others had to do."""
        return num_undisturbed(*self._conditions()) < min(FEWEST, len(self.plain_s) / 2)

    def _conditions(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the probes around each pair, and what fraction of it this process waited."""
        before, after = self._probes_s[:-1], self._probes_s[1:]
        waited = np.diff(self._waited_s) / np.diff(self._seen_s)
        return np.stack([before, after], axis=1), waited

    def probe_s(self) -> float:
        """Return what a probe took on average beside the plain runs that count."""
        kept = self.kept()
        kept = kept[quickest(np.array(self.plain_s)[kept])]
        probes_s = np.array(self._probes_s)
        return float((probes_s[kept] + probes_s[kept + 1]).mean() / 2)

    def is_enough(self, effort: Effort) -> bool:
        """Return whether the calls' times are sure, or it takes too long."""
        runs = len(self.plain_s)
        if runs < LEAST_RUNS:
            return False
        if time.perf_counter() - self._seen_s[0] > effort.limit_s:
            return True
        if runs < effort.min_runs or len(kept := self.kept()) < effort.min_runs:
            return False
        return all(
            spread(np.array(seconds)[kept])[1] < effort.relative_error
            for seconds in (self.plain_s, self.traced_s)
        )


def _op_times(
    graph: MeasuredGraph,
    events: Mapping[str, NodeEvents],
    num_ops: int,
    log: RunLog,
    overhead_s: float,
) -> OpTimes:
    """Take out what the profiler added, and spread the nodes' times over the ops."""
    kept = log.kept()
    profiled_s = np.array(log.traced_s)
    call_s, call_error = spread(np.array(log.plain_s)[kept])
    profiled_call_s, _ = spread(profiled_s[kept])
    kept = kept[quickest(profiled_s[kept])]
    chosen_runs = np.array(log.traced_runs)[kept]
    names = list(events)
    measured = np.empty(len(names))
    errors = np.empty(len(names))
    inner = np.empty(len(names))
    for index, name in enumerate(names):
        event = events[name]
        # The runs that are not timed have events too; a full file lacks some of the last.
        in_file = chosen_runs[chosen_runs < len(event.seconds)]
        chosen = event.seconds[in_file] if len(in_file) else event.seconds
        measured[index], errors[index] = _middle(chosen)
        inner[index] = float(np.median(event.inner))
    num_events = len(names) + inner.sum()
    event_s = max(0.0, (profiled_call_s - call_s) / max(1.0, num_events))
    node_s = net_seconds(measured, inner, event_s, max(call_s - overhead_s, LEAST_S * len(names)))
    seconds = np.zeros(num_ops)
    variance = np.zeros(num_ops)
    seen = np.zeros(num_ops, dtype=bool)
    for index, name in enumerate(names):
        ops = list(graph.node_ops[name])
        seen[ops] = True
        seconds[ops] += node_s[index] / len(ops)
        variance[ops] += (errors[index] / len(ops)) ** 2
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = np.where(seconds > 0, np.sqrt(variance) / seconds, 0.0)
    seconds[~seen] = np.nan
    return OpTimes(
        seconds=seconds,
        relative_error=relative,
        runs=len(kept),
        call_s=call_s,
        profiled_call_s=profiled_call_s,
        event_s=event_s,
        relative_call_error=call_error,
        probe_s=log.probe_s(),
        was_disturbed=log.was_disturbed,
    )


def _middle(seconds: NDArray[np.float64]) -> tuple[float, float]:
    """Return the mean of the middle half and its standard error, in seconds.

    A median would be a whole number of microseconds, as the profiler writes them.
    """
    ordered = np.sort(seconds)
    cut = len(ordered) // 4
    middle = ordered[cut : len(ordered) - cut]
    if len(ordered) < 4:
        return float(middle.mean()), 0.0
    deviation = (ordered[-cut - 1] - ordered[cut]) / 1.349
    return float(middle.mean()), float(1.2533 * deviation / np.sqrt(len(ordered)))


def net_seconds(
    measured: NDArray[np.float64], inner: NDArray[np.float64], event_s: float, total_s: float
) -> NDArray[np.float64]:
    """Return the nodes' times without the profiler's part, such that their sum is ``total_s``.

    The whole of ``event_s`` for each inner event lies within its node; of a node's own event only
    a part does, the same for all. That part is what makes the sum right; where no part of it
    does, as on a busy machine, the rest is taken in proportion.
    """

    def net(own_s: float) -> NDArray[np.float64]:
        return np.maximum(measured - inner * event_s - own_s, LEAST_S)

    own_s = _root(lambda own_s: float(net(own_s).sum()) - total_s, 0.0, event_s)
    node_s = net(own_s)
    scaled: NDArray[np.float64] = node_s * (total_s / node_s.sum())
    return scaled


def _root(excess: Callable[[float], float], low: float, high: float) -> float:
    """Return where a falling function is 0, or the end of the range that is nearest to it."""
    if excess(low) <= 0:
        return low
    if excess(high) >= 0:
        return high
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) > 0 else (low, middle)
    return (low + high) / 2
