"""Transfers in the plans of list schedulers: one after another on a channel, once per device."""

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from dplace.cluster import Contention
from dplace.lowering import Evaluator
from dplace.policies.busy import GAPS, Busy, first_gap_of_both
from dplace.policies.heft import heft_of_groups
from dplace.policies.list_schedule import ListSchedule
from dplace.policies.m_etf import etf_of_groups
from dplace.policies.transfer_times import mean_transfer_s
from dplace.problem import Problem
from tests.lines_run import lines_run
from tests.random_problems import make_cluster, make_graph, make_problem, random_problem

Schedule = Callable[[Evaluator, None], NDArray[np.int32]]

BOTH = pytest.mark.parametrize("schedule", [heft_of_groups, etf_of_groups])


def three_makers(contention: Contention) -> Problem:
    """Return ops 0, 1, 2 that make a, b, c; op 3 reads a and b, op 4 reads c."""
    graph = make_graph(
        [["x"], ["x"], ["x"], ["a", "b"], ["c"]], [["a"], ["b"], ["c"], ["d"], ["e"]]
    )
    cluster = make_cluster(3, latency_s=10.0, contention=contention)
    return make_problem(graph, cluster, [1.0, 2.0, 3.0, 1.0, 1.0])


def planned(problem: Problem, devices: list[int]) -> ListSchedule:
    """Return the schedule with one op after another on the given devices."""
    schedule = ListSchedule(Evaluator(problem), None, 0.0)
    for op, device in enumerate(devices):
        schedule.commit(op, device, schedule.ready_s(op, device))
    return schedule


@pytest.mark.parametrize(
    ("contention", "devices", "ends"),
    [
        # a from 1 to 11 and b from 2 to 12 at once, or b after a; c from 3 to 13 or after them.
        ("none", [0, 1, 0, 2, 2], (12 + 1, 13 + 1)),
        ("link", [0, 1, 0, 2, 2], (12 + 1, 21 + 1)),
        ("link", [0, 0, 1, 2, 2], (21 + 1, 13 + 1)),
        ("egress", [0, 1, 0, 2, 1], (12 + 1, 21 + 1)),
        ("egress-ingress", [0, 1, 0, 2, 1], (21 + 1, 21 + 1)),
        ("egress-ingress", [0, 1, 0, 2, 2], (21 + 1, 31 + 1)),
        # Device 1 sends b while device 0 has ended a: c waits for the port of both.
        ("port", [0, 1, 0, 2, 1], (21 + 1, 31 + 1)),
    ],
)
def test_transfers_wait_for_their_channels(
    contention: Contention, devices: list[int], ends: tuple[float, float]
) -> None:
    schedule = planned(three_makers(contention), devices)
    assert tuple(schedule.end_s[3:]) == ends


def test_a_value_is_sent_to_a_device_once() -> None:
    graph = make_graph([["x"], ["a"], ["a"], ["a"]], [["a"], ["b"], ["c"], ["d"]])
    problem = make_problem(graph, make_cluster(3, latency_s=10.0, contention="egress"), [1.0] * 4)
    schedule = planned(problem, [0, 1, 1, 2])
    assert schedule.end_s == [1, 1 + 10 + 1, 1 + 10 + 1, 1 + 2 * 10 + 1]


def test_a_transfer_takes_a_gap_that_was_left() -> None:
    graph = make_graph([["x"], ["x"], ["b"], ["a"]], [["a"], ["b"], ["d"], ["c"]])
    problem = make_problem(graph, make_cluster(2, latency_s=10.0), [1.0, 50.0, 1.0, 1.0])
    schedule = planned(problem, [0, 0, 1, 1])
    assert schedule.end_s[2:] == [50 + 10 + 1, 1 + 10 + 1]


def test_given_times_hold_for_each_pair_of_devices() -> None:
    graph = make_graph([["x"], ["a"]], [["a"], ["b"]])
    given = np.zeros((graph.num_values, 3, 3))
    given[graph.value_names.index("a")] = [[0, 5, 7], [2, 0, 4], [3, 9, 0]]
    problem = dataclasses.replace(
        make_problem(graph, make_cluster(3), [1.0, 1.0]), transfer_s=given
    )
    mean_s = mean_transfer_s(Evaluator(problem))
    assert mean_s[graph.value_names.index("a")] == (5 + 7 + 2 + 4 + 3 + 9) / 6
    for devices, end in (([0, 2], 1 + 7 + 1), ([2, 1], 1 + 9 + 1), ([1, 1], 1 + 1)):
        assert planned(problem, devices).end_s[1] == end


@BOTH
def test_one_value_crosses_where_a_channel_lets_only_one_in_time(schedule: Schedule) -> None:
    # Five ops of 3 read a value of op 0 each; on the other device they can start at 1 + 2, 4, 6.
    graph = make_graph(
        [["x"], *[[f"a{op}"] for op in range(5)]],
        [[f"a{op}" for op in range(5)], *[[f"b{op}"] for op in range(5)]],
    )
    cluster = make_cluster(2, latency_s=2.0, contention="link")
    problem = make_problem(graph, cluster, [1.0, *[3.0] * 5], pins=[0, -1, -1, -1, -1, -1])
    placement = schedule(Evaluator(problem), None)
    assert sorted(placement[1:].tolist()) == [0, 0, 0, 1, 1]


def test_gaps_that_are_long_past_count_as_taken() -> None:
    busy = Busy()
    for at in range(2 * GAPS):
        busy.take(2.0 * at, 2.0 * at + 1.0)
    assert busy.first_gap(0.0, 1.0) == 2.0 * GAPS - 1.0
    assert busy.first_gap(3.0 * GAPS, 1.0) == 3.0 * GAPS + 1.0


def test_intervals_that_touch_become_one() -> None:
    busy, never = Busy(), Busy()
    busy.take(2.0, 3.0)
    busy.take(0.0, 1.0)
    busy.take(1.0, 2.0)
    busy.take(1.5, 1.5)
    assert busy.first_gap(0.0, 0.5) == 3.0
    never.take(3.5, 9.0)
    assert first_gap_of_both(busy, never, 0.0, 0.5) == 3.0
    assert first_gap_of_both(busy, never, 0.0, 1.0) == 9.0


@BOTH
def test_work_grows_with_the_ops_not_with_their_square(schedule: Schedule) -> None:
    def lines(num_ops: int) -> int:
        rng = np.random.default_rng(0)
        problem = random_problem(rng, num_ops, 4, contention="egress-ingress", window=60)
        evaluator = Evaluator(problem)
        return lines_run(lambda: schedule(evaluator, None))

    lines(20)  # what the first call imports and compiles is no part of it
    assert lines(2000) < 15 * lines(200)
