"""Orders of transfers on worlds small enough to work by hand."""

from dataclasses import replace

import numpy as np
import pytest

from dplace.errors import UsageError
from dplace.problem import Problem
from dplace.schedule import (
    ORDERS,
    op_order,
    placed_rank,
    priority_order,
    transfer_priorities,
    transfers_of,
)
from dplace.simulator.tables import tabulate
from tests.random_problems import make_cluster, make_graph, make_problem, random_problem
from tests.schedule.plain_orders import Int, Worker


def names_in_order(problem: Problem, placement: Int, name: str) -> list[str]:
    """Return what crosses in an order, each as the value's name and the target."""
    transfers = transfers_of(problem, placement)
    priorities = transfer_priorities(
        name,
        problem,
        tabulate(problem),
        placement,
        transfers,
        rng=np.random.default_rng(0),
    )
    names = problem.graph.value_names
    return [
        f"{names[transfers.value[t]]}>{transfers.target[t]}"
        for t in np.argsort(priorities, kind="stable")
    ]


# Op 0 needs both transfers, op 1 the second alone (TicTac's example): with b first, op 1 runs
# while a is on its way.
BOTH_AND_ONE = Worker(["a b", "b"], [1, 1])


@pytest.mark.parametrize("name", ["tic", "tac"])
def test_what_unlocks_an_op_by_itself_goes_first(name: str) -> None:
    assert BOTH_AND_ONE.order(name) == "b a"
    assert BOTH_AND_ONE.ticks(BOTH_AND_ONE.priorities(name)) == 1 + 1 + 1  # op 1 hides behind a
    assert BOTH_AND_ONE.ticks(np.array([0, 1], dtype=np.int32)) == 2 + 1 + 1


def test_fifo_gives_all_the_same_priority() -> None:
    assert BOTH_AND_ONE.priorities("fifo").tolist() == [0, 0]


def test_random_is_what_the_generator_draws() -> None:
    worker = Worker(["a b c d e f"], [1])
    drawn = np.random.default_rng(0).permutation(6)
    assert worker.priorities("random").tolist() == drawn.tolist()


def test_tic_counts_transfers_and_tac_adds_their_times() -> None:
    # M+ in transfers: 3 of a, b, c and 2 of d, e. In time: 1 + 1 + 1 and 4 + 4.
    worker = Worker(["a b c", "d e", "0 1"], [1, 1, 1], {"d": 4, "e": 4})
    assert worker.order("tic") == "d e a b c"
    assert worker.order("tac") == "a b c d e"


def test_tac_is_johnsons_rule_where_ops_need_a_transfer_each() -> None:
    # Where M <= P rising M: b, c. Then falling P: a, d.
    worker = Worker(["a", "b", "c", "d"], [2, 5, 4, 1], {"a": 3, "b": 1, "c": 4, "d": 7})
    assert worker.order("tac") == "b c a d"


def test_tac_goes_by_what_is_still_outstanding() -> None:
    # M+ at first: a, b 4; c, d 6; e, f 5. Once a and b are chosen that of c and d is 4.
    sizes = {"a": 2, "b": 2, "c": 2, "d": 2, "e": 2, "f": 3}
    worker = Worker(["a b", "a c d", "e f"], [1, 1, 1], sizes)
    assert worker.order("tac") == "a b c d e f"


def test_tac_takes_the_partner_of_what_it_has_taken() -> None:
    # All need two; a, of the lowest id, is first, and then d completes the op of it.
    worker = Worker(["a d", "b c"], [1, 1])
    assert worker.order("tac") == "a d b c"


def test_tac_looks_one_transfer_ahead_and_the_critical_path_further() -> None:
    # c unlocks an op at once, a and b together a longer one.
    worker = Worker(["a b", "c"], [6, 1], {"c": 2})
    assert worker.order("tac") == "c a b"
    assert worker.order("critical-path") == "a b c"
    assert worker.ticks(worker.priorities("tac")) == 2 + 1 + 1 + 6
    assert worker.ticks(worker.priorities("critical-path")) == 1 + 1 + 6 + 1


def test_ties_of_tac_that_go_round_in_a_circle_are_broken_by_what_goes_before_none() -> None:
    # As (M, P): a (1, 5) goes before b (2, 5); c (1, 1) is equal to both. M+ is 11 of b, 12 of c
    # and 13 of a, so that b goes before c and c before a: b may not be first, c has the least M+.
    sizes = {"a": 1, "b": 2, "c": 1, "x": 12, "y": 9, "z": 11}
    worker = Worker(["a", "b", "c", "0 x", "1 y", "2 z"], [5, 5, 1, 0, 0, 0], sizes)
    assert worker.order("tac").split()[:3] == ["c", "a", "b"]


def test_critical_path_goes_by_the_longest_way_from_a_reader_to_the_end() -> None:
    # Ranks: op 0 1 + 3 + 2, op 1 4, op 2 3 + 2, op 3 2. d is read by op 1 and op 3.
    worker = Worker(["a", "b d", "c 0", "d 2"], [1, 4, 3, 2])
    assert worker.order("critical-path") == "a c b d"


