"""What the benchmarks of learned policies share: test members, baselines and episodes."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dplace.api_learn_models import FAMILY_DIMS
from dplace.api_model import model_problem
from dplace.bounds import best_bound
from dplace.errors import MemoryLimitError
from dplace.graph_io.families import SplitName, generate
from dplace.lowering import Evaluator
from dplace.policies.learned import policy_file
from dplace.policies.placeto.batch import make_batch
from dplace.policies.placeto.checkpoint import load_policy
from dplace.policies.placeto.episode import Episode, EpisodeRules, Start
from dplace.policies.placeto.network import PlacetoNetwork
from dplace.policies.placeto.rollout import play
from dplace.policies.placeto.weights import Weights, read_weights
from dplace.policies.placeto.world import World, topological
from dplace.policies.policy import POLICIES
from dplace.problem import Problem

__all__ = [
    "CLUSTER",
    "CLUSTERS",
    "FAMILIES",
    "QUICK",
    "Member",
    "baselines",
    "greedy_sweep",
    "judged_s",
    "members",
    "network_at",
    "one_episode",
    "weights_at",
]

Placement = NDArray[np.int32]

FAMILIES = ("cifar10", "ptb", "nmt")
"""Those of the paper, and what benchmarks take where nothing is said."""
CLUSTERS = ("2xV100", "4xV100")
CLUSTER = CLUSTERS[1]
"""Of the benchmarks that take one."""
QUICK = ("single", "metis", "heft", "m-etf", "m-sct")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Member:
    """A model of a family on a cluster."""

    family: str
    name: str
    cluster: str
    problem: Problem

    @property
    def row(self) -> dict[str, Any]:
        """Return what names it in a table."""
        return {"family": self.family, "member": self.name, "cluster": self.cluster}


@cache
def _problems(
    family: str, cluster: str, split: SplitName, batch: int, count: int | None
) -> tuple[tuple[str, Problem], ...]:
    found = []
    for name, model in generate(family, seed=0, split=split, count=count):
        with model_problem(
            model,
            cluster=cluster,
            dims={"batch": batch},
            pins=[],
            optimize="portable",
            opt_level="all",
        ) as made:
            found.append((name, made.problem))
    return tuple(found)


def members(
    family: str,
    cluster: str,
    split: SplitName = "test",
    *,
    batch: int | None = None,
    count: int | None = None,
) -> Iterator[Member]:
    """Yield members of a family on a cluster, by default all of the split."""
    for name, problem in _problems(
        family, cluster, split, batch or FAMILY_DIMS[family]["batch"], count
    ):
        yield Member(family=family, name=name, cluster=cluster, problem=problem)


def _file(path: str, family: str) -> Path:
    return policy_file(Path(path.replace("FAMILY", family)))


def network_at(path: str, family: str = "") -> PlacetoNetwork:
    """Return the network of a policy, named as for ``weights_at``."""
    return load_policy(_file(path, family)).network


def weights_at(path: str, family: str = "") -> Weights:
    """Return a policy from its file or folder; ``FAMILY`` in the path stands for the family."""
    return read_weights(_file(path, family))


def judged_s(evaluator: Evaluator, placement: Placement) -> float:
    """Return the makespan under the best rule in seconds; ``inf`` if it does not fit."""
    score, _ = evaluator.best_rule(placement)
    return float("inf") if score.overflow_bytes else score.makespan_s


def baselines(problem: Problem) -> dict[str, float]:
    """Return the makespan of every quick policy, and the lower bound, in seconds."""
    evaluator = Evaluator(problem)
    found: dict[str, float] = {}
    for name in QUICK:
        try:
            placement = POLICIES[name](evaluator, rng=np.random.default_rng(0), evaluations=1000)
            found[name] = judged_s(evaluator, placement)
        except MemoryLimitError:
            found[name] = float("inf")
    found["bound"] = best_bound(problem, evaluator.tables).seconds
    return found


def greedy_sweep(world: World) -> Placement:
    """Return what one episode comes to that goes where the simulator says, with nothing learned.

    It is shown the same as a policy that looks ahead, at the same evaluations.
    """
    devices = world.start.copy()
    for group in topological(world.graph).tolist():
        devices[group] = int(
            np.where(
                world.graph.allowed[group], world.ahead(devices, group), np.float32(np.inf)
            ).argmin()
        )
    return min((devices, world.start), key=lambda one: world.outcome(one).score)


def one_episode(
    network: PlacetoNetwork,
    world: World,
    *,
    start: Start = "listed",
    order: NDArray[np.int64] | None = None,
) -> tuple[Placement, dict[str, float]]:
    """Return the best placement of the groups in one greedy episode; evaluations and seconds."""
    rules = EpisodeRules(start=start)
    evaluations, begun = world.evaluator.evaluations, time.perf_counter()
    episode = Episode(world, rules, rng=np.random.default_rng(0))
    episode.reset(order=order)
    if start == "single":  # the start of the world is not what this one begins with
        episode.best, episode.best_score = world.single, world.outcome(world.single).score
    play(network, make_batch([world.graph]), [episode], generator=None)
    told = {
        "evaluations": float(world.evaluator.evaluations - evaluations),
        "seconds": time.perf_counter() - begun,
    }
    return episode.best, told
