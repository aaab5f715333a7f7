"""The pass in which transfers go by priority, against a slow one and against sums by hand."""

import time
from collections.abc import Sequence
from typing import NamedTuple, get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from dplace.cluster import Contention
from dplace.comm_order import schedule
from dplace.errors import MemoryLimitError
from dplace.lowering import Evaluator, Rule
from dplace.problem import Problem
from dplace.schedule.orders import ORDERS
from dplace.simulator.ordered_engine import OrderedEngine, Way
from dplace.simulator.part_graph import part_graph
from dplace.simulator.replay import simulate_parts
from dplace.simulator.tables import tabulate
from tests.random_problems import make_cluster, make_graph, make_problem, stream
from tests.simulator.ordered_reference import OrderedReference
from tests.simulator.test_online import RULES_TO_TRY, draw_world


class World(NamedTuple):
    """A problem, a placement, and the priority of each transfer."""

    problem: Problem
    placement: NDArray[np.int32]
    priorities: NDArray[np.int32]


def draw_ordered(
    seed: int,
    contention: Contention,
    is_streamed: bool,
    levels: int,
    room: int | None,
    overhead: int,
    num_ops: int,
) -> World:
    """Return a world; priorities are of so many ``levels``, buffers of ``room`` KiB."""
    rng = np.random.default_rng(seed)
    num_devices = int(rng.integers(1, 5))
    problem, placement = draw_world(
        seed=seed,
        num_ops=num_ops,
        num_devices=num_devices,
        contention=contention,
        unlike=bool(rng.integers(2)),
        overhead=overhead,
        single=3 if overhead and rng.integers(2) else None,
        window=[None, 3, 8][rng.integers(3)],
        run=int(rng.choice([1, 1, 4, 10])),
    )
    if is_streamed:
        names = problem.graph.weight_names
        homes = {name: int(rng.integers(-1, num_devices)) for name in names if rng.random() < 0.7}
        buffers = None if room is None else [1024 * room] * num_devices
        problem = stream(problem, homes, buffer_bytes=buffers)
    transfers, _ = OrderedEngine(problem, tabulate(problem)).prepare(placement)
    priorities = rng.integers(0, levels, transfers.num_transfers).astype(np.int32)
    return World(problem, placement, priorities)


WORLDS = st.builds(
    draw_ordered,
    seed=st.integers(0, 2**32 - 1),
    contention=st.sampled_from(get_args(Contention)),
    is_streamed=st.booleans(),
    levels=st.sampled_from([1, 2, 1000]),
    room=st.sampled_from([None, 8, 16, 32]),
    overhead=st.sampled_from([0, 1, 8, 40]),
    num_ops=st.integers(1, 40),
)


@settings(max_examples=300, deadline=None)
@given(world=WORLDS, rule=RULES_TO_TRY, one_by_one=st.booleans())
def test_every_op_transfer_and_copy_is_where_the_reference_has_it(
    world: World, rule: Rule, one_by_one: bool
) -> None:
    problem, placement, priorities = world
    evaluator = Evaluator(problem)
    engine = OrderedEngine(problem, evaluator.tables, one_by_one=one_by_one)
    transfers, moves = engine.prepare(placement)
    order = evaluator.order(rule, placement)
    way = Way(rule, order, priorities)
    pairs = zip(transfers.value.tolist(), transfers.target.tolist(), strict=True)
    expected = OrderedReference(
        problem,
        placement.tolist(),
        np.argsort(order).tolist(),
        rule,
        priority=dict(zip(pairs, priorities.tolist(), strict=True)),
        one_by_one=one_by_one,
    ).run()

    assert engine.score(moves, way).makespan_s == expected.makespan_s
    if expected.makespan_s == np.inf:
        return
    lowered, timeline = engine.records(moves, way)
    assert lowered.part_device.tolist() == [device for device, _, _, _ in expected.parts]
    assert lowered.part_ops.tolist() == [op for _, ops, _, _ in expected.parts for op in ops]
    assert timeline.part_start_s.tolist() == [start for _, _, start, _ in expected.parts]
    assert timeline.part_end_s.tolist() == [end for _, _, _, end in expected.parts]
    times = list(zip(timeline.op_start_s.tolist(), timeline.op_end_s.tolist(), strict=True))
    assert times == [expected.op_times[op] for op in range(problem.num_ops)]
    sent = zip(
        lowered.transfer_value.tolist(),
        lowered.transfer_source.tolist(),
        lowered.transfer_target.tolist(),
        timeline.transfer_start_s.tolist(),
        timeline.transfer_end_s.tolist(),
        strict=True,
    )
    assert list(sent) == expected.transfers
    copied = zip(
        lowered.copy_value.tolist(),
        lowered.copy_target.tolist(),
        timeline.copy_start_s.tolist(),
        timeline.copy_end_s.tolist(),
        strict=True,
    )
    assert sorted(copied) == sorted(expected.copies)


