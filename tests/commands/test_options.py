"""How the values of the shared options read."""

import sys
from io import StringIO

import pytest

from dplace.commands.options import check_model, parse_dims, parse_pins
from dplace.errors import DplaceError, InputError, UsageError


def test_a_dim_splits_at_its_last_equals_sign() -> None:
    texts = ["batch=8", "a=b=2", "time.1:x/y=0+z=16"]
    assert parse_dims(texts) == {"batch": 8, "a=b": 2, "time.1:x/y=0+z": 16}


def test_no_dims_are_none() -> None:
    assert parse_dims(None) == {}
    assert parse_pins(None) == ()


def test_the_same_dim_twice_is_fine_with_one_size_only() -> None:
    assert parse_dims(["n=2", "n=2"]) == {"n": 2}
    with pytest.raises(UsageError, match="--dim n=3: n was given the size 2 before"):
        parse_dims(["n=2", "n=3"])


@pytest.mark.parametrize("text", ["n", "=3", "", "n=", "n=x", "n=2.5", "n=1_0", "n=٣", "n= 3"])
def test_a_dim_of_another_form_is_wrong_usage(text: str) -> None:
    with pytest.raises(UsageError, match="expected NAME=N"):
        parse_dims([text])


@pytest.mark.parametrize("size", ["0", "-1", "2147483648", "9" * 30])
def test_a_size_that_no_tensor_has_is_wrong_input(size: str) -> None:
    with pytest.raises(InputError, match=f"expected a size from 1 to 2147483647, got {size}"):
        parse_dims([f"n={size}"])


def test_pins_keep_their_order_and_split_at_the_last_equals_sign() -> None:
    assert parse_pins(["b*=cpu:1", "a=x=gpu:0"]) == (("b*", "cpu:1"), ("a=x", "gpu:0"))


@pytest.mark.parametrize("text", ["conv", "conv=", "=cpu:0", "", "="])
def test_a_pin_of_another_form_is_wrong_usage(text: str) -> None:
    with pytest.raises(UsageError, match="expected PATTERN=DEVICE"):
        parse_pins([text])


def test_a_pattern_cannot_go_to_two_devices() -> None:
    with pytest.raises(UsageError, match="a was pinned to cpu:0 before"):
        parse_pins(["a=cpu:0", "a=cpu:1"])


class Terminal(StringIO):
    """Standard input that someone types into."""

    def isatty(self) -> bool:
        return True


def test_a_model_is_not_read_from_the_keyboard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal())
    assert check_model("m.onnx") == "m.onnx"
    with pytest.raises(DplaceError, match="pipe a model in"):
        check_model("-")
    monkeypatch.setattr(sys, "stdin", StringIO())
    assert check_model("-") == "-"
