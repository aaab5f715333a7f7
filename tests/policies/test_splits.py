"""splits: runs of an order, cut where little crosses and where memory ends."""

import dataclasses

import numpy as np
import pytest

from dplace.lowering import Evaluator
from dplace.placement import check_placement
from dplace.policies.splits import splits
from dplace.problem import Problem
from tests.policies.worlds import heavy_chain
from tests.random_problems import make_cluster, make_graph, make_problem, random_problem


def chain(slow: int, *, in_bytes: bool) -> Problem:
    """Return a stream through six ops of 4 s; op ``slow`` makes a value of 3 s, others of 1 s."""
    graph = make_graph(
        [[], *([f"v{op}"] for op in range(5))],
        [[f"v{op}"] for op in range(6)],
        value_bytes={f"v{op}": 3 if op == slow else 1 for op in range(6)},
    )
    problem = make_problem(graph, make_cluster(2, bytes_per_s=1.0), [4.0] * 6)
    problem = dataclasses.replace(problem, objective="throughput")
    if in_bytes:
        return problem
    times = graph.value_bytes.astype(np.float64)[:, None, None]
    return dataclasses.replace(problem, transfer_s=times)


def cuts(placement: np.ndarray[tuple[int], np.dtype[np.int32]]) -> list[int]:
    return [op for op in range(len(placement) - 1) if placement[op] != placement[op + 1]]


@pytest.mark.parametrize("in_bytes", [True, False])
def test_a_stream_is_cut_where_the_largest_load_is_least(in_bytes: bool) -> None:
    # 12 on each device and 3 between them; one op further on one device has 16.
    problem = chain(2, in_bytes=in_bytes)
    evaluator = Evaluator(problem)
    best = min(splits(evaluator), key=evaluator.score)
    assert cuts(best) == [2]


@pytest.mark.parametrize("in_bytes", [True, False])
def test_values_that_are_slow_to_move_are_not_cut_in_some(in_bytes: bool) -> None:
    found = [cuts(placement) for placement in splits(Evaluator(chain(2, in_bytes=in_bytes)))]
    assert [2] in found
    assert any(2 not in row for row in found)


@pytest.mark.parametrize("seed", range(5))
def test_splits_are_placements_that_differ(seed: int) -> None:
    problem = random_problem(np.random.default_rng(seed), 30, 4, unlike=bool(seed % 2))
    problem.graph.colocation[[3, 9, 20]] = 1
    problem.pins[7] = 2
    found = splits(Evaluator(problem))
    assert len({placement.tobytes() for placement in found}) == len(found) > 2
    for placement in found:
        check_placement(problem, placement)


def test_a_run_ends_where_memory_does() -> None:
    problem = dataclasses.replace(heavy_chain(6, [200, 900, 900]), machine="moirai")
    for placement in splits(Evaluator(problem)):
        assert np.count_nonzero(placement == 0) <= 2


def test_there_is_nothing_to_split_on_one_device_or_without_ops() -> None:
    assert splits(Evaluator(heavy_chain(3, 900, num_devices=1))) == []
    empty = make_problem(make_graph([], []), make_cluster(2), np.zeros((0, 2)))
    assert splits(Evaluator(empty)) == []
