"""What trained policies come to on test members that they have never seen, beside all else.

``--policies`` are files or folders of dplace pretrain, several for several seeds; means and spreads
are over them. Times are told in that of the best single device. ``episode`` is one greedy episode
from the world's start, ``episodes`` what ``--policy PATH`` does, ``from-single`` one episode from
the best single device, ``greedy`` one without a network that goes where the simulator says, and
``search`` the search at the evaluations that ``episodes`` took. Run it as:

    python -m benchmarks.placeto_zero_shot --policies my-policy --families cifar10 --json zero.json
"""

from statistics import mean
from typing import Any

import numpy as np

from benchmarks.figures import arguments, report
from benchmarks.placeto_worlds import (
    CLUSTERS,
    FAMILIES,
    QUICK,
    Member,
    baselines,
    greedy_sweep,
    judged_s,
    members,
    network_at,
    one_episode,
)
from dplace.lowering import Evaluator
from dplace.policies.placeto.checkpoint import weights_of
from dplace.policies.placeto.network import PlacetoNetwork
from dplace.policies.placeto.policy import propose
from dplace.policies.placeto.world import World
from dplace.policies.search import search

LARGE_BUDGET = 20_000


def main() -> None:
    """Judge all policies on all test members."""
    options = arguments(
        __doc__ or "",
        policies=("",),
        families=FAMILIES,
        clusters=CLUSTERS,
        batch=0,
    )
    networks = [network_at(path) for path in options.policies]
    rows = [
        row_of(member, networks)
        for family in options.families
        for cluster in options.clusters
        for member in members(family, cluster, batch=options.batch or None)
    ]
    report("Zero-shot placements, in the time of one device", rows, summary(rows), options.json)


def row_of(member: Member, networks: list[PlacetoNetwork]) -> dict[str, Any]:
    """Return what everything comes to on one member."""
    quick = baselines(member.problem)
    single_s = quick["single"]
    world = World(Evaluator(member.problem))
    evaluator = world.evaluator
    told: dict[str, list[float]] = {"episode": [], "episodes": [], "from-single": []}
    evaluations: list[float] = []
    for seed, network in enumerate(networks):
        for name, start in (("episode", "listed"), ("from-single", "single")):
            devices, _ = one_episode(network, world, start=start)  # type: ignore[arg-type]
            told[name].append(judged_s(evaluator, world.of_ops(devices)) / single_s)
        begun = evaluator.evaluations
        devices = propose(
            weights_of(network), world, rng=np.random.default_rng(seed), evaluations=10**9
        )
        evaluations.append(evaluator.evaluations - begun)
        told["episodes"].append(judged_s(evaluator, world.of_ops(devices)) / single_s)
    budget = max(1, round(mean(evaluations)))
    fresh = Evaluator(member.problem)
    found = {
        name: judged_s(fresh, search(fresh, rng=np.random.default_rng(0), evaluations=count))
        for name, count in (("search", budget), ("search-large", LARGE_BUDGET))
    }
    best = min(quick[name] for name in QUICK) / single_s
    return member.row | {
        "ops": member.problem.num_ops,
        "groups": world.num_groups,
        "bound": quick["bound"] / single_s,
        **{name: quick[name] / single_s for name in QUICK[1:]},
        "greedy": judged_s(evaluator, world.of_ops(greedy_sweep(world))) / single_s,
        **{name: mean(values) for name, values in told.items()},
        "spread": max(told["episode"]) - min(told["episode"]),
        "evaluations": budget,
        **{name: seconds / single_s for name, seconds in found.items()},
        "over-best": mean(told["episodes"]) / best,
    }


def summary(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Return the means over the members of each family."""
    told: dict[str, float] = {}
    for family in dict.fromkeys(row["family"] for row in rows):
        own = [row for row in rows if row["family"] == family]
        told[f"{family}: members with a bound of at most 0.6"] = mean(
            float(row["bound"] <= 0.6) for row in own
        )
        for name in ("greedy", "episode", "episodes", "from-single", "search", "search-large"):
            ratios = [row[name] / min(1.0, *(row[quick] for quick in QUICK[1:])) for row in own]
            told[f"{family}: {name} over the best of {', '.join(QUICK)}"] = mean(ratios)
    return told


if __name__ == "__main__":
    main()
