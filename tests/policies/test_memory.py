"""What policies count against memory is what the machine's rules count."""

import dataclasses

import numpy as np
import pytest

from dplace.errors import MemoryLimitError
from dplace.lowering import Evaluator
from dplace.placement import check_placement, fitting_devices
from dplace.policies import POLICIES
from dplace.policies.memory import Units, no_room
from dplace.problem import Machine, Problem
from tests.policies.worlds import heavy_chain

# These go by no memory; what they come to is judged all the same.
NAMES = sorted(set(POLICIES) - {"auto", "random", "single"})


def by_rules_of(machine: Machine, problem: Problem) -> Problem:
    """Return a problem under another machine's rules; for dnn-partitioning the last is a CPU."""
    devices = problem.cluster.devices
    if machine == "dnn-partitioning":
        devices = (*devices[:-1], dataclasses.replace(devices[-1], kind="CPU"))
    cluster = dataclasses.replace(problem.cluster, devices=devices)
    return dataclasses.replace(problem, machine=machine, cluster=cluster)


def placed(problem: Problem, name: str) -> list[int]:
    placement = POLICIES[name](Evaluator(problem), rng=np.random.default_rng(0), evaluations=200)
    return [int(device) for device in check_placement(problem, placement)]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("machine", ["placeto", "independent"])
def test_weights_that_do_not_count_are_no_matter(name: str, machine: Machine) -> None:
    placed(by_rules_of(machine, heavy_chain(6, 50)), name)


@pytest.mark.parametrize("name", NAMES)
def test_host_memory_of_dnn_partitioning_has_no_limit(name: str) -> None:
    # No accelerator has room for a single op.
    assert placed(by_rules_of("dnn-partitioning", heavy_chain(6, 50)), name) == [2] * 6


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("machine", ["moirai", "dnn-partitioning"])
def test_values_that_do_not_count_are_no_matter(name: str, machine: Machine) -> None:
    # Each accelerator holds two weights and nothing besides.
    problem = by_rules_of(machine, heavy_chain(6, 200))
    assert max(np.bincount(placed(problem, name), minlength=3)[:2]) <= 2


def test_a_unit_may_go_where_its_weights_fit() -> None:
    problem = heavy_chain(3, [99, 100, 300])
    assert fitting_devices(problem).tolist() == [[False, True, True]] * 3
    problem.graph.colocation[:2] = 7
    assert fitting_devices(problem).tolist() == [[False, False, True]] * 2 + [[False, True, True]]
    independent = by_rules_of("independent", problem)
    assert fitting_devices(independent).all()
    assert not any(Units(independent).bytes)


def test_where_nothing_fits_all_that_is_allowed_is_named() -> None:
    problem = heavy_chain(3, [50, 60, 90])
    assert fitting_devices(problem).all()
    with pytest.raises(MemoryLimitError, match="weights take 300 bytes, all of 3xTEST has 200"):
        raise no_room(problem, None, None)
