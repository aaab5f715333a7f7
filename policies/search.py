"""search: many starts, annealed in compiled code, the promising ones longer.

Simulated annealing (Kirkpatrick, Gelatt, Vecchi, Science 220, 1983) over the moves of
``dplace/simulator/search_moves.py``. A walk ends somewhere near its start, so the budget goes to
several: first a little to each of the best starts, then more to the best of what came out, at last
to the very best. What does not fit in memory is worse than anything that does.

Where there are few evaluations for each op, ops move in groups first, few and large ones, then
finer ones (``coarse.py``), and at last one by one. The walks are colder there, for there is no time
to come back from where a hot one leads.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dplace.errors import MemoryLimitError
from dplace.lowering import Evaluator
from dplace.placement import movable_units
from dplace.policies.coarse import coarsen, list_schedules, onto
from dplace.policies.heft import heft
from dplace.policies.m_etf import m_etf
from dplace.policies.memory import no_room
from dplace.policies.packing import packing
from dplace.policies.single import single
from dplace.policies.splits import splits
from dplace.policies.walk import Walker
from dplace.problem import Problem
from dplace.rules import Rule, Score

__all__ = ["improve", "search"]

Placement = NDArray[np.int32]


class Candidate(NamedTuple):
    """A placement that was judged."""

    score: Score
    rule: Rule
    placement: Placement


class Stage(NamedTuple):
    """Some annealings with a share of the budget."""

    share: float
    """Of the evaluations."""
    width: int
    """How many candidates go on, the best first."""
    hot: tuple[float, ...]
    """First temperatures, by turns, as shares of the makespan."""
    cold: float
    slope: float
    """How much of the norm of all loads is mixed with the largest, where loads count."""
    num_rules: int
    """How many of the rules that suit a candidate best are used, by turns."""
    grain: int = 0
    """Into about how many groups ops are tied; 0 for none, each on its own."""


STAGES = {
    "latency": (
        Stage(0.40, 6, (0.1, 0.03), 1e-3, 0.0, 1),
        Stage(0.35, 2, (0.03, 0.015), 3e-4, 0.0, 2),
        Stage(0.25, 1, (0.006,), 5e-5, 0.0, 1),
    ),
    "throughput": (
        Stage(0.40, 8, (0.05, 0.02, 0.01), 5e-4, 0.1, 1),
        Stage(0.35, 3, (0.02, 0.01, 0.005), 1e-4, 0.1, 1),
        Stage(0.25, 1, (0.004,), 3e-5, 0.02, 1),
    ),
}
COARSE_STAGES = {
    "latency": (
        Stage(0.3, 4, (0.01, 0.003), 3e-5, 0.0, 1, 128),
        Stage(0.3, 2, (0.003, 0.002), 1e-5, 0.0, 1, 256),
        Stage(0.4, 1, (0.002,), 1e-5, 0.0, 1),
    ),
    "throughput": (
        Stage(0.3, 4, (0.01, 0.003), 3e-5, 0.1, 1, 128),
        Stage(0.3, 2, (0.003, 0.002), 1e-5, 0.1, 1, 256),
        Stage(0.4, 1, (0.002,), 1e-5, 0.02, 1),
    ),
}
"""Where evaluations are few."""
STREAM_STAGES = (
    Stage(0.30, 6, (0.05, 0.02), 1e-3, 0.1, 1, 48),
    Stage(0.30, 4, (0.03, 0.01), 3e-4, 0.1, 1, 96),
    Stage(0.25, 3, (0.02, 0.01), 1e-4, 0.1, 1),
    Stage(0.15, 1, (0.004,), 3e-5, 0.02, 1),
)
"""For throughput of many ops where evaluations are not few: loads have deep local optima, in which
ops alone stay however hot their walk begins."""
LEAST_UNITS = 256
"""Ops, or units of co-located ones, up to which there is nothing to coarsen."""
MOST_PER_UNIT = 250
"""Evaluations for each of them from which groups no longer pay."""
LEAST_COARSE = 1000
"""Evaluations below which there are too few for groups as well."""
LEAST_OF_STREAM, MOST_PER_UNIT_OF_STREAM = 128, 1500
"""Units above which, and evaluations for each up to which, ``STREAM_STAGES`` are used."""
LEAST_STEPS = 20
"""A walk of fewer steps is not worth its start."""


def search(evaluator: Evaluator, *, rng: np.random.Generator, evaluations: int) -> Placement:
    """Return the best placement that annealing from several starts finds.

    Raises:
        MemoryLimitError: Nothing that fits was found.
    """
    begun = evaluator.evaluations
    starts = [single(evaluator, rng=rng, evaluations=evaluations)]
    try:
        starts += splits(evaluator)
        for policy in (heft, m_etf, packing):
            with suppress(MemoryLimitError):
                starts.append(policy(evaluator, rng=rng, evaluations=evaluations))
    except KeyboardInterrupt:
        evaluator.is_interrupted = True
    left = evaluations - (evaluator.evaluations - begun)
    best = improve(evaluator, starts, rng=rng, evaluations=left)
    overflow = evaluator.overflow_bytes(best)
    if overflow.any():
        raise no_room(evaluator.problem, evaluator.score(best), overflow)
    return best


def improve(
    evaluator: Evaluator,
    starts: Sequence[Placement],
    *,
    rng: np.random.Generator,
    evaluations: int,
) -> Placement:
    """Return the best of ``starts`` or a better placement.

    An interruption ends the search, not the program: the best so far is returned. After one that
    came before, that is the best of ``starts``.

    Args:
        evaluator: The problem and the simulator.
        starts: Placements of shape ``(num_ops,)``; they need not fit in memory.
        rng: Of all moves.
        evaluations: Passes of the simulator; each start and the rules take some besides.
    """
    rules, begun = evaluator.rules, evaluator.evaluations
    evaluator.expect(evaluations)
    problem = evaluator.problem
    was_interrupted = evaluator.is_interrupted
    if problem.num_devices == 1 or problem.num_ops == 0 or was_interrupted:
        return _best(evaluator, starts, rules, 1)[0].placement
    found: list[Candidate] = []
    try:
        stages = _stages(problem, evaluations)
        views = {0: problem} | coarsen(evaluator, [stage.grain for stage in stages if stage.grain])
        for view in list(views.values())[1:]:
            starts = [*starts, *list_schedules(evaluator, view)]
        most = max(1, min(stages[0].width, evaluations // (10 * len(rules))))
        pool = _best(evaluator, starts, rules, most)
        found.append(pool[0])
        left = evaluations - (evaluator.evaluations - begun)
        walker = Walker(evaluator, rng, pool[0].placement)
        for stage in stages if left >= LEAST_STEPS else ():
            best = min(found, key=lambda candidate: candidate.score)
            pool = _grown(evaluator, walker, stage, views[stage.grain], pool, best, left)
            found.append(pool[0])
            if evaluator.is_interrupted:
                break
    except KeyboardInterrupt:
        evaluator.is_interrupted = True
        found = found or _best(evaluator, starts, rules, 1)
    return min(found, key=lambda candidate: candidate.score).placement


def _grown(
    evaluator: Evaluator,
    walker: Walker,
    stage: Stage,
    view: Problem,
    pool: list[Candidate],
    best: Candidate,
    left: int,
) -> list[Candidate]:
    """Return what a stage makes of the candidates, best first; they stay if it is too short."""
    rules = evaluator.rules
    width = min(stage.width, len(pool))
    # What comes out is judged by every rule, and some walks begin with that.
    steps = int(left * stage.share / width) - 2 * (len(rules) + 1) - len(rules)
    if steps < LEAST_STEPS:
        return pool
    walker.tie(view)
    if stage.grain:
        pool = _best(evaluator, [onto(view, c.placement) for c in pool], rules, width)
    grown: list[Placement] = []
    try:
        for index, candidate in enumerate(pool[:width]):
            rule = candidate.rule
            if index % stage.num_rules:
                ranked = sorted(rules, key=lambda rule: evaluator.score(candidate.placement, rule))
                rule = ranked[index % min(len(ranked), stage.num_rules)]
            grown.append(
                walker.anneal(
                    candidate.placement,
                    rule,
                    steps=steps,
                    hot=stage.hot[index % len(stage.hot)],
                    cold=stage.cold,
                    slope=stage.slope,
                )
            )
    except KeyboardInterrupt:
        evaluator.is_interrupted = True
        grown.append(walker.best)
    # Groups seldom come to what the best start is before they are refined.
    kept = [] if stage.grain else [best.placement]
    # All of them by every rule: the first may think little of what another has led to.
    return _best(evaluator, [*kept, *grown], rules, stage.width + 1)


def _stages(problem: Problem, evaluations: int) -> tuple[Stage, ...]:
    """Return how to spend a budget on a problem."""
    num_units = int(movable_units(problem).max()) + 1
    if evaluations >= LEAST_COARSE:
        if num_units > LEAST_UNITS and evaluations <= MOST_PER_UNIT * num_units:
            return COARSE_STAGES[problem.objective]
        is_stream = problem.objective == "throughput" and num_units > LEAST_OF_STREAM
        if is_stream and evaluations <= MOST_PER_UNIT_OF_STREAM * num_units:
            return STREAM_STAGES
    return STAGES[problem.objective]


def _best(
    evaluator: Evaluator, placements: Sequence[Placement], rules: Sequence[Rule], count: int
) -> list[Candidate]:
    """Return the best of the placements that differ, under the best of the rules."""
    differ = list({placement.tobytes(): placement for placement in placements}.values())
    # One rule tells well enough which are worth trying all of them.
    scores = evaluator.scores(differ, rules[0])
    first = [differ[at] for at in sorted(range(len(differ)), key=lambda at: scores[at])]
    found = [
        Candidate(*evaluator.best_rule(placement, rules), placement) for placement in first[:count]
    ]
    return sorted(found, key=lambda candidate: candidate.score)
