"""What a trained network proposes for a graph, and which of several networks fits it."""

from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from dplace.policies.placeto.episode import Episode
from dplace.policies.placeto.scorer import Scorer
from dplace.policies.placeto.weights import Weights
from dplace.policies.placeto.world import World, topological

__all__ = ["TIE", "fitting", "kind_of", "propose", "told_kind"]

Placement = NDArray[np.int32]


class Told(Protocol):
    """A policy that tells how it was trained."""

    @property
    def training(self) -> dict[str, Any]:
        """Return what the trainer told."""
        ...


P = TypeVar("P", bound=Told)

EPISODES = 6
"""At most so many are played."""

TIE = 1e-4
"""Difference in logits up to which devices are equal: devices that are alike differ by rounding."""

LEAST_SPREAD = 0.05
"""Kinds closer than this are the same."""


def propose(
    weights: Weights, world: World, *, rng: np.random.Generator, evaluations: int
) -> Placement:
    """Return the best placement of the groups that a few episodes meet.

    The first goes from the world's start in topological order, others, while evaluations are left,
    from the best so far in an order that is drawn; each takes the most probable device every time.
    They end when an episode finds nothing better.

    Args:
        weights: The policy.
        world: What is placed.
        rng: Of the orders.
        evaluations: How many placements may be judged; one episode is played whatever it takes.
    """
    evaluator = world.evaluator
    scorer = Scorer(weights, world.graph)
    episode = Episode(world, rng=rng)
    last = evaluator.evaluations + evaluations
    _play(scorer, episode)
    for _ in range(EPISODES - 1):
        before = episode.best_score
        if evaluator.evaluations >= last:
            break
        episode.reset(start=episode.best, order=rng.permutation(world.num_groups))
        _play(scorer, episode)
        if not episode.best_score < before:
            break
    return episode.best


def _play(scorer: Scorer, episode: Episode) -> None:
    """Play an episode, just reset, to its end by the most probable devices.

    Among equals a group stays where it is, or goes to the lowest: rounding does not choose.
    """
    while not episode.is_over:
        state = episode.seen(is_ahead=scorer.shape.is_ahead)
        logits = scorer.logits(state)
        close = logits >= logits.max() - TIE
        here = int(state.placement[state.current])
        episode.step(here if close[here] else int(close.argmax()))


def kind_of(world: World) -> NDArray[np.float64]:
    """Return some figures that graphs of a family have in common, whatever they run on."""
    graph = world.graph
    place = np.argsort(topological(graph))
    depth = np.zeros(graph.num_groups)
    for source, target in graph.edges[np.argsort(place[graph.edges[:, 0]])].tolist():
        depth[target] = max(depth[target], depth[source] + 1)
    figures = [
        *graph.features[:, :2].mean(axis=0, dtype=np.float64),
        *graph.features[:, :2].std(axis=0, dtype=np.float64),
        len(graph.edges) / graph.num_groups,
        depth.max() / graph.num_groups,
        np.log2(graph.num_groups),
    ]
    return np.array(figures)


def told_kind(worlds: Sequence[World]) -> dict[str, list[float]]:
    """Return what is told of the kind of some graphs in the header of their policy."""
    kinds = np.stack([kind_of(world) for world in worlds])
    return {
        "mean": [round(float(figure), 6) for figure in kinds.mean(axis=0)],
        "spread": [round(float(figure), 6) for figure in kinds.std(axis=0)],
    }


def fitting(policies: Sequence[P], world: World) -> P:
    """Return the policy whose graphs were most likely of a world's kind; the first of equals."""
    here = kind_of(world)

    def surprise(policy: P) -> float:
        try:
            told = policy.training["kind"]
            mean, spread = (np.array(told[name], dtype=np.float64) for name in ("mean", "spread"))
            spread = np.maximum(spread, LEAST_SPREAD)
            return float((0.5 * ((here - mean) / spread) ** 2 + np.log(spread)).sum())
        except (KeyError, TypeError, ValueError):  # it tells no kind
            return np.inf

    return min(policies, key=surprise)
