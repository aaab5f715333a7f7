"""Placements become parts: few, in the right places, and never waiting in a circle."""

import dataclasses
from typing import get_args

import numpy as np
import pytest
from numpy.typing import NDArray

from dplace.cluster import Contention
from dplace.comm_order import schedule
from dplace.lowering import Evaluator, check_acyclic, lower
from dplace.schedule.orders import ORDERS
from dplace.simulator.timeline import Lowered
from tests.random_problems import TICK, make_cluster, make_graph, make_problem, random_problem


def placed(*devices: int) -> NDArray[np.int32]:
    return np.array(devices, dtype=np.int32)


def parts_of(lowered: Lowered) -> list[list[int]]:
    return [row.tolist() for row in np.split(lowered.part_ops, lowered.part_offsets[1:-1])]


def chain(num_ops: int) -> tuple[list[list[str]], list[list[str]]]:
    names = ["x", *(f"v{op}" for op in range(num_ops))]
    return [[name] for name in names[:-1]], [[name] for name in names[1:]]


def test_a_model_on_one_device_is_one_call() -> None:
    graph = make_graph(*chain(3))
    problem = make_problem(graph, make_cluster(2, overhead_s=5.0), [1.0, 2.0, 4.0])
    lowered, timeline = lower(problem, placed(1, 1, 1))
    assert parts_of(lowered) == [[0, 1, 2]]
    assert timeline.makespan_s == 5 + 1 + 2 + 4
    assert timeline.op_start_s.tolist() == [5, 5 + 1, 5 + 1 + 2]
    assert timeline.busy_s.tolist() == [0, 12]
    assert lowered.num_transfers == 0


def test_a_chain_over_devices_is_one_part_a_turn() -> None:
    graph = make_graph(*chain(5), value_bytes={f"v{op}": 10 for op in range(5)})
    cluster = make_cluster(3, overhead_s=1.0, latency_s=2.0, bytes_per_s=10.0)
    problem = make_problem(graph, cluster, [1.0, 2.0, 3.0, 4.0, 5.0])
    lowered, timeline = lower(problem, placed(0, 1, 2, 1, 0))
    assert lowered.num_parts == 5
    hop = 2 + 10 / 10 + 1  # latency, bytes over bandwidth, the next part's call
    assert timeline.makespan_s == 1 + 1 + hop + 2 + hop + 3 + hop + 4 + hop + 5


def two_branches(length: int) -> tuple[list[list[str]], list[list[str]]]:
    """Return two chains, interleaved, and an op that joins them."""
    inputs = [[f"{side}{step}"] for step in range(length) for side in "ab"]
    outputs = [[f"{side}{step + 1}"] for step in range(length) for side in "ab"]
    return [*inputs, [f"a{length}", f"b{length}"]], [*outputs, ["y"]]


def test_two_branches_and_a_join_are_three_parts() -> None:
    problem = make_problem(
        make_graph(*two_branches(20)), make_cluster(2, overhead_s=1.0, latency_s=2.0), [1.0] * 41
    )
    lowered, timeline = lower(problem, placed(*[0, 1] * 20, 0))
    assert parts_of(lowered) == [list(range(0, 40, 2)), list(range(1, 40, 2)), [40]]
    assert timeline.makespan_s == (1 + 20) + 2 + (1 + 1)
    assert lowered.transfer_value.tolist() == [problem.graph.outputs_of(39)[0]]


@pytest.mark.parametrize(("rest", "num_parts"), [(3.0, 3), (0.5, 2)])
def test_a_value_someone_waits_for_is_handed_over_if_that_is_worth_a_call(
    rest: float, num_parts: int
) -> None:
    # a feeds b elsewhere and c here; after a there is `rest` left here, and a call costs 1.
    graph = make_graph([["x"], ["a"], ["a"]], [["a"], ["b"], ["c"]])
    problem = make_problem(graph, make_cluster(2, overhead_s=1.0), [1.0, 4.0, rest])
    lowered, timeline = lower(problem, placed(0, 1, 0))
    assert lowered.num_parts == num_parts
    handed_over_at = 1 + 1 if num_parts == 3 else 1 + 1 + rest
    assert timeline.makespan_s == handed_over_at + 1 + 4


def test_a_part_ends_before_something_more_urgent_that_is_on_its_way() -> None:
    # p reaches device 0 at 3 + 1 + 1 and unlocks q, behind which r takes 20 elsewhere; until
    # then device 0 works on what nobody waits for.
    inputs = [["x"], ["x"], ["x"], ["x"], ["x"], ["p"], ["q"]]
    outputs = [["u"], ["v"], ["w"], ["z"], ["p"], ["q"], ["r"]]
    problem = make_problem(
        make_graph(inputs, outputs),
        make_cluster(2, overhead_s=1.0, latency_s=1.0),
        [2.0, 2.0, 2.0, 2.0, 3.0, 1.0, 20.0],
    )
    lowered, timeline = lower(problem, placed(0, 0, 0, 0, 1, 0, 1))
    q_starts = timeline.part_start_s[lowered.part_of_op[5]]
    assert q_starts == (1 + 2) + (1 + 2)
    assert timeline.makespan_s == q_starts + (1 + 1) + 1 + (1 + 20)


