"""What each part of Placeto's network is worth: each left out, trained the same, on test members.

Times are told in that of the best of one device and the list schedules, where episodes start; means
over the test members and the spread of those means over seeds. ``order`` is by how much the run
time of one member's placements varies over six orders of visits. Run it as:

    python -m benchmarks.placeto_ablations --families cifar10 --json ablations.json
"""

from collections.abc import Mapping
from dataclasses import replace
from statistics import mean
from typing import Any

import torch

from benchmarks.figures import arguments, report
from benchmarks.placeto_orders import varied
from benchmarks.placeto_worlds import greedy_sweep, judged_s, members, one_episode
from dplace.lowering import Evaluator
from dplace.policies.placeto.imitate import Imitation, ImitationSettings
from dplace.policies.placeto.network import PlacetoNetwork
from dplace.policies.placeto.shape import Shape
from dplace.policies.placeto.teacher import taught
from dplace.policies.placeto.world import World

BLIND = Shape(is_ahead=False)
VARIANTS: Mapping[str, Shape] = {
    "all": BLIND,
    "without ancestors": replace(BLIND, pools=("descendants", "parallel", "self")),
    "without descendants": replace(BLIND, pools=("ancestors", "parallel", "self")),
    "without parallel": replace(BLIND, pools=("ancestors", "descendants", "self")),
    "without self": replace(BLIND, pools=("ancestors", "descendants", "parallel")),
    "no messages": replace(BLIND, rounds=0),
    "8 rounds, as published": replace(BLIND, rounds=8),
    "without list scheduling's moments, as published": replace(BLIND, moments=False),
    "with foresight": Shape(),
}
"""What a shipped policy sees most is the simulator's foresight, beside which all else is small; so
it is left out of all but the last."""


def main() -> None:
    """Train every variant on the training members of each family."""
    options = arguments(
        __doc__ or "",
        families=("cifar10",),
        cluster="4xV100",
        updates=80,
        seeds=3,
        evaluations=8000,
        variants=tuple(VARIANTS),
    )
    rows = []
    for family in options.families:
        train, test = (
            [World(Evaluator(one.problem)) for one in members(family, options.cluster, split)]
            for split in ("train", "test")
        )
        targets = [taught(world, evaluations=options.evaluations) for world in train]
        greedy = mean(ratio(world, greedy_sweep(world)) for world in test)
        rows.append({"family": family, "variant": "greedy, nothing learned", "test": greedy})
        for name in options.variants:
            found = [
                trained(VARIANTS[name], train, targets, options.updates, seed)
                for seed in range(options.seeds)
            ]
            ratios = [
                mean(ratio(world, one_episode(network, world)[0]) for world in test)
                for network, _ in found
            ]
            rows.append(
                {
                    "family": family,
                    "variant": name,
                    "test": mean(ratios),
                    "spread": max(ratios) - min(ratios),
                    "loss": mean(loss for _, loss in found),
                    "order": mean(varied(network, world) for network, _ in found for world in test),
                }
            )
            print(rows[-1], flush=True)
    report("Parts of the network, in the time of the start", rows, {}, options.json)


def trained(
    shape: Shape, worlds: list[World], targets: list[Any], updates: int, seed: int
) -> tuple[PlacetoNetwork, float]:
    """Return a network, and its mean loss over the last fifth of the updates."""
    network = PlacetoNetwork(shape, generator=torch.Generator().manual_seed(seed))
    stage = Imitation(network, worlds, targets, ImitationSettings(updates=updates), seed=seed)
    losses = [stage.update().loss for _ in range(updates)]
    return network, mean(losses[-updates // 5 :])


def ratio(world: World, devices: Any) -> float:
    """Return the run time over that of the start."""
    start_s = judged_s(world.evaluator, world.of_ops(world.start))
    return judged_s(world.evaluator, world.of_ops(devices)) / start_s


if __name__ == "__main__":
    main()
