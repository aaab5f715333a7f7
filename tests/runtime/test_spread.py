"""Idle time, spread and stragglers of iterations that were made up."""

import pytest

from dplace.runtime.measure import median_index
from dplace.runtime.spread import DeviceSpread, Iteration, Spread, Stragglers, iteration_of
from tests.runtime.fork import EVENTS, START_S, event

# The first takes 10 s, the second 20 s; the third device has no parts.
ITERATIONS = (
    Iteration(start_s=0.0, end_s=10.0, busy_s=(6.0, 4.0, 0.0), done_s=(7.0, 10.0, None)),
    Iteration(start_s=30.0, end_s=50.0, busy_s=(8.0, 10.0, 0.0), done_s=(20.0, 16.0, None)),
)


def test_a_spread_by_hand() -> None:
    spread = Spread.of([4.0, 1.0, 1.0, 2.0])
    assert (spread.min_s, spread.median_s, spread.max_s) == (1.0, 1.5, 4.0)
    assert spread.p90_s == pytest.approx(3.4)  # 2 + 0.7 * (4 - 2)
    assert spread.relative_deviation == pytest.approx(1.5**0.5 / 2)  # of 2, 1, 1, 0 from 2
    assert Spread.of([0.0, 0.0]).relative_deviation == 0.0


def test_idle_time_and_waiting_by_hand() -> None:
    first, second, third = (DeviceSpread.of(ITERATIONS, device) for device in range(3))
    assert (first.busy_s, first.idle_s, first.waits_s) == (7.0, 8.0, 1.5)
    assert first.idle_share == pytest.approx(16 / 30)
    assert first.done_s == Spread.of([7.0, 20.0])
    assert (second.busy_s, second.idle_s, second.waits_s) == (7.0, 8.0, 2.0)
    assert (third.busy_s, third.idle_s, third.idle_share) == (0.0, 15.0, 1.0)
    assert (third.done_s, third.waits_s) == (None, 0.0)


def test_the_straggler_effect_by_hand() -> None:
    # The first device waits 3 s of 10 in one, the second 4 s of 20 in the other.
    effect = Stragglers.of(ITERATIONS)
    assert (effect.mean, effect.max) == pytest.approx((0.25, 0.3))
    alone = Iteration(start_s=0.0, end_s=1.0, busy_s=(0.5, 0.0), done_s=(0.9, None))
    assert Stragglers.of([alone]) == Stragglers(mean=0.0, max=0.0)


def test_an_iteration_is_made_of_parts_and_copies_alone() -> None:
    events = (
        *EVENTS,
        event("copy", "z", "cpu:0", 12.0, 12.5, "host"),
        event("send", "h", "cpu:0", 11.4, 13.0, "cpu:1"),
        event("receive", "h", "cpu:1", 11.4, 11.6, "cpu:0"),
    )
    found = iteration_of(events, ["cpu:0", "cpu:1", "cpu:2"], START_S, 14.1)
    assert found.latency_s == pytest.approx(4.1)
    assert found.busy_s == pytest.approx((1.2 + 0.5 + 0.5, 2.4, 0.0))
    assert found.done_s[:2] == pytest.approx((2.5, 4.0))
    assert found.done_s[2] is None


def test_the_median_run_is_one_that_took_place() -> None:
    assert median_index([5.0, 1.0, 3.0]) == 2
    assert median_index([5.0, 1.0, 3.0, 2.0]) == 3
    assert median_index([1.0]) == 0
