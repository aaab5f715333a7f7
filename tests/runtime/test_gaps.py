"""A request that was made up, beside its prediction."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dplace.plan.planned_times import planned_times
from dplace.plan.records import Plan
from dplace.runtime.events import RunEvent
from dplace.runtime.gaps import Both, Gaps, gaps
from tests.runtime.fork import EVENTS, START_S, event, fork


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    return fork(Path(tmp_path_factory.mktemp("fork")))


def found(plan: Plan, events: Sequence[RunEvent], end_s: float = 14.1) -> Gaps:
    return gaps(plan, planned_times(plan), events, START_S, end_s)


def test_predicted_times_by_hand(plan: Plan) -> None:
    times = planned_times(plan)
    assert times.parts == {
        "a": pytest.approx((0.0, 1.1)),
        "c": pytest.approx((1.1, 1.7)),
        "b": pytest.approx((1.35, 3.45)),
    }
    assert times.makespan_s == pytest.approx(3.45)
    (transfer,) = times.transfers
    assert transfer[:3] == ("h", "cpu:0", "cpu:1")
    assert transfer[3:] == pytest.approx((1.1, 1.35))


def test_where_the_time_went_by_hand(plan: Plan) -> None:
    first, second = found(plan, EVENTS).devices
    assert (first.name, second.name) == ("cpu:0", "cpu:1")
    assert first.compute == pytest.approx((1.5, 1.7))
    assert first.calls == pytest.approx((0.2, 0.1))  # c could start at 11.4 and did at 11.5
    assert first.request == pytest.approx((0.0, 0.2 + 0.1))
    assert first.waiting == pytest.approx((3.45 - 1.7, 4.1 - 0.3 - 1.7 - 0.1))
    assert second.compute == pytest.approx((2.0, 2.4))
    assert second.calls == pytest.approx((0.1, 0.2))
    assert second.waiting == pytest.approx((3.45 - 2.1, 4.1 - 0.3 - 2.4 - 0.2))


def test_the_furthest_parts_by_hand(plan: Plan) -> None:
    far = found(plan, EVENTS).furthest(2)
    assert [(part.name, part.device) for part in far] == [("b", "cpu:1"), ("a", "cpu:0")]
    assert far[0].total == pytest.approx((2.1, 2.6))
    assert far[0].call == pytest.approx((0.1, 0.2))
    assert far[0].total.ratio == pytest.approx(2.6 / 2.1)
    assert Both(0.0, 1.0).ratio == float("inf")


def test_a_value_is_there_when_it_was_received(plan: Plan) -> None:
    events = (
        *EVENTS,
        event("send", "h", "cpu:0", 11.4, 11.5, "cpu:1"),
        event("receive", "h", "cpu:1", 11.4, 11.55, "cpu:0"),
    )
    first, second = found(plan, events).devices
    assert first.calls.measured_s == pytest.approx(0.1)
    assert second.calls.measured_s == pytest.approx(0.05)
    assert second.waiting.measured_s == pytest.approx(4.1 - 0.3 - 2.4 - 0.05)


def test_a_copy_counts_as_a_call_and_its_value_is_there_when_it_ends(plan: Plan) -> None:
    events = (*EVENTS, event("copy", "h", "cpu:0", 11.42, 11.48, "host"))
    first, second = found(plan, events).devices
    # a to the copy 0.02 s, the copy 0.06 s, the copy to c 0.02 s.
    assert first.calls.measured_s == pytest.approx(0.1)
    assert first.compute.measured_s == pytest.approx(1.7)
    assert second.calls.measured_s == pytest.approx(0.12)


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(waits_s=st.lists(st.floats(0.0, 5.0), min_size=8, max_size=8))
def test_the_causes_make_the_time_of_the_request(plan: Plan, waits_s: list[float]) -> None:
    a, c, b, end, *lengths = waits_s
    a_end = START_S + a + lengths[0]
    b_end = a_end + b + lengths[1]
    c_end = a_end + c + lengths[2]
    events = (
        event("run", "a", "cpu:0", START_S + a, a_end),
        event("run", "c", "cpu:0", a_end + c, c_end),
        event("run", "b", "cpu:1", a_end + b, b_end),
    )
    end_s = max(b_end, c_end) + end
    for device in found(plan, events, end_s).devices:
        causes = Both.sum((device.compute, device.calls, device.request, device.waiting))
        assert causes == pytest.approx((3.45, end_s - START_S))
        assert device.calls.measured_s == pytest.approx(c if device.name == "cpu:0" else b)