def test_a_value_goes_once_to_each_device() -> None:
    graph = make_graph(
        [["x"], ["a"], ["a"], ["a"]], [["a"], ["b"], ["c"], ["d"]], value_bytes={"a": 10}
    )
    cluster = make_cluster(3, bytes_per_s=5.0, contention="none")
    problem = make_problem(graph, cluster, [1.0, 1.0, 1.0, 1.0])
    lowered, timeline = lower(problem, placed(0, 1, 1, 2))
    assert sorted(lowered.transfer_target.tolist()) == [1, 2]
    assert lowered.transfer_source.tolist() == [0, 0]
    assert timeline.makespan_s == 1 + 10 / 5 + 1 + 1


@pytest.mark.parametrize(
    ("contention", "last_arrival"),
    [("none", 2), ("link", 4), ("egress", 6), ("egress-ingress", 6), ("port", 6)],
)
def test_transfers_wait_for_what_they_share(contention: Contention, last_arrival: int) -> None:
    # Device 0 makes a and b for device 1 and c for device 2; each takes 2 on the way.
    graph = make_graph(
        [["x"], ["a", "b"], ["c"]],
        [["a", "b", "c"], ["d"], ["e"]],
        value_bytes={"a": 2, "b": 2, "c": 2},
    )
    cluster = make_cluster(3, bytes_per_s=1.0, contention=contention)
    problem = make_problem(graph, cluster, [1.0, 4.0, 4.0])
    _, timeline = lower(problem, placed(0, 1, 2))
    assert timeline.transfer_end_s.max() == 1 + last_arrival


def test_both_directions_share_a_port_but_not_an_egress() -> None:
    graph = make_graph(
        [["x"], ["y"], ["a"], ["b"]], [["a"], ["b"], ["c"], ["d"]], value_bytes={"a": 2, "b": 2}
    )
    ends: dict[str, list[float]] = {}
    contentions: list[Contention] = ["egress-ingress", "port"]
    for contention in contentions:
        cluster = make_cluster(2, bytes_per_s=1.0, contention=contention)
        problem = make_problem(graph, cluster, [1.0, 1.0, 1.0, 1.0])
        ends[contention] = lower(problem, placed(0, 1, 1, 0))[1].transfer_end_s.tolist()
    assert ends == {"egress-ingress": [1 + 2, 1 + 2], "port": [1 + 2, 1 + 2 + 2]}


def test_inputs_are_copied_one_after_another_and_outputs_come_back() -> None:
    graph = make_graph([["x"], ["y"]], [["a"], ["b"]], value_bytes={"x": 4, "y": 8, "a": 2, "b": 6})
    cluster = make_cluster(1, overhead_s=20.0, host_latency_s=1.0, host_bytes_per_s=2.0)
    problem = make_problem(graph, cluster, [5.0, 7.0])
    lowered, timeline = lower(problem, placed(0, 0))
    copies_in = (1 + 4 / 2) + (1 + 8 / 2)
    copies_out = (1 + 2 / 2) + (1 + 6 / 2)
    assert lowered.num_parts == 1
    assert timeline.makespan_s == copies_in + 20 + 5 + 7 + copies_out


def test_many_small_inputs_do_not_tear_a_model_apart() -> None:
    inputs = [[f"x{op}"] for op in range(6)] + [[f"v{op}" for op in range(6)]]
    outputs = [[f"v{op}"] for op in range(6)] + [["y"]]
    cluster = make_cluster(1, overhead_s=4.0, host_latency_s=0.5)
    problem = make_problem(make_graph(inputs, outputs), cluster, [1.0] * 7)
    lowered, timeline = lower(problem, placed(*[0] * 7))
    assert lowered.num_parts == 1
    assert timeline.makespan_s == 6 * 0.5 + 4 + 7 * 1 + 0.5


def test_memory_counts_weights_once_a_device_and_values_while_they_live() -> None:
    # On device 0: weight t of 100; a (8) is read by b only, so it is freed as b ends.
    graph = make_graph(
        [["x"], ["a"], ["b"], ["c"]],
        [["a"], ["b"], ["c"], ["d"]],
        value_bytes={"x": 1, "a": 8, "b": 16, "c": 32, "d": 64},
        weights=[["t"], ["t"], [], ["t"]],
        weight_bytes={"t": 100},
    )
    problem = make_problem(graph, make_cluster(2, bytes_per_s=1.0, overhead_s=1.0), [1.0] * 4)
    _, timeline = lower(problem, placed(0, 0, 0, 1))
    assert timeline.weight_bytes.tolist() == [100, 100]
    # x stays until the part ends; at the start of op c, a has been freed.
    assert timeline.peak_bytes.tolist() == [100 + 1 + 16 + 32, 100 + 32 + 64]


