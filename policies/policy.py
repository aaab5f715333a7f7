"""The protocol of policies, the list of them, and ``place``, which asks one."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dplace.bounds import best_bound
from dplace.comm_order import BEST, SEARCHED, Scheduled, check_comm_order, schedule
from dplace.errors import MemoryLimitError, UsageError
from dplace.lowering import Evaluator, Progress
from dplace.placement import check_memory, check_placement
from dplace.policies.auto import Race, auto, best_of, race
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
    """What the objective makes small, in seconds, of each policy that was tried: in the order of
    communication that was asked for, or where that was not tried, first come, first served; ``inf``
    for one that found nothing that fits and runs."""
    comm_order: str = "fifo"
    """The order of communication that was taken."""
    order_scores: dict[str, float] = field(default_factory=dict)
    """What the objective makes small, in seconds, under each order that was tried."""
    is_interrupted: bool = False
    """Whether the search was broken off: this is the best that it had found."""


OPS_OF_PARTS, OPS_ONE_BY_ONE = 6_000_000, 20_000_000
"""Ops that are simulated in about two seconds: by parts, and one by one."""
OPS_OF_ENTRIES = 20_000
"""Ops of the entries of a race for all of which orders of communication are tried."""
MOST_GAIN = 0.1
"""Share that an order takes off a makespan, at most, in what is tried of large graphs."""
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
    comm_order: str = BEST,
    progress: Callable[[Progress], None] | None = None,
) -> Answer:
    """Return the placement that a policy decides on, with its predicted timeline.

    Args:
        problem: What to place, where.
        policy: A name in ``POLICIES``, ``placeto``, or the path of a policy that was learned.
        seed: Of every random choice; equal seeds give equal answers.
        evaluations: Passes of the simulator that the policy may use; by default what takes about
            two seconds. ``auto`` takes some forty before it searches, however few these are. What
            the choice of the order of communication takes is not among them.
        comm_order: The order of communication, one of ``dplace.comm_order.COMM_ORDERS``.
        progress: Is told how a search gets on, several times a second.

    Raises:
        UsageError: There is no such policy or order, or it cannot serve the objective.
        InputError: Some op can go nowhere, or the file of a policy cannot be used.
        MemoryLimitError: Nothing that the policy finds fits.
    """
    decide = policy_named(policy)
    check_comm_order(problem, comm_order)
    if evaluations is None:
        evaluations = default_evaluations(problem)
    evaluator = Evaluator(problem)
    evaluator.progress = progress
    rng = np.random.default_rng(seed)
    if policy != "auto":
        placement = decide(evaluator, rng=rng, evaluations=evaluations)
        used = evaluator.evaluations
        placement = check_placement(problem, placement)
        scheduled = schedule(evaluator, placement, comm_order, seed=seed)
        return _answer(evaluator, placement, scheduled, policy, used, {})
    found = race(evaluator, rng=rng, evaluations=evaluations)
    used = evaluator.evaluations
    ways = _in_order(evaluator, found, BEST if comm_order == SEARCHED else comm_order, seed=seed)
    times = [
        (_time_s(problem, way), name) for way, (_, name, _) in zip(ways, found.entries, strict=True)
    ]
    scores = dict.fromkeys(found.scores, math.inf)
    for (score, name, _), (time_s, _), way in zip(found.entries, times, ways, strict=True):
        if way is None and not score.overflow_bytes and not len(problem.streamed):
            time_s = score.makespan_s  # as it was judged
        scores[name] = min(scores[name], time_s)
    best = best_of(problem, times)
    if ways[best] is None:  # nothing fits, and it is said of one that is there why
        best = next(at for at, way in enumerate(ways) if way is not None)
    placement, way = check_placement(problem, found.entries[best][2]), ways[best]
    assert way is not None
    if comm_order == SEARCHED:
        way = schedule(evaluator, placement, comm_order, seed=seed)
    return _answer(evaluator, placement, way, policy, used, scores)


def _in_order(
    evaluator: Evaluator, found: Race, comm_order: str, *, seed: int
) -> list[Scheduled | None]:
    """Return the entries of a race with the order of communication, None for what is left out.

    Left out is what does not fit or cannot run. Of large graphs so is all but the best of each
    policy, and that too if it is not near the best of all: orders gain some percent at most where
    policies have been at work.
    """
    most = OPS_OF_ENTRIES // max(1, evaluator.problem.num_ops)
    best, scores = found.entries[0][0], found.scores
    scheduled: list[Scheduled | None] = [None] * len(found.entries)
    known: dict[bytes, Scheduled] = {}
    error: MemoryLimitError | None = None
    for at, (score, name, placement) in enumerate(found.entries):
        is_near = score.makespan_s <= best.makespan_s * (1.0 + MOST_GAIN)
        if score.overflow_bytes or not (at < most or (is_near and score == scores[name])):
            continue
        if at and not math.isfinite(score.makespan_s):
            continue  # the best of all, which is the first, says why if it cannot run
        key = placement.tobytes()
        try:
            if key not in known:
                known[key] = schedule(evaluator, placement, comm_order, seed=seed)
        except MemoryLimitError as refusal:
            error = error or refusal
            continue
        scheduled[at] = known[key]
    if error is not None and not known:
        raise error
    return scheduled


def _time_s(problem: Problem, scheduled: Scheduled | None) -> float:
    """Return what the objective makes small, in seconds; ``inf`` for what does not fit."""
    if scheduled is None:
        return math.inf
    try:
        check_memory(problem, scheduled.timeline.peak_bytes)
    except MemoryLimitError:
        return math.inf
    return _objective_s(problem, scheduled)


def answer_for(
    problem: Problem,
    placement: NDArray[np.int32],
    *,
    policy: str,
    comm_order: str = BEST,
    seed: int = 0,
) -> Answer:
    """Return a placement that is given as the answer of ``policy``, a name for reports.

    Raises:
        UsageError: There is no such order of communication.
        InputError: It is no placement of the problem.
        MemoryLimitError: It does not fit.
    """
    check_comm_order(problem, comm_order)
    placement = check_placement(problem, placement)
    evaluator = Evaluator(problem)
    scheduled = schedule(evaluator, placement, comm_order, seed=seed)
    return _answer(evaluator, placement, scheduled, policy, 0, {})


def _objective_s(problem: Problem, scheduled: Scheduled) -> float:
    """Return what the objective makes small, in seconds."""
    timeline = scheduled.timeline
    return timeline.bottleneck_s if problem.objective == "throughput" else timeline.makespan_s


def _answer(
    evaluator: Evaluator,
    placement: NDArray[np.int32],
    scheduled: Scheduled,
    policy: str,
    used: int,
    scores: dict[str, float],
) -> Answer:
    problem, timeline = evaluator.problem, scheduled.timeline
    check_memory(problem, timeline.peak_bytes)
    objective_s = _objective_s(problem, scheduled)
    bound = best_bound(problem, evaluator.tables)
    return Answer(
        policy=policy,
        placement=placement,
        lowered=scheduled.lowered,
        timeline=timeline,
        comm_order=scheduled.comm_order,
        order_scores=scheduled.scores,
        objective_s=objective_s,
        bound_s=bound.seconds,
        bound_argument=bound.argument,
        best_single_device_s=best_single_device_s(evaluator),
        evaluations=used,
        scores={**scores, policy: objective_s},
        is_interrupted=evaluator.is_interrupted,
    )
