"""Local search: change a placement a little, keep what is better and sometimes what is not.

Simulated annealing (Kirkpatrick, Gelatt, Vecchi, Science 220, 1983) over the moves of
``moves.py``. What does not fit in memory is worse than anything that does.
"""

import math

import numpy as np
from numpy.typing import NDArray

from dplace.lowering import Evaluator, Rule, Score
from dplace.policies.moves import Moves
from dplace.policies.packing import packing
from dplace.policies.single import single

__all__ = ["improve", "local_search"]

Placement = NDArray[np.int32]

HOT, COLD = 0.02, 0.0003
"""First and last temperature, as a share of the makespan: a move that costs so much more is taken
in one of e cases."""
SEGMENTS = 8
"""After each, the search goes on from the best, with the rule for cutting parts that suits it."""

PATIENCE = 200
"""Draws without a placement that is new after which a search has seen all around it."""


def local_search(evaluator: Evaluator, *, rng: np.random.Generator, evaluations: int) -> Placement:
    """Return the best placement found from the best single device, or from a packing.

    Raises:
        MemoryLimitError: One device does not hold it all, and no packing fits.
    """
    before = evaluator.evaluations
    start = single(evaluator, rng=rng, evaluations=evaluations)
    if evaluator.score(start).overflow_bytes:
        start = packing(evaluator, rng=rng, evaluations=evaluations)
    left = evaluations - (evaluator.evaluations - before)
    return improve(evaluator, start, rng=rng, evaluations=left)


def improve(
    evaluator: Evaluator, start: Placement, *, rng: np.random.Generator, evaluations: int
) -> Placement:
    """Return ``start`` or a better placement.

    Args:
        evaluator: The problem and the simulator.
        start: Shape ``(num_ops,)``; need not fit in memory.
        rng: Of all moves.
        evaluations: Passes of the simulator, at most.
    """
    problem = evaluator.problem
    segments = min(SEGMENTS, evaluations // (4 * len(evaluator.rules)))
    if segments == 0 or problem.num_devices == 1 or problem.num_ops == 0:
        return start
    moves = Moves(problem, rng)
    known: dict[tuple[Rule, bytes], Score] = {}
    begun = evaluator.evaluations
    best = start
    best_score, rule = evaluator.best_rule(start)
    for segment in range(segments):
        until = begun + evaluations * (segment + 1) // segments - len(evaluator.rules)
        shares = (segment / segments, (segment + 1) / segments)
        found = _anneal(evaluator, best, rule, moves, known, rng, until, shares)
        score, found_rule = evaluator.best_rule(found)
        if score < best_score:
            best, best_score, rule = found, score, found_rule
    return best


def _anneal(
    evaluator: Evaluator,
    start: Placement,
    rule: Rule,
    moves: Moves,
    known: dict[tuple[Rule, bytes], Score],
    rng: np.random.Generator,
    until: int,
    shares: tuple[float, float],
) -> Placement:
    """Return the best placement met while cooling from one share of the search to another."""
    current, score = start, evaluator.score(start, rule)
    best, best_score = current, score
    begun = evaluator.evaluations
    budget = max(1, until - begun)
    idle = 0
    # What is known costs nothing, so on a small graph the budget alone would never end this.
    while (spent := evaluator.evaluations - begun) < budget and idle < PATIENCE:
        idle += 1
        move = moves.draw(current)
        if move is None:
            continue
        candidate = current.copy()
        candidate[move.ops] = move.devices
        key = (rule, candidate.tobytes())
        new = known.get(key)
        if new is None:
            idle = 0
            new = known[key] = evaluator.score(candidate, rule)
        share = shares[0] + (shares[1] - shares[0]) * spent / budget
        temperature = HOT * (COLD / HOT) ** share
        if _accepts(new, score, temperature, rng.random()):
            current, score = candidate, new
            if score < best_score:
                best, best_score = current, score
    return best


def _accepts(new: Score, old: Score, temperature: float, draw: float) -> bool:
    """Return whether to go on from ``new``; ``draw`` is uniform between 0 and 1."""
    if new <= old:
        return True
    if new.overflow_bytes > old.overflow_bytes:
        return False
    loss = new.makespan_s / max(old.makespan_s, 1e-30) - 1.0
    # A part more is a loss as well, though a small one, or plateaus would fill with parts.
    loss += 1e-5 * max(0, new.num_parts - old.num_parts)
    return draw < math.exp(-loss / temperature)
