"""Each situation runs in plain onnxruntime, or is mended so that it does; sources are named."""

import numpy as np
import onnx
import pytest

from tests.zoo import SITUATIONS
from tests.zoo.plain_session import assert_bit_equal, plain_session, run_plain


@pytest.mark.parametrize("name", SITUATIONS)
def test_situation_runs_in_plain_onnxruntime_and_repeats(name: str) -> None:
    situation = SITUATIONS[name]()
    calls = situation.feeds(np.random.default_rng(0))
    assert calls
    first = run_plain(situation.plain, calls)
    if situation.repeats:
        assert_bit_equal(run_plain(situation.plain, calls), first)
    run_plain(situation.plain, calls, opt_level="none")


@pytest.mark.parametrize("name", SITUATIONS)
def test_situation_is_checked_as_it_says(name: str) -> None:
    situation = SITUATIONS[name]()
    try:
        onnx.checker.check_model(situation.model, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError):
        assert not situation.is_checked
    else:
        assert situation.is_checked


@pytest.mark.parametrize("name", [name for name in SITUATIONS if SITUATIONS[name]().mended])
def test_plain_onnxruntime_refuses_what_was_mended(name: str) -> None:
    with pytest.raises(Exception, match="invalid model"):
        plain_session(SITUATIONS[name]().model)


def test_names_are_unique_and_every_situation_has_a_source() -> None:
    assert len(SITUATIONS) >= 90
    assert all(situation().source for situation in SITUATIONS.values())
    rules = {int(name.split("_")[1]) for name in SITUATIONS if name.startswith("RULE_")}
    assert rules == set(range(1, 14))
