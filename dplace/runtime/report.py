"""Run a plan and say how long it took and how far it is from the whole model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from dplace.errors import InputError
from dplace.new_file import new_file
from dplace.plan.planned_times import planned_times
from dplace.plan.records import Plan
from dplace.report.json_text import json_text
from dplace.report.run_trace import run_trace
from dplace.runtime.check import (
    OutputDifference,
    Tolerance,
    compare,
    default_tolerance,
    run_whole,
)
from dplace.runtime.gaps import Gaps, gaps
from dplace.runtime.inputs import InputCheck, draw_inputs
from dplace.runtime.measure import Measurement, measure
from dplace.runtime.npz import read_npz, write_npz
from dplace.runtime.placed_session import PlacedSession
from dplace.runtime.values import Value

if TYPE_CHECKING:
    from dplace.runtime.ranks.session import RankSession

__all__ = ["RunReport", "run_plan"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """What a run of a plan showed."""

    folder: Path
    plan: Plan
    measurement: Measurement
    drawn: tuple[str, ...]
    """Inputs that were not given, so random."""
    checked: str | None
    """Name of the whole model that was run beside it; None if none was."""
    differences: tuple[OutputDifference, ...]
    """From the whole model, of each output."""
    saved: Path | None
    """Where the outputs are."""
    trace: Path | None = None
    """Where the median run is drawn beside its prediction."""
    gaps: Gaps | None = None
    """How far the median run was from its prediction; None without a trace."""
    warnings: tuple[str, ...] = ()

    @property
    def max_abs_diff(self) -> float | None:
        """Return the largest difference of all outputs; None if there was no check."""
        if self.checked is None:
            return None
        return max((output.max_abs_diff for output in self.differences), default=0.0)

    @property
    def failure(self) -> str | None:
        """Return in one line which outputs are further off than allowed, None if none is."""
        bad = [output for output in self.differences if not output.is_within]
        if not bad:
            return None
        worst = max(bad, key=lambda output: output.max_abs_diff)
        more = f" ({len(bad)} outputs differ)" if len(bad) > 1 else ""
        return (
            f'output "{worst.name}" differs from that of {self.checked} by '
            f"{worst.max_abs_diff:.3g}, allowed is {allowed_text(worst.tolerance)}{more}"
        )

    def as_json(self) -> dict[str, object]:
        """Return the report as one JSON object."""
        measured = self.measurement
        stragglers = measured.stragglers
        return {
            "model": self.plan.model,
            "cluster": self.plan.cluster,
            "plan": str(self.folder),
            "exact": self.plan.exact,
            "runs": len(measured.latencies_s),
            "latency_s": measured.spread.as_json(),
            "straggler_effect": {"mean": stragglers.mean, "max": stragglers.max},
            "predicted_makespan_s": self.plan.makespan_s,
            "devices": [
                {
                    "name": use.name,
                    "parts": use.parts,
                    "calls": use.calls,
                    "busy_s": use.busy_s,
                    **spread.as_json(),
                }
                for use, spread in zip(measured.devices, measured.device_spreads, strict=True)
            ],
            "drawn_inputs": list(self.drawn),
            "checked": self.checked,
            "max_abs_diff": self.max_abs_diff,
            "is_within": None if self.checked is None else self.failure is None,
            "outputs": [
                {
                    "name": output.name,
                    "max_abs_diff": output.max_abs_diff,
                    "max_rel_diff": output.max_rel_diff,
                    "atol": output.tolerance.atol,
                    "rtol": output.tolerance.rtol,
                    "is_within": output.is_within,
                }
                for output in self.differences
            ],
            "saved": None if self.saved is None else str(self.saved),
            "trace": self._trace_json(),
            "warnings": list(self.warnings),
        }

    def _trace_json(self) -> dict[str, object] | None:
        """Return what was drawn and how far it was from its prediction."""
        if self.trace is None or self.gaps is None:
            return None
        run = self.measurement.median_run
        return {
            "file": str(self.trace),
            "run": run,
            "latency_s": self.measurement.latencies_s[run],
            **self.gaps.as_json(),
        }


def allowed_text(tolerance: Tolerance) -> str:
    """Return a tolerance as people read it."""
    if tolerance.rtol:
        return f"{tolerance.atol:.3g} + {tolerance.rtol:.3g} of the number"
    return f"{tolerance.atol:.3g}"


def run_plan(
    folder: Path,
    *,
    inputs: Path | Mapping[str, Value] | None = None,
    dims: Mapping[str, int] | None = None,
    repeat: int = 10,
    warmup: int = 2,
    check: Path | bytes | None = None,
    atol: float | None = None,
    rtol: float | None = None,
    save_outputs: Path | None = None,
    trace: Path | None = None,
    seed: int = 0,
    allow_cpu: bool = False,
    open_session: Callable[..., PlacedSession | RankSession] = PlacedSession,
) -> RunReport:
    """Run a plan several times, and compare its outputs with the whole model's.

    Args:
        inputs: An .npz file, or values by name; inputs that are not in it are drawn from ``seed``.
        dims: Sizes of dynamic dimensions of drawn inputs; others are those of the given inputs,
            else those that the plan was made for.
        check: The whole model, which is run in one session at the same optimization level.
        atol: How far a number may be off, plus ``rtol`` times its size. Without both: nothing if
            the plan is exact, else by the type and size of the numbers, see ``default_tolerance``.
        save_outputs: An .npz file to write the outputs to.
        trace: A file to draw the median run and its prediction in, as a Chrome trace.
        allow_cpu: Let CPU cores stand in for devices that are not on this machine.
        open_session: From the folder and ``allow_cpu`` to what runs the plan.

    Raises:
        InputError: An input, a dimension or a file cannot be used.
        PlanError: The plan cannot be used here.
        DplaceError: A device is missing, or a part failed.
    """
    if isinstance(check, Path) and not check.is_file():
        raise InputError(f"{check}: there is no such model file")
    if save_outputs is not None and not save_outputs.absolute().parent.is_dir():
        raise InputError(f"{save_outputs}: there is no folder {save_outputs.absolute().parent}")
    values = read_npz(inputs) if isinstance(inputs, Path) else inputs or {}
    with ExitStack() as stack:
        file = stack.enter_context(_trace_file(trace)) if trace is not None else None
        with open_session(folder, allow_cpu=allow_cpu) as session:
            plan = session.plan
            given = _with_sequences(plan, values)
            feeds = _feeds(plan, given, dims or {}, seed)
            measured = measure(
                session, feeds, warmup=warmup, repeat=repeat, keep_events=file is not None
            )
            device = next((one for one in session.devices if not one.is_cpu), session.devices[0])
        found = _draw(plan, measured, trace, file) if trace is not None and file else None
    outputs = {
        value.name: output for value, output in zip(plan.outputs, measured.outputs, strict=True)
    }
    warnings: list[str] = []
    if save_outputs is not None:
        left_out = write_npz(save_outputs, outputs)
        if left_out:
            warnings.append(f"not saved, for .npz has no form for it: {', '.join(left_out)}")
    differences: tuple[OutputDifference, ...] = ()
    if check is not None:
        whole = run_whole(check, plan, device, feeds)
        differences = tuple(
            compare(name, found, whole[name], _tolerance(whole[name], plan, atol, rtol))
            for name, found in outputs.items()
        )
    return RunReport(
        folder=folder,
        plan=plan,
        measurement=measured,
        drawn=tuple(name for name in feeds if name not in given),
        checked=None if check is None else _model_name(check, plan),
        differences=differences,
        saved=save_outputs,
        trace=trace,
        gaps=found,
        warnings=tuple(warnings),
    )


@contextmanager
def _trace_file(path: Path) -> Iterator[BinaryIO]:
    """Yield the file before anything runs, so that one that cannot be written is told at once."""
    if path.is_dir():
        raise InputError(f"{path}: it is a folder; --trace needs a file to write to")
    with ExitStack() as stack:
        try:
            file = stack.enter_context(new_file(path))
        except OSError as error:
            raise InputError(f"{path}: cannot be written: {error.strerror}") from error
        yield file


def _draw(plan: Plan, measured: Measurement, path: Path, file: BinaryIO) -> Gaps:
    """Write the trace of the median run; return how far the run was from its prediction."""
    planned = planned_times(plan)
    run = measured.iterations[measured.median_run]
    found = gaps(plan, planned, measured.events, run.start_s, run.end_s)
    content = run_trace(
        plan,
        planned,
        found,
        measured.events,
        run=measured.median_run,
        start_s=run.start_s,
        end_s=run.end_s,
    )
    try:
        file.write(json_text(content).encode())
        file.flush()
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}") from error
    return found


def _feeds(
    plan: Plan, given: Mapping[str, Value], dims: Mapping[str, int], seed: int
) -> dict[str, Value]:
    """Return a value for every input of the plan, in its order."""
    sizes = dict(plan.dims)
    symbols = {size for value in plan.inputs for size in value.shape or () if isinstance(size, str)}
    for value in (*plan.inputs, *plan.overridable):
        shape = getattr(given.get(value.name), "shape", None)
        if isinstance(shape, tuple) and value.shape and len(shape) == len(value.shape):
            pairs = zip(value.shape, shape, strict=True)
            sizes.update({name: size for name, size in pairs if isinstance(name, str)})
    for name in dims:
        if name not in symbols:
            known = ", ".join(sorted(symbols)) or "none"
            raise InputError(
                f"--dim {name}: no input has a dimension of that name; there are {known}"
            )
    sizes.update(dims)
    drawn = draw_inputs(
        [value for value in plan.inputs if value.name not in given],
        rng=np.random.default_rng(seed),
        dims=sizes,
        index_limits=plan.index_limits,
    )
    feeds = {**given, **drawn}
    InputCheck(plan.inputs, plan.overridable).hold(feeds)
    order = [value.name for value in (*plan.inputs, *plan.overridable)]
    return {name: feeds[name] for name in order if name in feeds}


def _with_sequences(plan: Plan, given: Mapping[str, Value]) -> dict[str, Value]:
    """Return values with those called ``NAME[0]``, ``NAME[1]``, ... made the sequence NAME."""
    found = dict(given)
    for value in plan.inputs:
        if value.type.startswith("seq(") and value.name not in found:
            elements: list[Value] = []
            while (name := f"{value.name}[{len(elements)}]") in found:
                elements.append(found.pop(name))
            if elements:
                found[value.name] = elements
    return found


def _tolerance(expected: Value, plan: Plan, atol: float | None, rtol: float | None) -> Tolerance:
    if atol is None and rtol is None:
        return default_tolerance(expected, exact=plan.exact)
    return Tolerance(atol=atol or 0.0, rtol=rtol or 0.0)


def _model_name(model: Path | bytes, plan: Plan) -> str:
    return model.name if isinstance(model, Path) else plan.model
