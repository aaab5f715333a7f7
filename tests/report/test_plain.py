"""Names and numbers as people read them."""

import pytest

from dplace.report.plain import plain, size_text, time_text, work_text


def test_a_name_cannot_move_the_cursor_or_break_the_line() -> None:
    assert plain("a\x1b[2Jb\r\nc\u202ed\udc80") == "a\\x1b[2Jb  c\\u202ed\\udc80"


def test_letters_of_any_script_stay() -> None:
    assert plain("größe 層") == "größe 層"


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (1, "1 B"),
        (1000, "1.0 kB"),
        (999_949, "999.9 kB"),
        (999_950, "1.0 MB"),
        (10**18, "1000.0 PB"),
    ],
)
def test_sizes_change_unit_where_they_should(size: int, text: str) -> None:
    assert size_text(size) == text


@pytest.mark.parametrize("show", [size_text, time_text, work_text])
@pytest.mark.parametrize("value", [float("inf"), float("nan")])
def test_what_is_not_finite_is_a_dash(show: object, value: float) -> None:
    assert callable(show)
    assert show(value) == "-"