@settings(max_examples=200, deadline=None)
@given(world=WORLDS, rule=RULES_TO_TRY, one_by_one=st.booleans())
def test_parts_and_priorities_alone_give_the_same_times(
    world: World, rule: Rule, one_by_one: bool
) -> None:
    problem, placement, priorities = world
    evaluator = Evaluator(problem)
    engine = OrderedEngine(problem, evaluator.tables, one_by_one=one_by_one)
    _, moves = engine.prepare(placement)
    way = Way(rule, evaluator.order(rule, placement), priorities)
    if engine.score(moves, way).makespan_s == np.inf:
        return
    lowered, timeline = engine.records(moves, way)
    times = simulate_parts(part_graph(problem, lowered), problem.cluster)
    assert times.makespan_s == timeline.makespan_s
    assert times.bottleneck_s == timeline.bottleneck_s
    for name in ("part_start_s", "part_end_s", "transfer_start_s", "transfer_end_s", "busy_s"):
        assert getattr(times, name).tolist() == getattr(timeline, name).tolist(), name
    is_weight = np.isin(lowered.copy_value, problem.streamed)
    assert times.copy_start_s.tolist() == timeline.copy_start_s[is_weight].tolist()
    assert times.copy_end_s.tolist() == timeline.copy_end_s[is_weight].tolist()


def two_weights(*, buffer_bytes: int | None = None, homes: tuple[int, int] = (1, 1)) -> Problem:
    """Return two ops of 3 s and 1 s on device 0 that read 4 s and 2 s of weights; calls take 1 s.

    The second op also reads what the first one makes.
    """
    graph = make_graph(
        [["x"], ["a"]],
        [["a"], ["b"]],
        weights=[["u"], ["v"]],
        weight_bytes={"u": 4, "v": 2},
    )
    cluster = make_cluster(2, overhead_s=1.0, bytes_per_s=1.0, host_bytes_per_s=0.5)
    problem = make_problem(graph, cluster, [3.0, 1.0], pins=[0, 0])
    buffers = None if buffer_bytes is None else [buffer_bytes, 0]
    return stream(problem, {"u": homes[0], "v": homes[1]}, buffer_bytes=buffers)


def makespan_s(problem: Problem, priorities: Sequence[int]) -> float:
    """Return what both ops on device 0 take; the first priority is that of the graph's input."""
    evaluator = Evaluator(problem)
    _, moves = evaluator.ordered.prepare(np.array([0, 0], dtype=np.int32))
    way = Way(Rule("index"), np.arange(2, dtype=np.int32), np.array(priorities, dtype=np.int32))
    return evaluator.ordered.score(moves, way).makespan_s


def test_what_is_read_first_should_come_first() -> None:
    # u arrives at 4, v at 6; the ops run from 4 to 8 and, in a call of its own, to 10.
    assert makespan_s(two_weights(), [0, 0, 1]) == 4 + (1 + 3) + (1 + 1)
    # v arrives at 2, u at 6; both ops run in one call.
    assert makespan_s(two_weights(), [0, 1, 0]) == 6 + (1 + 3 + 1)
    # All equal: by value, so as in the first order.
    assert makespan_s(two_weights(), [0, 0, 0]) == 10


