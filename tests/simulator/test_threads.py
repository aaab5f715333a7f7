"""Several placements judged at a time come out as one after another."""

import dataclasses
from typing import get_args

import numpy as np
import pytest

from dplace.lowering import Evaluator
from dplace.problem import Machine, Objective
from tests.random_problems import random_problem


@pytest.mark.parametrize("objective", get_args(Objective))
@pytest.mark.parametrize("machine", get_args(Machine))
def test_threads_change_nothing(machine: Machine, objective: Objective) -> None:
    rng = np.random.default_rng(2)
    problem = random_problem(rng, 300, 3, unlike=True, window=9)
    problem = dataclasses.replace(problem, machine=machine, objective=objective)
    placements = list(rng.integers(0, 3, (41, 300)).astype(np.int32))
    evaluator = Evaluator(problem)
    for rule in evaluator.rules:
        alone = [evaluator.score(placement, rule) for placement in placements]
        assert len(set(alone)) > 1 or machine == "dnn-partitioning"
        for threads in (0, 1, 2, 5):
            before = evaluator.evaluations
            assert evaluator.scores(placements, rule, threads=threads) == alone
            assert evaluator.evaluations == before + len(placements)


def test_no_placements_have_no_scores() -> None:
    evaluator = Evaluator(random_problem(np.random.default_rng(0), 5, 2))
    assert evaluator.scores([]) == []
