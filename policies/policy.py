"""The protocol of policies, the list of them, and ``place``, which asks one."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dplace.bounds import best_bound
from dplace.errors import UsageError
from dplace.lowering import Evaluator, Progress
from dplace.placement import check_placement
from dplace.policies.auto import auto, race
from dplace.policies.critical_path import critical_path
from dplace.policies.exhaustive import exhaustive
from dplace.policies.heft import heft
from dplace.policies.learned import PLACETO, Learned, is_policy_path
from dplace.policies.m_etf import m_etf
from dplace.policies.m_sct import m_sct
from dplace.policies.m_topo import m_topo
from dplace.policies.metis import metis
from dplace.policies.packing import packing
from dplace.policies.random_placement import random_placement
from dplace.policies.search import search
from dplace.policies.single import best_single_device_s, single
from dplace.problem import Problem
from dplace.simulator.timeline import Lowered, Timeline

__all__ = [
    "POLICIES",
    "Answer",
    "Policy",
    "answer_for",
    "default_evaluations",
    "place",
    "policy_named",
]


class Policy(Protocol):
    """Anything that places the ops of a problem."""

    def __call__(
        self, evaluator: Evaluator, *, rng: np.random.Generator, evaluations: int
    ) -> NDArray[np.int32]:
        """Return a device for each op, shape ``(num_ops,)``.

        Args:
            evaluator: The problem, and the simulator that judges and counts.
            rng: The only source of chance.
            evaluations: How often the policy may ask the simulator; few policies do.

        Raises:
            MemoryLimitError: The policy finds nothing that fits.
        """
        ...


POLICIES: dict[str, Policy] = {
    "auto": auto,
    "critical-path": critical_path,
    "exhaustive": exhaustive,
    "heft": heft,
    "m-etf": m_etf,
    "m-sct": m_sct,
    "m-topo": m_topo,
    "metis": metis,
    "packing": packing,
    PLACETO: Learned(),
    "random": random_placement,
    "search": search,
    "single": single,
}
"""Every policy that needs no file, by the name that ``--policy`` takes."""


def policy_named(name: str) -> Policy:
    """Return a policy by its name, or by the path of one that was learned.

    Raises:
        UsageError: It is neither.
    """
    if name in POLICIES:
        return POLICIES[name]
    if is_policy_path(name):
        return Learned(Path(name))
    raise UsageError(
        f"no policy {name!r}; there are {', '.join(sorted(POLICIES))}, and paths of "
        "policies that dplace pretrain or finetune wrote"
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Answer:
    """What a policy decided, and how good that is."""

    policy: str
    placement: NDArray[np.int32]
    """Shape ``(num_ops,)``: the device of each op."""
    lowered: Lowered
    timeline: Timeline
    objective_s: float
    """What the objective makes small: the makespan, or the bottleneck of a stream."""
    bound_s: float
    """No placement is faster than this."""
    bound_argument: str
    """Which argument gave the bound: see ``dplace/bounds/best.py``."""
    best_single_device_s: float
    """Makespan on the best device alone, pins left aside; ``inf`` if no device holds it all."""
    evaluations: int
    """Passes of the simulator that the policy used."""
    scores: dict[str, float]
    """Makespan in seconds of each policy that was tried; ``inf`` for one that found nothing."""
    is_interrupted: bool = False
    """Whether the search was broken off: this is the best that it had found."""


OPS_OF_PARTS, OPS_ONE_BY_ONE = 6_000_000, 20_000_000
"""Ops that are simulated in about two seconds: by parts, and one by one."""
MOST_EVALUATIONS = 50_000


def default_evaluations(problem: Problem) -> int:
    """Return a budget that keeps the search of ``place`` to about two seconds."""
    from dplace.simulator.engine import takes_ops_one_by_one

    num_ops = OPS_ONE_BY_ONE if takes_ops_one_by_one(problem) else OPS_OF_PARTS
    return max(40, min(MOST_EVALUATIONS, num_ops // max(1, problem.num_ops)))


def place(
    problem: Problem,
    policy: str = "auto",
    *,
    seed: int = 0,
    evaluations: int | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Answer:
    """Return the placement that a policy decides on, with its predicted timeline.

    Args:
        problem: What to place, where.
        policy: A name in ``POLICIES``, ``placeto``, or the path of a policy that was learned.
        seed: Of every random choice; equal seeds give equal answers.
        evaluations: Passes of the simulator that the policy may use; by default what takes about
            two seconds. ``auto`` takes some forty before it searches, however few these are.
        progress: Is told how a search gets on, several times a second.

    Raises:
        UsageError: There is no such policy, or it cannot serve the objective.
        InputError: Some op can go nowhere, or the file of a policy cannot be used.
        MemoryLimitError: Nothing that the policy finds fits.
    """
    decide = policy_named(policy)
    if evaluations is None:
        evaluations = default_evaluations(problem)
    evaluator = Evaluator(problem)
    evaluator.progress = progress
    rng = np.random.default_rng(seed)
    if policy != "auto":
        placement = decide(evaluator, rng=rng, evaluations=evaluations)
        return _answer(evaluator, placement, policy, {})
    found = race(evaluator, rng=rng, evaluations=evaluations)
    scores = {
        name: math.inf if score.overflow_bytes else score.makespan_s
        for name, score in found.scores.items()
    }
    return _answer(evaluator, found.placement, policy, scores)


def answer_for(problem: Problem, placement: NDArray[np.int32], *, policy: str) -> Answer:
    """Return a placement that is given as the answer of ``policy``, a name for reports.

    Raises:
        InputError: It is no placement of the problem.
        MemoryLimitError: It does not fit.
    """
    return _answer(Evaluator(problem), placement, policy, {})


def _answer(
    evaluator: Evaluator,
    placement: NDArray[np.int32],
    policy: str,
    scores: dict[str, float],
) -> Answer:
    problem, used = evaluator.problem, evaluator.evaluations
    placement = check_placement(problem, placement)
    lowered, timeline = evaluator.lower(placement)
    objective_s = timeline.makespan_s
    if problem.objective == "throughput":
        objective_s = timeline.bottleneck_s
    bound = best_bound(problem, evaluator.tables)
    return Answer(
        policy=policy,
        placement=placement,
        lowered=lowered,
        timeline=timeline,
        objective_s=objective_s,
        bound_s=bound.seconds,
        bound_argument=bound.argument,
        best_single_device_s=best_single_device_s(evaluator),
        evaluations=used,
        scores={**scores, policy: objective_s},
        is_interrupted=evaluator.is_interrupted,
    )
