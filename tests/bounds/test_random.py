"""No placement of a random world beats its bound, whatever the rules."""

import dataclasses
from typing import get_args

import numpy as np
import pytest

from dplace.bounds import best_bound
from dplace.cluster import Contention
from dplace.problem import Machine, Objective, Problem
from tests.brute_force import optimum_s
from tests.random_problems import TICK, random_problem


def world(rng: np.random.Generator, machine: Machine, objective: Objective) -> Problem:
    """Return a small problem with some of what makes bounds hard."""
    num_devices = int(rng.integers(2, 4))
    problem = random_problem(
        rng,
        int(rng.integers(2, 9 if num_devices == 2 else 6)),
        num_devices,
        contention=get_args(Contention)[rng.integers(5)],
        unlike=bool(rng.random() < 0.5),
        overhead_ticks=int(rng.choice([0, 0, 4, 16])),
        single_ticks=None if rng.random() < 0.7 else int(rng.choice([0, 8])),
        window=int(rng.choice([1, 2, 4])),
        max_kib=int(rng.choice([8, 64])),
    )
    graph, num = problem.graph, num_devices
    transfer_s = None
    if rng.random() < 0.5:
        shape = (graph.num_values, num, num) if rng.random() < 0.5 else (graph.num_values, 1, 1)
        transfer_s = rng.integers(0, 65, shape).astype(np.float64) * TICK
    colocation = np.full(graph.num_ops, -1, dtype=np.int32)
    if rng.random() < 0.4:
        colocation[rng.integers(graph.num_ops, size=3)] = 0
    if rng.random() < 0.3:
        problem.pins[rng.integers(graph.num_ops)] = rng.integers(num)
        problem.pins[colocation == 0] = problem.pins[colocation == 0].max(initial=-1)
    devices = list(problem.cluster.devices)
    total = int(graph.weight_bytes.sum())
    for index in range(num):
        kind = "CPU" if machine == "dnn-partitioning" and rng.random() < 0.4 else "TEST"
        room = 2**40
        if rng.random() < 0.5 and total:
            values = (
                0
                if machine in ("moirai", "dnn-partitioning")
                else int(graph.value_bytes.sum() // 2)
            )
            room = int(total * rng.uniform(0.3, 1.0)) + values + 1
        devices[index] = dataclasses.replace(devices[index], kind=kind, memory_bytes=room)
        if kind == "CPU":
            problem.seconds[:, index] *= rng.choice([1.0, 4.0])
    return dataclasses.replace(
        problem,
        graph=dataclasses.replace(graph, colocation=colocation),
        cluster=dataclasses.replace(problem.cluster, devices=tuple(devices)),
        transfer_s=transfer_s,
        machine=machine,
        objective=objective,
    )


@pytest.mark.parametrize("objective", get_args(Objective))
@pytest.mark.parametrize("machine", get_args(Machine))
def test_no_placement_beats_the_bound(machine: Machine, objective: Objective) -> None:
    for seed in range(25):
        problem = world(np.random.default_rng(seed), machine, objective)
        bound = best_bound(problem)
        assert np.isfinite(bound.seconds)
        assert bound.seconds <= optimum_s(problem), (seed, bound)
