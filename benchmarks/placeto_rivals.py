"""Placeto zero-shot against Placeto and the RNN placer, each trained on the one graph to place.

``optimised`` is Placeto trained by trials on the graph alone, with the same start and features, the
best that it met; ``published`` the same as published: from one device, with nothing of list
scheduling or of the simulator's foresight. ``rnn`` is the RNN placer's best, ``rnn-evaluations``
what it took for it; ``X-as-good`` those after which X had a placement as good, all that its start
and its foresight took included, and ``samples-X`` the ratio of the two, 0 where X never had.
``rnn-zero`` is an RNN placer trained on the family's training members, on the test member, over
random placements' mean: 1 is no better than chance. Run it as:

    python -m benchmarks.placeto_rivals --policy my-policy --families cifar10 --json r.json
"""

import time
from statistics import mean, median
from typing import Any

import numpy as np
import torch

from benchmarks.figures import arguments, report
from benchmarks.placeto_worlds import (
    CLUSTER,
    FAMILIES,
    Member,
    baselines,
    judged_s,
    members,
    network_at,
)
from dplace.lowering import Evaluator
from dplace.policies.placeto.checkpoint import weights_of
from dplace.policies.placeto.episode import EpisodeRules
from dplace.policies.placeto.network import PlacetoNetwork
from dplace.policies.placeto.policy import propose
from dplace.policies.placeto.shape import Shape
from dplace.policies.placeto.train import Settings, Trainer
from dplace.policies.placeto.world import Outcome, World
from dplace.policies.rnn.network import RnnNetwork, RnnShape
from dplace.policies.rnn.train import RnnSettings, RnnTrainer, placed_by

PUBLISHED = Shape(rounds=8, moments=False, is_ahead=False)
Trace = list[tuple[int, float]]
"""Evaluations so far, and the best log run time so far, whenever that fell."""


def main() -> None:
    """Train on each graph, and compare."""
    options = arguments(
        __doc__ or "",
        policy="",
        families=FAMILIES,
        cluster=CLUSTER,
        count=2,
        seeds=1,
        updates=40,
        rnn_updates=400,
        rnn_train=150,
    )
    rows = []
    for family in options.families:
        network = network_at(options.policy, family)
        rnn = trained_rnn(family, options)
        for member in members(family, options.cluster, count=options.count):
            for seed in range(options.seeds):
                rows.append(row_of(member, network, rnn, seed, options))
                print(rows[-1], flush=True)
    told = {
        "zero-shot over optimised, mean": mean(row["zero-shot"] / row["optimised"] for row in rows),
        **{
            f"samples, RNN over {name}, median": median(row[f"samples-{name}"] for row in rows)
            for name in ("zero-shot", "optimised", "published")
        },
    }
    for family in options.families:
        own = [row for row in rows if row["family"] == family]
        for name in ("zero-shot", "published", "optimised"):
            told[f"{family}: {name} over RNN"] = mean(row[name] / row["rnn"] for row in own)
        told[f"{family}: RNN zero-shot over random"] = mean(row["rnn-zero"] for row in own)
    report("Placeto and the RNN placer, in the time of one device", rows, told, options.json)


def row_of(
    member: Member, network: PlacetoNetwork, rnn: RnnNetwork, seed: int, options: Any
) -> dict[str, Any]:
    """Return what each comes to on one member."""
    single_s = baselines(member.problem)["single"]

    def told(devices: Any, of: World) -> float:
        return judged_s(of.evaluator, of.of_ops(devices)) / single_s

    world = Watched(Evaluator(member.problem))
    weights = weights_of(network)
    devices = propose(weights, world, rng=np.random.default_rng(seed), evaluations=10**9)
    row = member.row | {"seed": seed, "groups": world.num_groups, "zero-shot": told(devices, world)}
    traces = {"zero-shot": world.trace}

    world = Watched(Evaluator(member.problem))
    fresh = PlacetoNetwork(generator=torch.Generator().manual_seed(seed))
    best, seconds = trials(fresh, world, options.updates, seed)
    row |= {"optimised": told(best, world), "optimised_s": seconds}
    traces["optimised"] = world.trace

    plain = Watched(Evaluator(member.problem), is_listed=False)
    fresh = PlacetoNetwork(PUBLISHED, generator=torch.Generator().manual_seed(seed))
    best, seconds = trials(fresh, plain, options.updates, seed)
    row |= {"published": told(best, plain), "published_s": seconds}
    traces["published"] = plain.trace

    plain = Watched(Evaluator(member.problem), is_listed=False)
    shape = RnnShape(max_groups=plain.num_groups, num_devices=plain.num_devices)
    own = RnnNetwork(shape, generator=torch.Generator().manual_seed(seed))
    trainer = RnnTrainer(own, [plain], RnnSettings(updates=options.rnn_updates), seed=seed)
    started = time.perf_counter()
    for _ in range(options.rnn_updates):
        trainer.update()
    rnn_evaluations, best_log = plain.trace[-1]
    row |= {
        "rnn": told(trainer.best[0], plain),
        "rnn_s": time.perf_counter() - started,
        "rnn-evaluations": rnn_evaluations,
    }
    for name, trace in traces.items():
        as_good = next((count for count, log in trace if log <= best_log), None)
        row[f"{name}-as-good"] = as_good or 0
        row[f"samples-{name}"] = rnn_evaluations / as_good if as_good else 0.0
    rng = np.random.default_rng(seed)
    random_s = mean(told(plain.random(rng), plain) for _ in range(20))
    short = World(Evaluator(member.problem), is_listed=False, max_groups=rnn.shape.max_groups)
    row["rnn-zero"] = told(placed_by(rnn, short), short) / random_s
    return row


class Watched(World):
    """A world that notes when the placements that are taken in it become better."""

    trace: Trace

    def outcome(self, devices: Any) -> Outcome:
        """Return what a placement comes to, and note it if it is the best so far."""
        found = super().outcome(devices)
        if not hasattr(self, "trace"):
            self.trace = []
        if not self.trace or found.log_time < self.trace[-1][1]:
            self.trace.append((self.evaluator.evaluations, found.log_time))
        return found


def trials(network: PlacetoNetwork, world: World, updates: int, seed: int) -> tuple[Any, float]:
    """Train by trials on one world; return the best placement met, and seconds."""
    rules = EpisodeRules(order="topological")
    settings = Settings(updates=updates, graphs=1, episodes=8, rules=rules)
    trainer = Trainer(network, [world], settings, seed=seed)
    begun = time.perf_counter()
    for _ in range(updates):
        trainer.update()
    return trainer.best(0), time.perf_counter() - begun


def trained_rnn(family: str, options: Any) -> RnnNetwork:
    """Return an RNN placer trained on the training members of a family."""
    worlds = [
        World(Evaluator(member.problem), is_listed=False)
        for member in members(family, options.cluster, "train")
    ]
    most = max(world.num_groups for world in worlds)
    shape = RnnShape(max_groups=most, num_devices=worlds[0].num_devices)
    network = RnnNetwork(shape, generator=torch.Generator().manual_seed(0))
    trainer = RnnTrainer(network, worlds, RnnSettings(updates=options.rnn_train))
    for _ in range(options.rnn_train):
        trainer.update()
    return network


if __name__ == "__main__":
    main()
