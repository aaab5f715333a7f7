"""JSON that every program can read."""

import json

import numpy as np
import pytest

from dplace.report.json_text import json_text


def test_what_is_not_finite_becomes_null() -> None:
    text = json_text({"a": [float("inf"), float("nan"), -float("inf")], "b": np.float32("nan")})
    assert text == '{"a": [null, null, null], "b": null}'


def test_numpy_numbers_are_numbers() -> None:
    numbers = {"i": np.int64(3), "f": np.float64(0.5), "g": np.float32(0.5), "b": np.bool_(True)}
    assert json_text(numbers) == '{"i": 3, "f": 0.5, "g": 0.5, "b": true}'


def test_any_name_comes_back_and_no_byte_is_above_127() -> None:
    names = {"name": "größe\x1b[31m\n\u2028\U0001f600", "tuple": ("a", None, True)}
    text = json_text(names)
    assert text.isascii()
    assert len(text.splitlines()) == 1
    assert json.loads(text) == {**names, "tuple": ["a", None, True]}


def test_what_has_no_form_in_json_is_refused() -> None:
    with pytest.raises(TypeError, match="set has no form in JSON"):
        json_text({"a": {1, 2}})