def test_a_weight_waits_for_room_until_the_part_that_reads_the_one_before_has_ended() -> None:
    # u is freed at 8; only then v goes, and arrives at 10.
    assert makespan_s(two_weights(buffer_bytes=5), [0, 0, 1]) == 4 + (1 + 3) + 2 + (1 + 1)
    # Room for both: as without a limit.
    assert makespan_s(two_weights(buffer_bytes=6), [0, 0, 1]) == 10


def test_weights_from_the_host_are_copied_one_after_another_at_the_speed_of_the_host() -> None:
    assert makespan_s(two_weights(homes=(-1, -1)), [0, 0, 1]) == 8 + (1 + 3) + (1 + 1)
    # From two homes: v may leave at 8 only, for weights keep their order; it takes 2 s.
    assert makespan_s(two_weights(homes=(-1, 1)), [0, 0, 1]) == 8 + (1 + 3) + (1 + 1)
    # u from the link at 4, v from the host from then to 8.
    assert makespan_s(two_weights(homes=(1, -1)), [0, 0, 1]) == 8 + (1 + 1)


def test_a_weight_that_lies_where_it_is_read_is_there_at_once() -> None:
    assert makespan_s(two_weights(homes=(0, 1)), [0, 0]) == (1 + 3) + (1 + 1)
    assert makespan_s(two_weights(homes=(0, 0)), [0]) == 1 + 3 + 1


def test_an_order_that_fills_the_room_with_what_is_read_last_never_ends() -> None:
    problem = two_weights(buffer_bytes=5)
    assert makespan_s(problem, [0, 1, 0]) == np.inf
    # The choice of an order sends weights in the order of use where room is tight.
    for name in ORDERS:
        scheduled = schedule(Evaluator(problem), np.array([0, 0], dtype=np.int32), name)
        assert scheduled.timeline.makespan_s == 12
        assert scheduled.comm_order == name


def test_a_buffer_too_small_is_named_with_what_it_cannot_hold() -> None:
    words = (
        r"test:0: op 'a' needs 4 bytes of streamed weights at a time, 'u' with 4 bytes among them, "
        r"and there is room for 3 bytes"
    )
    with pytest.raises(MemoryLimitError, match=words):
        schedule(Evaluator(two_weights(buffer_bytes=3)), np.array([0, 0], dtype=np.int32))


def test_room_is_taken_all_the_time_and_a_home_holds_its_weights() -> None:
    problem = two_weights(buffer_bytes=5, homes=(1, -1))
    placement = np.array([0, 0], dtype=np.int32)
    lowered, timeline = Evaluator(problem).lower(placement)
    assert timeline.peak_bytes.tolist() == [5, 4]
    assert timeline.weight_bytes.tolist() == [0, 4]
    names = problem.graph.value_names
    assert [names[value] for value in lowered.transfer_value] == ["u"]
    assert [names[value] for value in lowered.copy_value] == ["x", "v"]
    assert timeline.copy_end_s.tolist() == [0, 4 + (1 + 3) + 4]


def test_five_thousand_weights_that_wait_for_room_take_a_moment() -> None:
    num = 5_000
    graph = make_graph(
        [["x"]] * num,
        [[f"v{op}"] for op in range(num)],
        weights=[[f"w{op}"] for op in range(num)],
        weight_bytes={f"w{op}": 8 for op in range(num)},
    )
    cluster = make_cluster(2, overhead_s=1.0, bytes_per_s=1.0)
    problem = make_problem(graph, cluster, np.ones(num))
    problem = stream(problem, {f"w{op}": 1 for op in range(num)}, buffer_bytes=[16, 0])
    evaluator, placement = Evaluator(problem), np.zeros(num, dtype=np.int32)
    _, moves = evaluator.ordered.prepare(placement)
    way = Way(Rule("index"), np.arange(num, dtype=np.int32), np.arange(-1, num, dtype=np.int32))
    evaluator.ordered.score(moves, way)
    started = time.process_time()
    assert evaluator.ordered.score(moves, way).makespan_s == 8 * num + 2
    assert time.process_time() - started < 0.5
