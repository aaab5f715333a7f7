"""The compiled machines agree with the slow ones, whatever the graph, the costs and the links."""

from dataclasses import replace
from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dplace.cluster import Cluster, Contention
from dplace.problem import Machine, Objective, Problem
from tests.random_problems import TICK, random_problem
from tests.simulator.agreement import assert_agreement

MACHINES: tuple[Machine, ...] = get_args(Machine)


def draw_world(
    machine: Machine,
    objective: Objective,
    seed: int,
    num_ops: int,
    num_devices: int,
    contention: Contention,
    unlike: bool,
    window: int | None,
    given_times: str,
    max_ticks: int,
    in_order: bool,
) -> tuple[Problem, list[int]]:
    """Return a problem in ticks, so that ties are common, and a placement.

    A placement ``in_order`` has no circle of blocks: no device feeds one of a lower index.
    """
    rng = np.random.default_rng(seed)
    problem = random_problem(
        rng,
        num_ops,
        num_devices,
        contention=contention,
        unlike=unlike,
        max_ticks=max_ticks,
        overhead_ticks=0 if machine == "native" else 8,
        window=window,
    )
    shape = (problem.graph.num_values, num_devices, num_devices)
    if given_times == "one":
        shape = (problem.graph.num_values, 1, 1)
    times = (rng.integers(0, 1 + max_ticks // 2, shape) * TICK).astype(np.float64)
    if given_times == "pairs":
        times *= 1.0 - np.eye(num_devices)
    problem = replace(
        problem,
        cluster=draw_cluster(rng, problem.cluster, unlike, machine),
        objective=objective,
        machine=machine,
        transfer_s=None if given_times == "none" else times,
    )
    placement = rng.integers(0, num_devices, num_ops)
    return problem, (np.sort(placement) if in_order else placement).tolist()


def draw_cluster(
    rng: np.random.Generator, cluster: Cluster, unlike: bool, machine: Machine
) -> Cluster:
    """Return the devices with small memories, some of them CPUs, and other links for each pair."""
    count = cluster.num_devices
    devices = tuple(
        replace(
            device,
            kind=str(rng.choice(["CPU", "GPU", "GPU"])),
            memory_bytes=1024 * int(rng.integers(1, 128)),
        )
        for device in cluster.devices
    )
    factor = 2.0 ** rng.integers(0, 3, (count, count)) if unlike else np.ones((count, count))
    host = (2.0 ** rng.integers(0, 3, count)).astype(np.float64)
    native = machine == "native"  # whose parts are single ops only where the host is free
    return replace(
        cluster,
        devices=devices,
        latency_s=cluster.latency_s * factor,
        bytes_per_s=cluster.bytes_per_s / factor,
        host_latency_s=host * (0.0 if native else 2 * TICK),
        host_bytes_per_s=(np.inf if native else 1024 / TICK) / host,
    )


def worlds(machine: Machine, objective: Objective) -> st.SearchStrategy[tuple[Problem, list[int]]]:
    return st.builds(
        draw_world,
        st.just(machine),
        st.just(objective),
        seed=st.integers(0, 2**32 - 1),
        num_ops=st.integers(1, 30),
        num_devices=st.integers(1, 4),
        contention=st.sampled_from(get_args(Contention)),
        unlike=st.booleans(),
        window=st.sampled_from([None, 3, 8]),
        given_times=st.sampled_from(["none", "one", "pairs"]),
        max_ticks=st.sampled_from([0, 2, 8, 64]),
        in_order=st.booleans(),
    )


@pytest.mark.parametrize("objective", get_args(Objective))
@pytest.mark.parametrize("machine", MACHINES)
def test_every_op_and_transfer_is_where_the_reference_has_it(
    machine: Machine, objective: Objective
) -> None:
    @settings(max_examples=200, deadline=None)
    @given(world=worlds(machine, objective))
    def agrees(world: tuple[Problem, list[int]]) -> None:
        assert_agreement(*world)

    agrees()
