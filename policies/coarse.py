"""Coarse views of a problem, for a search with few evaluations: groups of ops that move as one.

A thousand ops are too many to anneal with a few thousand evaluations; a hundred groups are not, and
what they come to is a start for the finer groups that they were merged from, and at last for ops.
Multilevel partitioning works so (Karypis, Kumar, SIAM Journal on Scientific Computing 20(1), 1998).
"""

from collections.abc import Sequence
from contextlib import suppress

import numpy as np
from numpy.typing import NDArray

from dplace.errors import MemoryLimitError
from dplace.lowering import Evaluator
from dplace.placement import repair
from dplace.policies.grouping import group_ops, grouped
from dplace.policies.heft import heft_of_groups
from dplace.policies.m_etf import etf_of_groups
from dplace.problem import Problem

__all__ = ["coarsen", "list_schedules", "onto"]

Placement = NDArray[np.int32]


def coarsen(evaluator: Evaluator, grains: Sequence[int]) -> dict[int, Problem]:
    """Return the problem with ops tied to groups, for each number of groups.

    Each grouping is merged from the next finer one, so a placement of groups is one of theirs too.
    """
    found: dict[int, Problem] = {}
    group: Placement | None = None
    for grain in sorted(grains, reverse=True):
        group = group_ops(evaluator, grain, whole=group)
        found[grain] = grouped(evaluator.problem, group)
    return found


def list_schedules(evaluator: Evaluator, coarse: Problem) -> list[Placement]:
    """Return the placements of a coarse problem by HEFT and m-ETF, as far as there are any."""
    found: list[Placement] = []
    for schedule in (heft_of_groups, etf_of_groups):
        with suppress(MemoryLimitError):
            found.append(schedule(evaluator, coarse.graph.colocation))
    return found


def onto(coarse: Problem, placement: Placement) -> Placement:
    """Return the placement with each group where it spends most time already."""
    group = coarse.graph.colocation
    seconds = np.where(np.isfinite(coarse.seconds), coarse.seconds, 0.0).mean(axis=1)
    share = np.zeros((int(group.max(initial=-1)) + 1, coarse.num_devices))
    # Where nothing takes time, the number of ops decides.
    np.add.at(share, (group, placement), seconds + 1e-15)
    return repair(coarse, share.argmax(axis=1).astype(np.int32)[group])
