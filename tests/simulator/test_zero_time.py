"""Ops that take no time make values that are there for no time."""

import numpy as np

from dplace.lowering import Evaluator
from tests.random_problems import make_cluster, make_graph, make_problem


def test_a_last_value_that_nobody_reads_and_that_takes_no_time_is_no_peak() -> None:
    graph = make_graph(
        [[], ["a"], ["b"]],
        [["a"], ["b"], ["c"]],
        value_bytes={"a": 8, "b": 4, "c": 100},
        graph_outputs=[],
    )
    evaluator = Evaluator(make_problem(graph, make_cluster(2), [1.0, 1.0, 0.0]))
    for placement in ([0, 0, 0], [0, 0, 1], [0, 1, 1]):
        _, timeline = evaluator.lower(np.array(placement, dtype=np.int32))
        assert timeline.peak_bytes[0] == (8 if placement[1] else 8 + 4)
