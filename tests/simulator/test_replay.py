"""Parts that are given run in their order, or it is said what they wait for."""

import dataclasses
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dplace.errors import PlanError
from dplace.simulator.compiled import is_compiled_cache_present
from dplace.simulator.part_graph import PartGraph
from dplace.simulator.replay import simulate_parts
from tests.random_problems import compress, make_cluster


def ids(*numbers: int) -> NDArray[np.int32]:
    return np.array(numbers, dtype=np.int32)


NOTHING_STREAMED: dict[str, Any] = {
    "streamed": ids(),
    "copy_value": ids(),
    "copy_target": ids(),
    "copy_priority": ids(),
    "buffer_bytes": np.zeros(2, dtype=np.int64),
}


def there_and_back() -> PartGraph:
    """Return part 0 on device 0, part 1 on device 1, part 2 on device 0, each fed by the last.

    Values: 0 is the graph's input, 1 and 2 lie between the parts, 3 is the output.
    """
    input_offsets, input_values = compress([[0], [1], [1, 2]])
    output_offsets, output_values = compress([[1], [2], [3]])
    return PartGraph(
        part_device=ids(0, 1, 0),
        part_seconds=np.array([2.0, 3.0, 5.0]),
        input_offsets=input_offsets,
        input_values=input_values,
        output_offsets=output_offsets,
        output_values=output_values,
        value_bytes=np.array([0, 8, 16, 0], dtype=np.int64),
        graph_inputs=ids(0),
        graph_outputs=ids(3),
        transfer_value=ids(1, 2),
        transfer_source=ids(0, 1),
        transfer_target=ids(1, 0),
        transfer_priority=ids(0, 0),
        **NOTHING_STREAMED,
    )


def test_parts_wait_for_their_inputs() -> None:
    cluster = make_cluster(2, overhead_s=1.0, latency_s=2.0, bytes_per_s=8.0)
    times = simulate_parts(there_and_back(), cluster)
    first = 1 + 2
    second = first + (2 + 8 / 8) + (1 + 3)
    third = second + (2 + 16 / 8) + (1 + 5)
    assert times.part_end_s.tolist() == [first, second, third]
    assert times.transfer_start_s.tolist() == [first, second]
    assert times.makespan_s == third
    assert times.busy_s.tolist() == [1 + 2 + 1 + 5, 1 + 3]


def test_a_transfer_that_is_missing_is_named_by_the_part_that_waits() -> None:
    graph = dataclasses.replace(
        there_and_back(),
        transfer_value=ids(1),
        transfer_source=ids(0),
        transfer_target=ids(1),
        transfer_priority=ids(0),
    )
    with pytest.raises(PlanError, match="part 2 on test:0 waits for a value that never comes"):
        simulate_parts(graph, make_cluster(2))


def test_parts_in_the_wrong_order_wait_for_ever() -> None:
    input_offsets, input_values = compress([[1], [0]])
    output_offsets, output_values = compress([[2], [1]])
    graph = dataclasses.replace(
        there_and_back(),
        part_device=ids(0, 0),
        part_seconds=np.array([1.0, 1.0]),
        input_offsets=input_offsets,
        input_values=input_values,
        output_offsets=output_offsets,
        output_values=output_values,
        transfer_value=ids(),
        transfer_source=ids(),
        transfer_target=ids(),
        transfer_priority=ids(),
    )
    with pytest.raises(PlanError, match="part 0 on test:0 waits"):
        simulate_parts(graph, make_cluster(2))


def test_no_parts_take_no_time() -> None:
    nothing = compress([])
    graph = PartGraph(
        part_device=ids(),
        part_seconds=np.zeros(0),
        input_offsets=nothing[0],
        input_values=nothing[1],
        output_offsets=nothing[0],
        output_values=nothing[1],
        value_bytes=np.zeros(0, dtype=np.int64),
        graph_inputs=ids(),
        graph_outputs=ids(),
        transfer_value=ids(),
        transfer_source=ids(),
        transfer_target=ids(),
        transfer_priority=ids(),
        **NOTHING_STREAMED,
    )
    assert simulate_parts(graph, make_cluster(2)).makespan_s == 0.0


def test_what_has_run_is_in_the_cache() -> None:
    from dplace.simulator.online import simulate

    if simulate.signatures:
        assert is_compiled_cache_present()
