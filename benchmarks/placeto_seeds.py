"""How much what a policy comes to depends on the seed of its training: means over test members.

``--policies`` are files or folders, one a seed, with ``FAMILY`` where the family's name belongs.
Times are told in that of the best of one device, METIS, HEFT, m-ETF and m-SCT, and are of what
``--policy PATH`` does. Run it as:

    python -m benchmarks.placeto_seeds --policies FAMILY-s0 FAMILY-s1 FAMILY-s2 --json seeds.json
"""

from statistics import mean
from typing import Any

import numpy as np

from benchmarks.figures import arguments, report
from benchmarks.placeto_worlds import (
    CLUSTERS,
    FAMILIES,
    QUICK,
    baselines,
    judged_s,
    members,
    weights_at,
)
from dplace.lowering import Evaluator
from dplace.policies.placeto.policy import propose
from dplace.policies.placeto.world import World


def main() -> None:
    """Judge the policy of each seed on all test members."""
    options = arguments(
        __doc__ or "",
        policies=("",),
        families=FAMILIES,
        clusters=CLUSTERS,
    )
    rows: list[dict[str, Any]] = []
    for family in options.families:
        policies = [weights_at(path, family) for path in options.policies]
        for cluster in options.clusters:
            found: list[list[float]] = [[] for _ in policies]
            for member in members(family, cluster):
                quick = baselines(member.problem)
                best_s = min(quick[name] for name in QUICK)
                world = World(Evaluator(member.problem))
                for seed, weights in enumerate(policies):
                    rng = np.random.default_rng(seed)
                    devices = propose(weights, world, rng=rng, evaluations=10**9)
                    found[seed].append(judged_s(world.evaluator, world.of_ops(devices)) / best_s)
            means = [mean(ratios) for ratios in found]
            rows.append(
                {"family": family, "cluster": cluster, "members": len(found[0])}
                | {f"seed {seed}": each for seed, each in enumerate(means)}
                | {
                    "mean": mean(means),
                    "spread": max(means) - min(means) if len(means) > 1 else None,
                    "worst member": max(max(ratios) for ratios in found),
                }
            )
            print(rows[-1], flush=True)
    told = {
        f"{family}: mean over seeds and clusters": mean(
            row["mean"] for row in rows if row["family"] == family
        )
        for family in options.families
    }
    report("Seeds of training, in the time of the best quick policy", rows, told, options.json)


if __name__ == "__main__":
    main()
