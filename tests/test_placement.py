"""A placement is checked word by word, and repaired where that can be done."""

import dataclasses

import numpy as np
import pytest

from dplace.errors import InputError, MemoryLimitError
from dplace.placement import (
    allowed_devices,
    check_placement,
    memory_overflow,
    movable_units,
    repair,
)
from dplace.problem import Problem
from tests.random_problems import make_cluster, make_graph, make_problem


def world(
    *,
    pins: list[int] | None = None,
    colocation: list[int] | None = None,
    cannot: tuple[tuple[int, int], ...] = (),
    memory_bytes: int = 1000,
) -> Problem:
    """Return a chain of four ops on three devices; each op has its own weight of 100 bytes."""
    graph = make_graph(
        [["x"], ["a"], ["b"], ["c"]],
        [["a"], ["b"], ["c"], ["d"]],
        weights=[["wa"], ["wb"], ["wc"], ["wd"]],
        weight_bytes={"wa": 100, "wb": 100, "wc": 100, "wd": 100},
        colocation=colocation,
    )
    seconds = np.ones((4, 3))
    seconds[:, 2] = 0.5
    for op, device in cannot:
        seconds[op, device] = np.inf
    return make_problem(graph, make_cluster(3, memory_bytes=memory_bytes), seconds, pins=pins)


def test_a_right_placement_comes_back_as_it_is() -> None:
    placement = check_placement(world(pins=[-1, 1, -1, -1]), np.array([0, 1, 2, 0]))
    assert placement.dtype == np.int32
    assert placement.tolist() == [0, 1, 2, 0]


@pytest.mark.parametrize(
    ("problem", "devices", "message"),
    [
        (world(), [0, 1], r"expected one device for each of 4 ops, got shape \(2,\)"),
        (world(), [0, 1, 3, -1], r"op 'c' is on device 3, .* 0 to 2 \(and 1 more\)"),
        (world(cannot=((1, 2),)), [0, 2, 0, 0], "test:2 cannot run Test 'b'"),
        (world(pins=[-1, 1, -1, -1]), [0, 0, 0, 0], "op 'b' is pinned to test:1, not test:0"),
        (world(colocation=[7, -1, 7, -1]), [0, 0, 1, 0], "'a' and 'c' must share a device"),
    ],
)
def test_a_wrong_placement_is_refused(problem: Problem, devices: list[int], message: str) -> None:
    with pytest.raises(InputError, match=message):
        check_placement(problem, np.array(devices))


def test_device_numbers_must_be_whole() -> None:
    with pytest.raises(InputError, match="float64"):
        check_placement(world(), np.zeros(4))  # type: ignore[arg-type]


def test_what_does_not_fit_is_refused_with_the_bytes_that_are_missing() -> None:
    problem = world(memory_bytes=250)
    with pytest.raises(MemoryLimitError, match="test:0 has 250 bytes, 50 bytes too little"):
        check_placement(problem, np.array([0, 0, 0, 1]))
    assert memory_overflow(problem, np.array([0, 0, 0, 1], dtype=np.int32)).tolist() == [50, 0, 0]
    assert check_placement(problem, np.array([0, 0, 1, 1])).tolist() == [0, 0, 1, 1]


def test_units_are_numbered_by_their_first_op() -> None:
    assert movable_units(world(colocation=[-1, 5, 2, 5])).tolist() == [0, 1, 2, 1]
    assert movable_units(world()).tolist() == [0, 1, 2, 3]


def test_a_pin_holds_for_all_that_must_share_the_device() -> None:
    problem = world(pins=[-1, -1, 1, -1], colocation=[3, -1, 3, -1], cannot=((3, 0),))
    assert allowed_devices(problem).tolist() == [
        [False, True, False],
        [True, True, True],
        [False, True, False],
        [False, True, True],
    ]


@pytest.mark.parametrize(
    ("problem", "message"),
    [
        (
            world(pins=[0, -1, 1, -1], colocation=[3, -1, 3, -1]),
            "'a' and 'c' must share a device but are pinned to test:0 and test:1",
        ),
        (
            world(pins=[0, -1, -1, -1], cannot=((0, 0),)),
            "'a' is pinned to test:0, which cannot run Test 'a'",
        ),
        (world(cannot=((1, 0), (1, 1), (1, 2))), "'b' .Test.: no device of 3xTEST .TEST. can run"),
        (world(pins=[5, -1, -1, -1]), "'a' is pinned to device 5, but 3xTEST has 3"),
    ],
)
def test_an_op_that_can_go_nowhere_is_named(problem: Problem, message: str) -> None:
    with pytest.raises(InputError, match=message):
        allowed_devices(problem)


def test_repair_moves_only_what_is_wrong() -> None:
    problem = world(pins=[-1, 1, -1, -1], colocation=[-1, -1, 4, 4], cannot=((0, 1),))
    # Op 0 cannot run where it is, so it goes where it is fastest; op 1 to its pin; op 3 to op 2.
    assert repair(problem, np.array([1, 0, 0, 1])).tolist() == [2, 1, 0, 0]
    assert repair(problem, np.array([9, -4, 0, 0])).tolist() == [2, 1, 0, 0]


def test_the_input_of_repair_is_left_as_it_was() -> None:
    problem = world(pins=[-1, 1, -1, -1])
    given = np.array([0, 0, 0, 0], dtype=np.int32)
    repair(problem, given)
    assert given.tolist() == [0, 0, 0, 0]


def test_a_graph_without_ops_has_one_placement() -> None:
    graph = dataclasses.replace(make_graph([], []))
    problem = make_problem(graph, make_cluster(2), np.zeros((0, 2)))
    assert check_placement(problem, np.zeros(0, dtype=np.int32)).size == 0
    assert repair(problem, np.zeros(0, dtype=np.int32)).size == 0