def test_a_value_that_has_been_elsewhere_waits_for_what_it_waited_for_before() -> None:
    # b -> op 0; a -> op 1 -> op 2 on the other device -> op 3. M is 4 for both, and what waits for
    # a alone is op 1 and op 2, 3 in all; with op 1 alone b would go first. Then v2 takes no time.
    graph = make_graph(
        [["b"], ["a"], ["v1"], ["v2"]],
        [["v0"], ["v1"], ["v2"], ["v3"]],
        value_bytes={"a": 4, "b": 4, "v1": 1, "v2": 1},
    )
    problem = make_problem(graph, make_cluster(2, host_bytes_per_s=1.0), [2.0, 1.0, 2.0, 9.0])
    placement = np.array([0, 0, 1, 0], dtype=np.int32)
    order = names_in_order(problem, placement, "tac")
    assert [name for name in order if name.endswith(">0")] == ["a>0", "v2>0", "b>0"]


@pytest.mark.parametrize("name", ["tic", "tac", "critical-path"])
def test_one_server_sends_first_to_the_device_that_works_first(name: str) -> None:
    # Two layers on device 0, two behind them on device 1, all weights on device 2.
    graph = make_graph(
        [["w3", "w2", "w1", "w0"], ["w0"], ["1", "w1"], ["2", "w2"], ["3", "w3"]],
        [["0"], ["1"], ["2"], ["3"], ["4"]],
        value_bytes={"w0": 1, "w1": 1, "w2": 1, "w3": 1},
    )
    problem = make_problem(graph, make_cluster(3, bytes_per_s=1.0), [0.0, 1.0, 1.0, 1.0, 1.0])
    home = np.where(graph.value_producer < 0, 2, -1).astype(np.int32)
    problem = replace(problem, value_home=home)
    order = names_in_order(problem, np.array([2, 0, 0, 1, 1], dtype=np.int32), name)
    assert [name for name in order if name[0] == "w"] == ["w0>0", "w1>0", "w2>1", "w3>1"]


@pytest.mark.parametrize("name", ["tic", "tac", "critical-path"])
def test_equal_workers_take_turns(name: str) -> None:
    # Two copies of a chain of three layers read the same weights.
    graph = make_graph(
        [["w0"], ["w0"], ["w1", "a0"], ["w1", "b0"], ["w2", "a1"], ["w2", "b1"]],
        [["a0"], ["b0"], ["a1"], ["b1"], ["a2"], ["b2"]],
        value_bytes={"w0": 3, "w1": 1, "w2": 2},
    )
    problem = make_problem(graph, make_cluster(3, bytes_per_s=1.0), [1.0] * 6)
    home = np.where(graph.value_producer < 0, 2, -1).astype(np.int32)
    placement = np.array([0, 1, 0, 1, 0, 1], dtype=np.int32)
    order = names_in_order(replace(problem, value_home=home), placement, name)
    assert order == ["w0>0", "w0>1", "w1>0", "w1>1", "w2>0", "w2>1"]


def test_an_op_is_as_urgent_as_the_latest_transfer_that_it_waits_for() -> None:
    # By rank 0 1 2 3 4; a comes last, so what needs it does.
    worker = Worker(["a", "b", "0 c", "1 c", "2 3"], [4, 3, 2, 1, 1])
    order = op_order(
        worker.problem,
        worker.placement,
        worker.transfers,
        np.array([2, 0, 1], dtype=np.int32),
        worker.base_order,
    )
    assert worker.base_order.tolist() == [0, 1, 2, 3, 4]
    assert order.tolist() == [1, 3, 0, 2, 4]


@pytest.mark.parametrize("seed", range(8))
def test_op_orders_are_topological_and_that_of_fifo_is_the_base(seed: int) -> None:
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, 60, 3, max_ticks=2)
    placement = rng.integers(0, 3, 60).astype(np.int32)
    tables, transfers = tabulate(problem), transfers_of(problem, placement)
    base = priority_order(placed_rank(tables, placement))
    graph = problem.graph
    for name in ORDERS:
        priorities = transfer_priorities(name, problem, tables, placement, transfers, rng=rng)
        order = op_order(problem, placement, transfers, priorities, base)
        position = np.argsort(order)
        assert sorted(order.tolist()) == list(range(60))
        for op in range(60):
            for value in graph.outputs_of(op):
                assert (position[graph.consumers_of(value)] > position[op]).all()
        if name == "fifo":
            assert order.tolist() == base.tolist()


@pytest.mark.parametrize("name", ORDERS)
def test_nothing_crosses_nothing_is_ordered(name: str) -> None:
    graph = make_graph([[], ["a"]], [["a"], ["b"]])
    problem = make_problem(graph, make_cluster(2), [1.0, 1.0])
    placement = np.zeros(2, dtype=np.int32)
    assert names_in_order(problem, placement, name) == []
    transfers = transfers_of(problem, placement)
    base = np.array([0, 1], dtype=np.int32)
    no_priorities = np.zeros(0, dtype=np.int32)
    assert op_order(problem, placement, transfers, no_priorities, base).tolist() == [0, 1]


def test_an_unknown_order_is_refused() -> None:
    with pytest.raises(UsageError, match="no order of transfers 'tik'; it must be one of fifo, "):
        BOTH_AND_ONE.priorities("tik")
