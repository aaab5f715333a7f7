"""What has to cross, and how long each crossing takes."""

from dataclasses import replace

import numpy as np
import pytest

from dplace.problem import Machine, Problem
from dplace.schedule import Transfers, transfers_of
from dplace.schedule.transfers import waits_of
from dplace.simulator.tables import tabulate
from tests.random_problems import make_cluster, make_graph, make_problem, random_problem


def problem() -> Problem:
    """Return two weights and an input; op 0 on device 0 is read by ops 1 and 2 on device 1."""
    graph = make_graph(
        [["x", "w"], ["a", "w", "u"], ["a"]],
        [["a"], ["b"], ["c"]],
        value_bytes={"x": 8, "w": 12, "a": 16, "u": 20},
    )
    cluster = make_cluster(
        3, latency_s=1.0, bytes_per_s=4.0, host_latency_s=0.5, host_bytes_per_s=8.0
    )
    return make_problem(graph, cluster, [1.0, 1.0, 1.0])


PLACEMENT = np.array([0, 1, 1], dtype=np.int32)


def crossings(problem: Problem, placement: np.ndarray = PLACEMENT) -> dict[tuple[str, int], object]:
    """Return source and seconds by the value's name and the target."""
    transfers = transfers_of(problem, placement)
    names = problem.graph.value_names
    return {
        (names[value], int(target)): (int(source), float(seconds))
        for value, target, source, seconds in zip(
            transfers.value, transfers.target, transfers.source, transfers.seconds, strict=True
        )
    }


def test_a_value_crosses_once_to_each_device_that_reads_it() -> None:
    assert crossings(problem()) == {
        ("x", 0): (-1, 0.5 + 8 / 8),
        ("w", 0): (-1, 0.5 + 12 / 8),
        ("w", 1): (-1, 0.5 + 12 / 8),
        ("u", 1): (-1, 0.5 + 20 / 8),
        ("a", 1): (0, 1.0 + 16 / 4),
    }


def test_a_weight_comes_from_its_home_and_never_to_it() -> None:
    names = list(problem().graph.value_names)
    home = np.full(len(names), -1, dtype=np.int32)
    home[[names.index("w"), names.index("u")]] = 0, 2
    home[names.index("a")] = 2  # an op makes it: no home
    assert crossings(replace(problem(), value_home=home)) == {
        ("x", 0): (-1, 0.5 + 8 / 8),
        ("w", 1): (0, 1.0 + 12 / 4),
        ("u", 1): (2, 1.0 + 20 / 4),
        ("a", 1): (0, 1.0 + 16 / 4),
    }


def test_times_that_were_given_hold_for_any_pair_or_for_each() -> None:
    given = np.arange(6.0).reshape(6, 1, 1)
    a = list(problem().graph.value_names).index("a")
    assert crossings(replace(problem(), transfer_s=given))["a", 1] == (0, float(a))
    pairs = np.zeros((6, 3, 3))
    pairs[a, 0, 1], pairs[a, 1, 0] = 7.0, 3.0
    assert crossings(replace(problem(), transfer_s=pairs))["a", 1] == (0, 7.0)


@pytest.mark.parametrize("machine", ["placeto", "baechi", "moirai", "independent"])
def test_what_comes_from_the_host_takes_no_time_under_other_machines(machine: Machine) -> None:
    taken = crossings(replace(problem(), machine=machine))
    assert {taken["x", 0], taken["w", 1]} == {(-1, 0.0)}


def test_one_device_that_has_all_ops_has_no_latency_to_the_host_if_it_is_called_directly() -> None:
    cluster = make_cluster(2, single_s=0.0, host_latency_s=0.5, host_bytes_per_s=8.0)
    alone = replace(problem(), cluster=cluster, seconds=np.ones((3, 2)))
    assert crossings(alone, np.zeros(3, dtype=np.int32))["x", 0] == (-1, 8 / 8)
    assert crossings(alone)["x", 0] == (-1, 0.5 + 8 / 8)


def test_no_ops_no_transfers() -> None:
    empty = make_problem(make_graph([], []), make_cluster(1), np.zeros((0, 1)))
    transfers = transfers_of(empty, np.zeros(0, dtype=np.int32))
    assert transfers.num_transfers == 0
    assert waits_of(empty, np.zeros(0, dtype=np.int32), transfers).reader_offsets.tolist() == [0]


@pytest.mark.parametrize("seed", range(5))
def test_crossings_and_readers_are_those_of_a_plain_loop(seed: int) -> None:
    rng = np.random.default_rng(seed)
    drawn = random_problem(rng, 40, 3, unlike=True)
    placement = rng.integers(0, 3, 40).astype(np.int32)
    home = rng.integers(-1, 3, drawn.graph.num_values).astype(np.int32)
    drawn = replace(drawn, value_home=home)
    graph, links, cluster = drawn.graph, tabulate(drawn).links, drawn.cluster
    readers: dict[tuple[int, int], list[int]] = {}
    seconds = {}
    for value in range(graph.num_values):
        producer = graph.value_producer[value]
        source = placement[producer] if producer >= 0 else home[value]
        for op in graph.consumers_of(value).tolist():
            target = int(placement[op])
            if target == source:
                continue
            readers.setdefault((value, target), []).append(op)
            size = graph.value_bytes[value]
            link = links[source, target]
            copy_s = cluster.host_latency_s[target] + size / cluster.host_bytes_per_s[target]
            link_s = link["latency"] + size / link["bytes_per_s"]
            seconds[value, target] = copy_s if source < 0 else link_s
    transfers = transfers_of(drawn, placement)
    pairs = list(zip(transfers.value.tolist(), transfers.target.tolist(), strict=True))
    assert pairs == sorted(readers)
    assert transfers.seconds.tolist() == [seconds[pair] for pair in pairs]

    some = rng.permutation(transfers.num_transfers)[: transfers.num_transfers // 2]
    fewer = Transfers(
        value=transfers.value[some],
        target=transfers.target[some],
        source=transfers.source[some],
        seconds=transfers.seconds[some],
    )
    waits = waits_of(drawn, placement, fewer)
    for at, transfer in enumerate(some):
        row = waits.reader_ops[waits.reader_offsets[at] : waits.reader_offsets[at + 1]]
        assert sorted(row.tolist()) == readers[pairs[transfer]]
