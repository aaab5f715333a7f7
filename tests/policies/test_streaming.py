"""What stays, what is streamed and through how much room: small worlds, worked by hand."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest

from dplace.errors import MemoryLimitError
from dplace.lowering import Evaluator
from dplace.policies.streaming import AT_HOST, Choice, Streamable, dealt_out, filled, relaxed
from tests.random_problems import compress, make_cluster, make_graph, make_problem


def chain(
    sizes: Mapping[str, int],
    reads: Sequence[str],
    *,
    num_devices: int = 2,
    memory: int | Sequence[int] = 1000,
    host_bytes_per_s: float = 10.0,
    home: int = AT_HOST,
    value_bytes: int = 4,
    link_bytes_per_s: float = np.inf,
) -> Streamable:
    """Return a chain of ops of 1 s, each reading the weights of one word of ``reads``.

    Capital letters are weights that may be streamed, others stay.
    """
    num_ops = len(reads)
    names = [f"v{op}" for op in range(num_ops)]
    graph = make_graph(
        inputs=[["x"] if op == 0 else [names[op - 1]] for op in range(num_ops)],
        outputs=[[name] for name in names],
        weights=[list(word) for word in reads],
        value_bytes=dict.fromkeys(["x", *names], value_bytes),
        weight_bytes=dict(sizes),
        graph_outputs=[names[-1]],
    )
    cluster = make_cluster(
        num_devices,
        memory_bytes=memory,
        host_bytes_per_s=host_bytes_per_s,
        bytes_per_s=link_bytes_per_s,
        overhead_s=1e-6,
    )
    may_be = np.array([name.isupper() for name in graph.weight_names])
    kept = np.cumsum(~may_be) - 1
    rows = compress(
        [
            [int(kept[at]) for at in graph.weights_of(op) if not may_be[at]]
            for op in range(graph.num_ops)
        ]
    )
    return Streamable(
        problem=make_problem(graph, cluster, [1.0] * num_ops),
        without=replace(
            graph,
            weight_names=tuple(name for name in graph.weight_names if not name.isupper()),
            weight_bytes=graph.weight_bytes[~may_be],
            weight_offsets=rows[0],
            op_weights=rows[1],
        ),
        may_be=may_be,
        home=home,
    )


def fill(
    streamable: Streamable, placement: Sequence[int], free: Sequence[int], **options: object
) -> tuple[set[str], list[int]]:
    """Return the names of the weights that are streamed, and the room."""
    choice = choose(streamable, placement, free, **options)
    names = streamable.problem.graph.weight_names
    streamed = {names[at] for at in np.flatnonzero(choice.streamed)}
    return streamed, choice.buffer_bytes.tolist()


def choose(
    streamable: Streamable, placement: Sequence[int], free: Sequence[int], **options: object
) -> Choice:
    ops = np.array(placement, dtype=np.int32)
    problem = replace(streamable.problem, graph=streamable.without)
    _, timeline = Evaluator(problem).lower(ops)
    return filled(
        streamable,
        ops,
        timeline,
        np.array(free, dtype=np.int64),
        **options,  # type: ignore[arg-type]  # as filled has them
    )


SIZES = {"A": 10, "B": 20, "C": 10, "D": 10}
READS = ("A", "B", "C", "D")


@pytest.mark.parametrize(
    ("free", "options", "streamed", "room"),
    [
        # A, B, C and D, one after another, each if what is left for the others is enough.
        (60, {"ahead": 0}, "", 0),
        # 49 - A = 39, - B = 19: C would leave 9 for D, and D as little for C.
        (49, {"ahead": 0}, "CD", 10),
        # 39 - A = 29: B would leave 9 for C, C and D 19 for B.
        (39, {"ahead": 0}, "BCD", 20),
        # While one runs another comes: A would leave 39 for twice B. 49 - B = 29; C leaves 19.
        (49, {"ahead": 1}, "ACD", 20),
        # B is the largest: 39 - B = 19, and each other one would leave 9 for the next.
        (39, {"ahead": 0, "largest_first": True}, "ACD", 10),
        # Nothing stays; room is a multiple of 10, for so is all that is ever in it.
        (49, {"keep_none": True}, "ABCD", 40),
        (99, {"keep_none": True}, "ABCD", 50),
    ],
)
def test_devices_keep_what_leaves_room_for_the_rest(
    free: int, options: dict[str, object], streamed: str, room: int
) -> None:
    assert fill(chain(SIZES, READS), [0, 0, 0, 0], [free, 0], **options) == (
        set(streamed),
        [room, 0],
    )


def test_too_little_room_is_told() -> None:
    message = "ops on test:0 read 20 bytes of streamed weights at a time, and it has 19 bytes left"
    with pytest.raises(MemoryLimitError, match=message):
        fill(chain(SIZES, READS), [0, 0, 0, 0], [19, 0])


def test_each_device_is_filled_for_itself() -> None:
    found = fill(chain(SIZES, READS), [0, 1, 0, 1], [15, 25], ahead=0)
    assert found == ({"A", "B", "C", "D"}, [10, 20])
    assert fill(chain(SIZES, READS), [0, 1, 0, 1], [15, 30], ahead=0) == ({"A", "C"}, [10, 0])


def test_a_weight_that_two_devices_read_stays_on_both_or_on_neither() -> None:
    both = chain({"A": 10}, ("A", "A"))
    assert fill(both, [0, 1], [10, 10], ahead=0) == (set(), [0, 0])
    # On the second device there is no room, not even in the buffers.
    with pytest.raises(MemoryLimitError, match="test:1"):
        fill(both, [0, 1], [10, 9], ahead=0)


def test_what_is_read_again_and_again_stays_before_what_is_needed_first() -> None:
    """A is there from the second to the last op; 35 - A = 25: B would leave 5 for C."""
    found = fill(chain(SIZES, ("B", "A", "C", "A", "A")), [0] * 5, [35, 0], ahead=0)
    assert found == ({"B", "C"}, [20, 0])


def test_room_is_for_what_waits_to_be_read_again_too() -> None:
    """Between the two ops that read A, B comes and goes."""
    waiting = chain(SIZES, ("A", "B", "A"))
    assert fill(waiting, [0] * 3, [30, 0], keep_none=True) == ({"A", "B"}, [30, 0])
    with pytest.raises(MemoryLimitError, match="read 30 bytes"):
        fill(waiting, [0] * 3, [29, 0], keep_none=True)


def test_a_home_holds_all_that_does_not_stay_elsewhere() -> None:
    at_second = chain(SIZES, READS, home=1)
    assert fill(at_second, [0, 0, 1, 1], [39, 50], ahead=0) == (set(), [0, 0])
    assert fill(at_second, [0, 0, 1, 1], [39, 50], keep_none=True) == ({"A", "B"}, [30, 0])


def test_weights_take_time_in_place_of_memory() -> None:
    problem = relaxed(chain(SIZES, READS, host_bytes_per_s=10.0))
    assert problem.graph.weight_names == ()
    # A second each, and B takes two to come.
    assert problem.seconds.tolist() == [[1, 1], [2, 2], [1, 1], [1, 1]]
    assert [device.memory_bytes for device in problem.cluster.devices] == [980, 980]


def test_weights_that_stay_stay() -> None:
    problem = relaxed(chain({**SIZES, "e": 7}, ("A", "Be")))
    assert problem.graph.weight_names == ("e",)
    assert problem.graph.weights_of(1).tolist() == [0]


def test_two_ops_that_read_a_weight_share_its_time() -> None:
    problem = relaxed(chain({"A": 60}, ("A", "A")))
    assert problem.seconds[:, 0].tolist() == [3, 3]


def test_the_home_of_weights_waits_for_none_and_holds_them_all() -> None:
    problem = relaxed(chain(SIZES, READS, home=1, link_bytes_per_s=5.0))
    assert problem.seconds.tolist() == [[2, 1], [4, 1], [2, 1], [2, 1]]
    assert [device.memory_bytes for device in problem.cluster.devices] == [980, 950]


def test_an_op_goes_only_where_its_weights_fit_at_once() -> None:
    """B takes 20 bytes, what its op reads and makes 8."""
    problem = relaxed(chain(SIZES, READS, memory=[25, 100]))
    assert np.isinf(problem.seconds).tolist() == [[False] * 2, [True, False], *[[False] * 2] * 2]
    message = (
        "op 'v1' reads 20 bytes of weights at once and takes 28 bytes with what it computes; the "
        "largest device that it may go to has 27 bytes, 1 bytes missing"
    )
    with pytest.raises(MemoryLimitError, match=message):
        relaxed(chain(SIZES, READS, memory=[25, 27]))


def test_a_home_that_is_too_small_is_told() -> None:
    message = (
        "weights of 50 bytes do not fit on their home test:1, which has 40 bytes; 10 bytes missing"
    )
    with pytest.raises(MemoryLimitError, match=message):
        relaxed(chain(SIZES, READS, home=1, memory=[1000, 40]))


@pytest.mark.parametrize(
    ("reads", "run", "expected"),
    [
        # Runs of 20 bytes: A, then B, then C and D.
        (READS, 1.0, [0, 1, 0, 0]),
        # Runs of 40 bytes: A, B and C, then D.
        (READS, 2.0, [0, 0, 0, 1]),
        # Ops without weights go where the op before them is.
        (("A", "", "C", ""), 1.0, [0, 0, 1, 1]),
    ],
)
def test_ops_are_dealt_out_in_runs(reads: Sequence[str], run: float, expected: list[int]) -> None:
    streamable = chain(SIZES, reads)
    assert dealt_out(streamable, relaxed(streamable), run).tolist() == expected


def test_a_slower_link_gets_shorter_runs() -> None:
    streamable = chain(dict.fromkeys("ABCDEF", 10), "ABCDEF")
    cluster = replace(streamable.problem.cluster, host_bytes_per_s=np.array([10.0, 5.0]))
    slower = replace(streamable, problem=replace(streamable.problem, cluster=cluster))
    assert dealt_out(slower, relaxed(slower), 2.0).tolist() == [0, 0, 1, 0, 0, 1]


def test_pins_are_kept_by_the_deal() -> None:
    streamable = chain(SIZES, READS)
    pinned = replace(streamable.problem, pins=np.array([1, -1, -1, -1], dtype=np.int32))
    pinned_too = replace(streamable, problem=pinned)
    assert dealt_out(pinned_too, relaxed(pinned_too), 1.0).tolist() == [1, 1, 0, 0]
