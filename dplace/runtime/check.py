"""The outputs of a plan against those of the whole model in one session."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dplace.errors import InputError, ModelError, PlanError
from dplace.plan.records import Plan
from dplace.runtime.devices import RunDevice
from dplace.runtime.part import LoadedPart
from dplace.runtime.reason import reason
from dplace.runtime.values import Value, hold, to_python, type_of_array

__all__ = ["OutputDifference", "Tolerance", "compare", "default_tolerance", "run_whole"]

SCALE_TOLERANCE = {
    "tensor(double)": 1e-10,
    "tensor(float)": 1e-4,
    "tensor(float16)": 1e-2,
    "tensor(bfloat16)": 5e-2,
}
"""What other fusions and another order of sums may change, as a fraction of the largest number of
the output: about a thousand roundings, fewer in the narrow types, which sum in float."""

FLOAT8_TOLERANCE = 0.25
"""One step of three or two bits, as a fraction of the largest number."""

QUANTIZED = ("tensor(uint8)", "tensor(int8)")
QUANTIZED_TOLERANCE = 1.0
"""A number that lies between two steps may be rounded to either."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tolerance:
    """How far a number may be off: ``atol + rtol * |expected|``."""

    atol: float = 0.0
    rtol: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputDifference:
    """How far an output is from what the whole model returns."""

    name: str
    max_abs_diff: float
    """0 where all is equal, NaN against NaN included; infinite for another shape, type or text."""
    max_rel_diff: float
    """Relative to the expected number, where that is not 0."""
    tolerance: Tolerance
    is_within: bool


def run_whole(
    model: Path | bytes, plan: Plan, device: RunDevice, feeds: Mapping[str, Value]
) -> dict[str, Value]:
    """Return the outputs of the whole model, in one session at the plan's optimization level.

    Raises:
        ModelError: onnxruntime does not take the model.
        InputError: It has other inputs or outputs than the plan.
    """
    label = model.name if isinstance(model, Path) else "the model"
    try:
        whole = LoadedPart(label, model, tuple(feeds), device, label=label, level=plan.opt_level)
    except PlanError as error:
        raise ModelError(str(error)) from error
    outputs = list(dict.fromkeys(value.name for value in plan.outputs))
    arguments = (*whole.session.get_inputs(), *whole.session.get_overridable_initializers())
    for kind, expected, found in (
        ("input", tuple(feeds), {value.name for value in arguments}),
        ("output", outputs, {value.name for value in whole.session.get_outputs()}),
    ):
        missing = [name for name in expected if name not in found]
        if missing:
            raise InputError(f'{label}: it has no {kind} "{missing[0]}", but the plan has')
    held = [hold(value) for value in feeds.values()]  # the owners, too, until the run is over
    try:
        results = whole.run(outputs, [value for value, _ in held], None)
    # onnxruntime's errors share no base below Exception.
    except Exception as error:
        raise ModelError(f"{label}: the whole model fails: {reason(error)}") from error
    values = [to_python(result, whole.session) for result in results]
    # An output that is an input shares its memory, which nobody holds from here on.
    return {
        name: value.copy() if isinstance(value, np.ndarray) else value
        for name, value in zip(outputs, values, strict=True)
    }


def default_tolerance(expected: Value, *, exact: bool) -> Tolerance:
    """Return what is allowed: nothing if the plan is exact, else by type and size of numbers."""
    if isinstance(expected, list):
        parts = [default_tolerance(element, exact=exact) for element in expected]
        return Tolerance(atol=max((part.atol for part in parts), default=0.0))
    if exact or not isinstance(expected, np.ndarray):
        return Tolerance()
    type_name = type_of_array(expected)
    if type_name in QUANTIZED:
        return Tolerance(atol=QUANTIZED_TOLERANCE)
    fraction = SCALE_TOLERANCE.get(type_name, FLOAT8_TOLERANCE if "float8" in type_name else 0.0)
    if not fraction or not expected.size:
        return Tolerance()
    numbers = np.abs(expected.astype(np.float64))
    scale = float(numbers[np.isfinite(numbers)].max(initial=0.0))
    return Tolerance(atol=fraction * scale)


def compare(name: str, found: Value, expected: Value, tolerance: Tolerance) -> OutputDifference:
    """Return how far ``found`` is from ``expected``; whatever is no number has to be equal."""
    absolute, relative, is_within = _difference(found, expected, tolerance)
    return OutputDifference(
        name=name,
        max_abs_diff=absolute,
        max_rel_diff=relative,
        tolerance=tolerance,
        is_within=is_within,
    )


def _difference(found: Value, expected: Value, tolerance: Tolerance) -> tuple[float, float, bool]:
    """Return the largest absolute and relative difference, and whether all are allowed."""
    if isinstance(expected, np.ndarray) and isinstance(found, np.ndarray):
        if found.dtype != expected.dtype or found.shape != expected.shape:
            return math.inf, math.inf, False
        if expected.dtype.kind in "OUS":
            return _equal(np.array_equal(found, expected))
        return _array_difference(found, expected, tolerance)
    pairs: Sequence[tuple[Value, Value]] = ()
    if isinstance(expected, list) and isinstance(found, list) and len(found) == len(expected):
        pairs = list(zip(found, expected, strict=True))
    elif isinstance(expected, dict) and isinstance(found, dict) and found.keys() == expected.keys():
        pairs = [(np.asarray(found[key]), np.asarray(expected[key])) for key in expected]
    elif type(found) is not type(expected) or isinstance(expected, list | dict):
        return _equal(False)
    else:
        return _equal(found == expected)
    parts = [_difference(mine, theirs, tolerance) for mine, theirs in pairs]
    return (
        max((absolute for absolute, _, _ in parts), default=0.0),
        max((relative for _, relative, _ in parts), default=0.0),
        all(is_within for _, _, is_within in parts),
    )


def _equal(is_equal: bool) -> tuple[float, float, bool]:
    return (0.0, 0.0, True) if is_equal else (math.inf, math.inf, False)


def _array_difference(
    found: NDArray[Any], expected: NDArray[Any], tolerance: Tolerance
) -> tuple[float, float, bool]:
    found, expected = found.reshape(-1), expected.reshape(-1)  # never a scalar
    theirs = expected.astype(np.float64)
    if expected.dtype.kind in "iu":
        # As integers, for float64 does not tell all of them apart; the wrap-around is undone.
        gap = np.maximum(found, expected) - np.minimum(found, expected)
        difference = gap.view(f"u{gap.dtype.itemsize}").astype(np.float64)
    else:
        mine = found.astype(np.float64)
        with np.errstate(invalid="ignore"):
            difference = np.abs(mine - theirs)
        difference[(mine == theirs) | (np.isnan(mine) & np.isnan(theirs))] = 0.0
        difference[np.isnan(difference)] = np.inf  # not a number on one side only
    size = np.where(np.isfinite(theirs), np.abs(theirs), 0.0)
    relative = difference[size > 0] / size[size > 0]
    is_within = bool((difference <= tolerance.atol + tolerance.rtol * size).all())
    return float(difference.max(initial=0.0)), float(relative.max(initial=0.0)), is_within