def test_a_value_that_lives_for_no_time_takes_no_memory() -> None:
    graph = make_graph(
        [["x"], ["a"]],
        [["a", "unread"], ["b"]],
        value_bytes={"a": 4, "unread": 100, "b": 2},
        graph_outputs=["b"],
    )
    problem = make_problem(graph, make_cluster(1, overhead_s=1.0), [0.0, 3.0])
    _, timeline = lower(problem, placed(0, 0))
    assert timeline.peak_bytes.tolist() == [4 + 2]


def test_a_graph_without_ops_takes_no_time() -> None:
    problem = make_problem(make_graph([], []), make_cluster(2), np.zeros((0, 2)))
    lowered, timeline = lower(problem, placed())
    assert (lowered.num_parts, timeline.makespan_s) == (0, 0.0)


def test_ops_without_edges_run_side_by_side() -> None:
    graph = make_graph([[], [], []], [["a"], ["b"], ["c"]])
    problem = make_problem(graph, make_cluster(2, overhead_s=1.0), [3.0, 0.0, 2.0])
    _, timeline = lower(problem, placed(0, 1, 1))
    assert timeline.makespan_s == max(1 + 3, 1 + 0 + 2)


@pytest.mark.parametrize("seed", range(40))
def test_parts_never_wait_in_a_circle_and_lower_is_the_best_of_rules_and_orders(seed: int) -> None:
    rng = np.random.default_rng(seed)
    contention = get_args(Contention)[seed % 5]
    problem = random_problem(rng, 60, 3, contention=contention, window=9)
    placement = rng.integers(0, 3, 60).astype(np.int32)
    evaluator = Evaluator(problem)
    lowered, timeline = evaluator.lower(placement)
    check_acyclic(problem, lowered)
    named = {name: schedule(evaluator, placement, name) for name in ORDERS}
    for one in named.values():
        check_acyclic(problem, one.lowered)
    assert timeline.makespan_s == min(one.timeline.makespan_s for one in named.values())
    if contention in ("none", "link", "egress"):
        scores = [evaluator.score(placement, rule) for rule in evaluator.rules]
        fifo = named["fifo"]
        judged = (fifo.timeline.makespan_s, fifo.lowered.num_parts)
        assert judged == min(score[1:] for score in scores)


def test_a_circle_of_parts_is_a_bug_that_names_them() -> None:
    graph = make_graph(*chain(3))
    problem = make_problem(graph, make_cluster(2), [1.0] * 3)
    lowered, _ = lower(problem, placed(0, 1, 0))
    circle = dataclasses.replace(
        lowered,
        part_device=placed(0, 1),
        part_offsets=placed(0, 2, 3),
        part_ops=placed(0, 2, 1),
        part_of_op=placed(0, 1, 0),
    )
    with pytest.raises(RuntimeError, match="part 1 with op 'v1' feeds part 0 with op 'v2'"):
        check_acyclic(problem, circle)


def test_a_slower_link_never_makes_one_transfer_arrive_earlier() -> None:
    graph = make_graph(*chain(2), value_bytes={"v0": 1024})
    makespans = []
    for ticks in (0, 1, 10, 100):
        cluster = make_cluster(2, overhead_s=TICK, latency_s=ticks * TICK)
        problem = make_problem(graph, cluster, [TICK, TICK])
        makespans.append(lower(problem, placed(0, 1))[1].makespan_s / TICK)
    assert makespans == [1 + 1 + ticks + 1 + 1 for ticks in (0, 1, 10, 100)]


def test_equal_questions_get_equal_answers() -> None:
    rng = np.random.default_rng(5)
    problem = random_problem(rng, 80, 4, contention="egress", unlike=True)
    placement = rng.integers(0, 4, 80).astype(np.int32)
    first = [dataclasses.asdict(lower(problem, placement)[part]) for part in (0, 1)]
    second = [dataclasses.asdict(lower(problem, placement.copy())[part]) for part in (0, 1)]
    for one, other in zip(first, second, strict=True):
        for name in one:
            assert np.array_equal(one[name], other[name]), name


def test_the_first_use_on_a_machine_says_that_it_compiles(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    problem = make_problem(make_graph(*chain(2)), make_cluster(2), [1.0, 1.0])
    Evaluator(problem)
    assert caplog.messages == []
    monkeypatch.setattr("dplace.simulator.compiled.is_compiled_cache_present", lambda *_: False)
    Evaluator(problem)
    (line,) = caplog.messages
    assert line.startswith("first use of the native simulator on this machine: compiling it takes")
