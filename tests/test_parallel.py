"""Work in processes of its own: order, steps, and what happens when one goes."""

import pytest

from dplace.parallel import Lost, run_each
from tests.parallel_work import end_at_zero, half


def test_results_come_in_the_order_of_the_pieces() -> None:
    steps: list[str] = []
    assert run_each(half, [0, 4, 2], processes=2, step=steps.append) == [0.0, 2.0, 1.0]
    assert sorted(steps) == ["halving 0", "halving 2", "halving 4"]


def test_a_process_that_goes_costs_its_own_piece_only() -> None:
    results = run_each(end_at_zero, [2, 0, 4], processes=1, step=lambda _: None)
    assert (results[0], results[2]) == (0.5, 0.25)
    lost = results[1]
    assert isinstance(lost, Lost)
    assert (lost.piece, lost.exit_code) == (0, 7)
    assert lost.reason == "its process ended with code 7"
    assert Lost(0, -9).reason == "its process was ended by signal 9"


def test_a_bug_keeps_its_traceback() -> None:
    with pytest.raises(RuntimeError, match="(?s)in the process of -3:.*ValueError: -3 is negative"):
        run_each(half, [1, -3], processes=2, step=lambda _: None)
