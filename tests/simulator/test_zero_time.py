"""Ops that take no time make values that are there for no time."""

import numpy as np

from dplace.lowering import Evaluator
from dplace.simulator.part_graph import part_graph
from dplace.simulator.replay import simulate_parts
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


def test_an_op_that_takes_no_time_comes_before_one_that_starts_with_it() -> None:
    # "b" and "c" both read "a" on device 0; "c" takes no time, and device 1 waits for it.
    graph = make_graph([[], ["a"], ["a"], ["c"]], [["a"], ["b"], ["c"], ["d"]])
    problem = make_problem(graph, make_cluster(2), [1.0, 4.0, 0.0, 2.0])
    evaluator, placement = Evaluator(problem), np.array([0, 0, 0, 1], dtype=np.int32)
    for rule in evaluator.rules:
        lowered, timeline = evaluator.run(placement, rule)
        times = simulate_parts(part_graph(problem, lowered), problem.cluster)
        assert times.makespan_s == timeline.makespan_s
        assert times.part_start_s.tolist() == timeline.part_start_s.tolist()
