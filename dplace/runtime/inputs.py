"""Inputs: drawn where the user gives none, checked where he does."""

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from dplace.errors import InputError
from dplace.plan.records import ValueType
from dplace.runtime.values import Held, Value, dtype_of, hold, type_of_array

__all__ = ["InputCheck", "draw_inputs", "unknown_name"]

DEFAULT_LIMIT = 2
"""Integers are drawn below it: 0 and 1 are in range of nearly everything that is indexed."""

SEQUENCE_LENGTH = 2

SHOWN_PROBLEMS = 3
SHOWN_NAMES = 10

WORDS = ("place", "the", "ops", "of", "a", "model")


def draw_inputs(
    inputs: Sequence[ValueType],
    *,
    rng: np.random.Generator,
    dims: Mapping[str, int],
    index_limits: Mapping[str, int] | None = None,
) -> dict[str, Value]:
    """Return a random value for each input.

    Floating-point numbers are standard normal, integers uniform from 0, booleans and strings
    uniform.

    Args:
        dims: Sizes of dynamic dimensions; others are 1.
        index_limits: What the integers of an input stay below; 2 for others.

    Raises:
        InputError: An input is of a type that nothing is drawn for, as a map.
    """
    limits = index_limits or {}
    return {
        value.name: _draw(value, value.type, rng, dims, limits.get(value.name, DEFAULT_LIMIT))
        for value in inputs
    }


def _draw(
    value: ValueType, type_name: str, rng: np.random.Generator, dims: Mapping[str, int], limit: int
) -> Value:
    for kind in ("seq(", "optional("):
        if type_name.startswith(kind):
            inner = type_name[len(kind) : -1]
            if kind == "optional(":
                return _draw(value, inner, rng, dims, limit)
            return [_draw(value, inner, rng, dims, limit) for _ in range(SEQUENCE_LENGTH)]
    dtype = dtype_of(type_name)
    if dtype is None:
        raise InputError(
            f'input "{value.name}": nothing is drawn for the type {type_name}; give a value'
        )
    shape = tuple(
        dims.get(size, 1) if isinstance(size, str) else 1 if size is None else max(size, 0)
        for size in value.shape or ()
    )
    return _draw_tensor(type_name[len("tensor(") : -1], dtype, shape, rng, limit)


def _draw_tensor(
    name: str, dtype: np.dtype[Any], shape: tuple[int, ...], rng: np.random.Generator, limit: int
) -> NDArray[Any]:
    """Return a tensor whose elements onnxruntime calls ``name``."""
    if name == "string":
        return np.asarray(rng.choice(WORDS, size=shape), dtype=np.object_)
    if name == "bool":
        return np.asarray(rng.integers(0, 2, size=shape), dtype=np.bool_)
    if "int" in name:
        bits = int(name.lstrip("uint"))
        highest = 2 ** (bits - (not name.startswith("u")))
        return np.asarray(rng.integers(0, min(limit, highest), size=shape)).astype(dtype)
    numbers = np.asarray(rng.standard_normal(shape, dtype=np.float32))
    if name.startswith("complex"):
        numbers = numbers + 1j * rng.standard_normal(shape, dtype=np.float32)
    if name == "float8e8m0":  # powers of two, without a sign
        numbers = np.abs(numbers)
    return numbers.astype(dtype)


