import math

import ml_dtypes
import numpy as np
import pytest

from dplace.runtime.check import Tolerance, compare, default_tolerance
from dplace.runtime.values import Value

NAN, INF = math.nan, math.inf


def f32(*numbers: float) -> Value:
    return np.array(numbers, dtype=np.float32)


@pytest.mark.parametrize(
    ("found", "expected", "absolute", "relative"),
    [
        (f32(1, 2), f32(1, 2), 0, 0),
        (f32(1, 2.5), f32(1, 2), 0.5, 0.25),
        (f32(0.5), f32(0), 0.5, 0),
        (f32(NAN, INF, -INF), f32(NAN, INF, -INF), 0, 0),
        (f32(NAN), f32(1), INF, INF),
        (f32(1), f32(NAN), INF, 0),
        (f32(INF), f32(1), INF, INF),
        (f32(INF), f32(-INF), INF, 0),
        (f32(), f32(), 0, 0),
        (f32(1), f32(1, 1), INF, INF),
        (f32(1), np.array([1.0]), INF, INF),
        (np.array([True]), np.array([False]), 1, 0),
        (np.array([2**62 + 1]), np.array([2**62]), 1, 2**-62),
        (np.array([2**63 - 1]), np.array([-(2**63)]), 2**64, 2),
        (np.array([3], np.uint8), np.array([5], np.uint8), 2, 0.4),
        (np.array(["a"]), np.array(["a"]), 0, 0),
        (np.array(["a"], object), np.array(["b"], object), INF, INF),
        (np.array([1.5], ml_dtypes.bfloat16), np.array([1], ml_dtypes.bfloat16), 0.5, 0.5),
        (np.array([-1], ml_dtypes.int4), np.array([2], ml_dtypes.int4), 3, 1.5),
        ([f32(1), f32(2)], [f32(1), f32(4)], 2, 0.5),
        ([f32(1)], [f32(1), f32(4)], INF, INF),
        ([], [], 0, 0),
        ({"a": 1.0}, {"a": 3.0}, 2, 2 / 3),
        ({"a": 1.0}, {"b": 1.0}, INF, INF),
        (None, None, 0, 0),
        (None, f32(1), INF, INF),
    ],
)
def test_differences(found: Value, expected: Value, absolute: float, relative: float) -> None:
    output = compare("y", found, expected, Tolerance())
    assert output.max_abs_diff == absolute
    assert output.max_rel_diff == pytest.approx(relative)
    assert output.is_within == (absolute == 0)


def test_what_is_allowed_grows_with_the_number() -> None:
    found, expected = f32(100.5, 0.01), f32(100, 0)
    assert compare("y", found, expected, Tolerance(atol=0.01, rtol=0.01)).is_within
    assert not compare("y", found, expected, Tolerance(atol=0.005, rtol=0.01)).is_within
    assert not compare("y", found, expected, Tolerance(atol=0.01, rtol=0.001)).is_within
    assert not compare("y", f32(NAN), f32(1), Tolerance(atol=9, rtol=9)).is_within


def test_nothing_is_allowed_where_the_plan_is_exact() -> None:
    assert default_tolerance(f32(1000), exact=True) == Tolerance()


@pytest.mark.parametrize(
    ("expected", "atol"),
    [
        (f32(1, -200, INF, NAN), 0.02),
        (np.array([200.0]), 2e-8),
        (np.array([200], np.float16), 2),
        (np.array([200], ml_dtypes.bfloat16), 10),
        (np.array([4], ml_dtypes.float8_e4m3fn), 1),
        (np.array([200], np.uint8), 1),
        (np.array([200]), 0),
        (np.array(["a"]), 0),
        ([f32(1), f32(2)], 2e-4),
        (f32(), 0),
        (None, 0),
    ],
)
def test_else_it_depends_on_type_and_size(expected: Value, atol: float) -> None:
    assert default_tolerance(expected, exact=False).atol == pytest.approx(atol)
