"""METIS: balanced parts with little between them, and nothing printed.

That equal graphs get equal parts is in test_policy.py, with a graph that got several answers where
METIS ran in this process.
"""

import numpy as np
import pytest

from dplace.errors import MemoryLimitError
from dplace.lowering import Evaluator
from dplace.policies.memory import Units
from dplace.policies.metis import devices_of_parts, metis, weighted_graph
from dplace.policies.metis_call import MODES, Mode, partitions
from dplace.problem import Problem
from tests.policies.worlds import heavy_chain, two_towers
from tests.random_problems import make_cluster, make_graph, make_problem, random_problem


def placed(problem: Problem) -> list[int]:
    placement = metis(Evaluator(problem), rng=np.random.default_rng(0), evaluations=1)
    return [int(device) for device in placement]


def chain(num_ops: int, seconds: object, heavy: dict[int, int] | None = None) -> Problem:
    """Return a chain on two devices; ``heavy`` says which ops make large values."""
    names = ["x", *(f"v{op}" for op in range(num_ops))]
    graph = make_graph(
        [[name] for name in names[:-1]],
        [[name] for name in names[1:]],
        value_bytes={f"v{op}": (heavy or {}).get(op, 1) for op in range(num_ops)},
    )
    return make_problem(graph, make_cluster(2, bytes_per_s=1.0), np.array(seconds, dtype=float))


@pytest.mark.parametrize("mode", MODES)
def test_two_groups_are_parted_between_them(mode: Mode) -> None:
    inside = [(a, b) for base in (0, 4) for a in range(4) for b in range(a)]
    edges = np.array([(base + a, base + b) for base in (0, 4) for a, b in inside[:6]] + [(0, 4)])
    (part,) = partitions(edges, [np.ones((8, 1), dtype=np.int64)], 2, [mode])
    assert len(set(part[:4].tolist())) == len(set(part[4:].tolist())) == 1
    assert part[0] != part[4]


def test_two_towers_are_parted_between_them() -> None:
    devices = placed(two_towers(10))
    assert len(set(devices[0:20:2])) == len(set(devices[1:20:2])) == 1
    assert devices[0] != devices[1]


def test_the_cut_is_where_little_crosses() -> None:
    # The middle of 200 ops, but for the large values that most of those near it make.
    large = {op: 20 for op in range(90, 111) if op != 97}
    devices = placed(chain(200, [1.0] * 200, large))
    assert [op for op in range(199) if devices[op] != devices[op + 1]] == [97]


def test_parts_are_equal_in_work_not_in_ops() -> None:
    devices = placed(chain(9, [8.0, *[1.0] * 8]))
    assert set(devices[1:]) == {1 - devices[0]}


def test_a_fast_device_gets_more_work() -> None:
    devices = placed(chain(12, np.tile([3.0, 1.0], (12, 1))))
    assert 8 <= sum(devices) <= 10


def test_a_value_crosses_once_however_many_read_it() -> None:
    graph = make_graph([["x"], ["a"], ["a"]], [["a"], ["b"], ["c"]], colocation=[-1, 1, 1])
    evaluator = Evaluator(make_problem(graph, make_cluster(2), [1.0, 2.0, 3.0]))
    asked = weighted_graph(evaluator, Units(evaluator.problem))
    assert asked.edges.tolist() == [[0, 1]]
    assert (asked.weights[:, 0] / asked.weights[:, 0].sum()).tolist() == pytest.approx(
        [1 / 6, 5 / 6], rel=1e-5
    )


def test_pinned_ops_draw_their_part_to_their_device() -> None:
    problem = two_towers(10)
    problem.pins[:2] = [1, 0]
    devices = placed(problem)
    assert set(devices[0:20:2]) == {1}
    assert set(devices[1:20:2]) == {0}


def test_parts_go_where_they_are_fast() -> None:
    problem = chain(4, [[9.0, 1.0], [9.0, 1.0], [1.0, 9.0], [1.0, 9.0]])
    assert devices_of_parts(Units(problem), np.array([0, 0, 1, 1])).tolist() == [1, 0]
    problem.seconds[0, 1] = np.inf
    problem.seconds[0, 0] = 0.1
    assert devices_of_parts(Units(problem), np.array([0, 0, 1, 1])).tolist() == [0, 1]


def test_bytes_are_balanced_where_memory_is_tight() -> None:
    devices = placed(heavy_chain(12, 560))
    assert max(np.bincount(devices)) <= 5
    with pytest.raises(MemoryLimitError):
        placed(heavy_chain(12, 200))


def test_nothing_is_printed_and_output_is_whole(capfd: pytest.CaptureFixture[str]) -> None:
    print("before")
    placed(random_problem(np.random.default_rng(0), 80, 4))
    print("after")
    assert capfd.readouterr() == ("before\nafter\n", "")


def test_a_process_that_fails_says_why() -> None:
    with pytest.raises(RuntimeError, match="METIS ended with 1: .*Error"):
        partitions(np.array([[0, 5]]), [np.ones((2, 1), dtype=np.int64)], 2)


@pytest.mark.parametrize("seed", range(3))
def test_small_graphs_are_parted(seed: int, capfd: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, int(rng.integers(1, 8)), 2 + seed % 4, unlike=bool(seed % 2))
    assert len(placed(problem)) == problem.num_ops
    assert capfd.readouterr() == ("", "")
