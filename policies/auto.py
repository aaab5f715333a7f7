"""auto: the best of the quick policies, improved by search; one device where that is best."""

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dplace.errors import MemoryLimitError
from dplace.lowering import Evaluator, Score
from dplace.placement import counted_bytes
from dplace.policies.heft import heft_of_groups
from dplace.policies.learned import PLACETO, proposal
from dplace.policies.m_etf import etf_of_groups
from dplace.policies.memory import first_that_fits, no_room
from dplace.policies.packing import packing
from dplace.policies.regions import cluster
from dplace.policies.search import improve
from dplace.policies.single import single
from dplace.policies.splits import splits
from dplace.problem import Problem

__all__ = ["Race", "auto", "best_of", "race"]

Placement = NDArray[np.int32]
Entry = tuple[Score, str, Placement]

GRAINS = (1.0, 4.0, 16.0)
"""Least work of a cluster, in calls of a part, for list scheduling cluster by cluster."""


LEAST_GAIN = 0.05
"""Share by which parts must be faster than one device where times were measured here: predictions
are right to some 5 %, and they err by saying that parts are faster than they are."""


class Race(NamedTuple):
    """What the quick policies and the search came to."""

    entries: tuple[Entry, ...]
    """Score, policy and placement; those of ``auto``, the best of all, first."""

    @property
    def scores(self) -> dict[str, Score]:
        """Return the best score of each policy, memory overflow included."""
        found: dict[str, Score] = {}
        for score, name, _ in self.entries:
            found[name] = min(found.get(name, score), score)
        return found


def auto(evaluator: Evaluator, *, rng: np.random.Generator, evaluations: int) -> Placement:
    """Return the best placement of ``race``."""
    entries = race(evaluator, rng=rng, evaluations=evaluations).entries
    times = [
        (math.inf if score.overflow_bytes else score.makespan_s, name) for score, name, _ in entries
    ]
    return entries[best_of(evaluator.problem, times)][2]


def best_of(problem: Problem, times: Sequence[tuple[float, str]]) -> int:
    """Return the index of the entry to take.

    That is the best one, or one device where parts gain too little to be relied on.

    Args:
        problem: Tells whether times were measured.
        times: Of each entry what the objective makes small, in seconds, and its policy.
    """
    best = min(range(len(times)), key=lambda at: times[at][0])
    alone = [at for at, (_, name) in enumerate(times) if name == "single"]
    if problem.measured.any() and times[alone[0]][0] <= times[best][0] * (1.0 + LEAST_GAIN):
        return alone[0]
    return best


def race(evaluator: Evaluator, *, rng: np.random.Generator, evaluations: int) -> Race:
    """Return the best placement of several policies, improved by search.

    Raises:
        MemoryLimitError: Nothing that fits was found.
    """
    begun = evaluator.evaluations
    problem = evaluator.problem
    rules = evaluator.rules
    # With a small budget most of it should go into the search, not into ways of cutting.
    if evaluations < 20 * len(rules):
        rules = rules[:4]
    entries: list[Entry] = []
    capacity = sum(evaluator.engine.capacity.tolist())
    if int(counted_bytes(problem).weights.sum()) > capacity:
        raise no_room(problem, None, None)

    def enter(name: str, placement: Placement) -> None:
        entries.append((evaluator.best_rule(placement, rules)[0], name, placement))

    enter("single", single(evaluator, rng=rng, evaluations=evaluations))
    try:
        for name, placement in _others(evaluator, entries, rng=rng, evaluations=evaluations):
            enter(name, placement)
    except KeyboardInterrupt:
        evaluator.is_interrupted = True
    left = evaluations - (evaluator.evaluations - begun) - len(evaluator.rules)
    starts = [placement for _, _, placement in sorted(entries, key=lambda entry: entry[0])]
    best = improve(evaluator, starts, rng=rng, evaluations=left)
    score, _ = evaluator.best_rule(best)
    # With a small budget the search does not look at every start under every rule.
    score, _, best = min(
        (score, "auto", best), min(entries, key=lambda entry: entry[0]), key=lambda entry: entry[0]
    )
    if score.overflow_bytes:
        raise no_room(problem, score, evaluator.overflow_bytes(best))
    return Race(((score, "auto", best), *entries))


def _others(
    evaluator: Evaluator,
    entries: Sequence[Entry],
    *,
    rng: np.random.Generator,
    evaluations: int,
) -> Iterator[tuple[str, Placement]]:
    """Yield what quick policies beside one device propose; ``entries`` are those before."""
    problem = evaluator.problem
    if problem.num_devices == 1 or problem.num_ops == 0:
        return
    call_s = max(device.call_overhead_s for device in problem.cluster.devices)
    grain_s = call_s + float(problem.cluster.latency_s.max())
    # Where neither costs anything, every cluster of that work would be an op.
    work_s = tuple(grain * grain_s for grain in GRAINS) if grain_s else ()
    groupings = cluster(problem, work_s)[1]
    for name, schedule in (("heft", heft_of_groups), ("m-etf", etf_of_groups)):
        for group in (None, *groupings):
            with suppress(MemoryLimitError):
                yield name, first_that_fits(evaluator, partial(schedule, evaluator, group))
    if min(entry[0] for entry in entries).overflow_bytes:
        with suppress(MemoryLimitError):
            yield "packing", packing(evaluator, rng=rng, evaluations=evaluations)
    if found := splits(evaluator):
        scores_of = evaluator.scores(found)
        yield "splits", found[min(range(len(found)), key=lambda at: scores_of[at])]
    if (learned := proposal(evaluator, rng=rng, evaluations=evaluations)) is not None:
        yield PLACETO, learned
