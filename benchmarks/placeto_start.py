"""How many evaluations search needs from a zero-shot placement to be as good as without it.

``plain`` is search with the stated budget; ``needed`` the smallest of some budgets at which search
from the policy's placement is as good or better, what the policy took included. Run it as:

    python -m benchmarks.placeto_start --policy my-policy --families cifar10 --json start.json
"""

from statistics import mean
from typing import Any

import numpy as np

from benchmarks.figures import arguments, report
from benchmarks.placeto_worlds import CLUSTER, FAMILIES, judged_s, members, weights_at
from dplace.lowering import Evaluator
from dplace.policies.placeto.policy import propose
from dplace.policies.placeto.weights import Weights
from dplace.policies.placeto.world import World
from dplace.policies.search import improve, search
from dplace.problem import Problem

SHARES = (0.05, 0.1, 0.2, 1 / 3, 0.5, 1.0)
SLACK = 1.001


def main() -> None:
    """Search every test member both ways, with several seeds."""
    options = arguments(
        __doc__ or "",
        policy="",
        families=FAMILIES,
        cluster=CLUSTER,
        count=4,
        seeds=3,
        evaluations=20_000,
    )
    rows = []
    for family in options.families:
        weights = weights_at(options.policy, family)
        for member in members(family, options.cluster, count=options.count):
            rows.append(member.row | row_of(member.problem, weights, options))
            print(rows[-1], flush=True)
    within = mean(float(row["needed"] <= 1 / 3) for row in rows)
    told = {"share of the members that need at most a third": within}
    report("Search from a learned start", rows, told, options.json)


def row_of(problem: Problem, weights: Weights, options: Any) -> dict[str, float]:
    """Return what plain search comes to and what it takes from the policy's placement."""
    plain, learned = [], dict.fromkeys(SHARES, 0.0)
    took = 0
    for seed in range(options.seeds):
        evaluator = Evaluator(problem)
        rng = np.random.default_rng(seed)
        placement = search(evaluator, rng=rng, evaluations=options.evaluations)
        plain.append(judged_s(evaluator, placement))
        world = World(Evaluator(problem))
        begun = world.evaluator.evaluations
        start = world.of_ops(
            propose(weights, world, rng=np.random.default_rng(seed), evaluations=10**9)
        )
        took = world.evaluator.evaluations - begun
        for share in SHARES:
            left = round(share * options.evaluations) - took
            found = start
            if left > 0:
                evaluator = Evaluator(problem)
                rng = np.random.default_rng(seed)
                found = improve(evaluator, [start], rng=rng, evaluations=left)
            learned[share] += judged_s(evaluator, found) / options.seeds
    wanted = SLACK * mean(plain)
    reached = [share for share in SHARES if learned[share] <= wanted]
    return {
        "plain_ms": mean(plain) * 1e3,
        "policy_evaluations": float(took),
        **{f"at {share:.2f}": learned[share] / mean(plain) for share in SHARES},
        "needed": max(reached[0], took / options.evaluations) if reached else float("inf"),
    }


if __name__ == "__main__":
    main()