class InputCheck:
    """The inputs of a model, prepared so that right values pass quickly."""

    def __init__(self, inputs: Sequence[ValueType], overridable: Sequence[ValueType]) -> None:
        self._inputs = {value.name: value for value in inputs}
        self._known = self._inputs | {value.name: value for value in overridable}
        self._fast = {
            name: (dtype_of(value.type), tuple(value.shape or ()))
            for name, value in self._known.items()
        }
        self._required = {
            name for name, value in self._inputs.items() if not value.type.startswith("optional")
        }

    def hold(self, given: Mapping[str, Value]) -> dict[str, tuple[Held, object]]:
        """Return the given values held, each with what has to stay alive meanwhile.

        Raises:
            InputError: Names are unknown or missing, or values are of another type or shape.
        """
        problems: list[str] = []
        held: dict[str, tuple[Held, object]] = {}
        for name, value in given.items():
            dtype, shape = self._fast.get(name, (None, ()))
            if type(value) is np.ndarray and value.dtype is dtype and fits(value.shape, shape):
                held[name] = hold(value)
                continue
            try:
                held[name] = hold(self._checked(name, value))
            except InputError as error:
                problems.append(str(error))
        if not self._required <= held.keys():
            problems.extend(
                f'input "{name}" is not given; it is {_described(value.type, value.shape)}'
                for name, value in self._inputs.items()
                if name in self._required and name not in given
            )
        if problems:
            more = len(problems) - SHOWN_PROBLEMS
            tail = [f"and {more} more"] if more > 0 else []
            raise InputError("; ".join(problems[:SHOWN_PROBLEMS] + tail))
        return held

    def _checked(self, name: str, value: Value) -> Value:
        """Return a value, as an array if it has to be a tensor and is not yet one."""
        expected = self._known.get(name)
        if expected is None:
            raise InputError(unknown_name("input", name, tuple(self._known)))
        if isinstance(value, onnxruntime.OrtValue):
            return _checked_ort_value(value, expected)
        if not expected.type.startswith("tensor"):
            return value  # onnxruntime says best what a sequence, map or optional lacks
        dtype = dtype_of(expected.type)
        if not isinstance(value, np.ndarray):
            try:
                value = np.asarray(value, dtype=dtype)
            except (TypeError, ValueError) as error:
                raise _mismatch(expected, type(value).__name__) from error
        elif value.dtype != dtype and dtype is not None and type_of_array(value) != expected.type:
            if value.dtype.kind != "V" or value.dtype.itemsize != dtype.itemsize:
                raise _mismatch(expected, _described(type_of_array(value), value.shape))
            value = value.view(dtype)  # NumPy's files keep ml_dtypes as plain bytes
        if not fits(value.shape, expected.shape):
            raise _mismatch(expected, _described(type_of_array(value), value.shape))
        return value


def _checked_ort_value(value: onnxruntime.OrtValue, expected: ValueType) -> onnxruntime.OrtValue:
    if not value.has_value():
        return value
    type_name = value.data_type()
    is_right = type_name == expected.type or expected.type == f"optional({type_name})"
    shape = tuple(value.shape()) if value.is_tensor() else None
    if not is_right or (shape is not None and not fits(shape, expected.shape)):
        raise _mismatch(expected, _described(type_name, shape))
    return value


def fits(shape: Sequence[int], expected: Sequence[int | str | None] | None) -> bool:
    """Return whether a shape agrees in rank and in all fixed dimensions."""
    if not expected:  # a scalar is not told from an unknown rank, nor does onnxruntime check it
        return True
    if len(shape) != len(expected):
        return False
    for size, fixed in zip(shape, expected, strict=True):
        if size != fixed and type(fixed) is int and fixed >= 0:
            return False
    return True


def _mismatch(expected: ValueType, found: str) -> InputError:
    wanted = _described(expected.type, expected.shape)
    return InputError(f'input "{expected.name}": expected {wanted}, got {found}')


def _described(type_name: str, shape: Sequence[int | str | None] | None) -> str:
    if not shape:
        return type_name
    return f"{type_name} [{', '.join('?' if size is None else str(size) for size in shape)}]"


def unknown_name(kind: str, name: str, known: Sequence[str]) -> str:
    """Return the line that says which names there are, and which one may be meant."""
    near = difflib.get_close_matches(name, known, n=1)
    hint = f'; did you mean "{near[0]}"?' if near else ""
    listed = ", ".join(f'"{other}"' for other in known[:SHOWN_NAMES]) or "none"
    if len(known) > SHOWN_NAMES:
        listed += f" and {len(known) - SHOWN_NAMES} more"
    return f'{kind} "{name}": the model has no such {kind}; it has {listed}{hint}'
