"""Placeto zero-shot against Placeto and the RNN placer, each trained on the one graph to place.

``optimised`` is Placeto trained by trials on the graph alone, with the same start and features, the
best that it met; ``published`` the same as published: from one device, with nothing of list
scheduling or of the simulator's foresight. ``rnn`` is the RNN placer's best; ``samples`` the
evaluations that it took for it over those that ``published`` or ``zero-shot`` took to be as good.
``rnn-zero`` is an RNN placer trained on the family's training members, on the test member, over
random placements' mean: 1 is no better than chance. Run it as:

    python -m benchmarks.placeto_rivals --policy my-policy --families cifar10 --json r.json
"""

import time
from pathlib import Path
from statistics import mean, median
from typing import Any

import numpy as np
import torch

from benchmarks.figures import arguments, report
from benchmarks.placeto_worlds import Member, baselines, judged_s, members
from dplace.lowering import Evaluator
from dplace.policies.learned import policy_file
from dplace.policies.placeto.checkpoint import load_policy, weights_of
from dplace.policies.placeto.episode import EpisodeRules
from dplace.policies.placeto.network import PlacetoNetwork
from dplace.policies.placeto.policy import propose
from dplace.policies.placeto.shape import Shape
from dplace.policies.placeto.train import Settings, Trainer
from dplace.policies.placeto.world import World
from dplace.policies.rnn.network import RnnNetwork, RnnShape
from dplace.policies.rnn.train import RnnSettings, RnnTrainer, placed_by

PUBLISHED = Shape(rounds=8, moments=False, is_ahead=False)
Trace = list[tuple[int, float]]
"""Evaluations so far, and the best log run time so far."""


def main() -> None:
    """Train on each graph, and compare."""
    options = arguments(
        __doc__ or "",
        policy="",
        families=("cifar10", "ptb", "nmt"),
        cluster="4xV100",
        count=2,
        seeds=1,
        updates=40,
        rnn_updates=400,
        rnn_train=150,
    )
    rows = []
    for family in options.families:
        policy = options.policy.replace("FAMILY", family)
        network = load_policy(policy_file(Path(policy))).network
        rnn = trained_rnn(family, options)
        for member in members(family, options.cluster, count=options.count):
            for seed in range(options.seeds):
                rows.append(row_of(member, network, rnn, seed, options))
                print(rows[-1], flush=True)
    told = {
        "zero-shot over optimised, mean": mean(row["zero-shot"] / row["optimised"] for row in rows),
        "samples, RNN over published, median": median(row["samples"] for row in rows),
        "samples, RNN over zero-shot, median": median(row["samples-zero"] for row in rows),
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
    world = World(Evaluator(member.problem))

    def told(devices: Any, of: World) -> float:
        return judged_s(of.evaluator, of.of_ops(devices)) / single_s

    begun = world.evaluator.evaluations
    devices = propose(
        weights_of(network), world, rng=np.random.default_rng(seed), evaluations=10**9
    )
    zero_evaluations = world.evaluator.evaluations - begun
    zero_log = world.outcome(devices).log_time
    row = member.row | {"seed": seed, "groups": world.num_groups, "zero-shot": told(devices, world)}

    fresh = PlacetoNetwork(generator=torch.Generator().manual_seed(seed))
    best, _, seconds = trials(fresh, World(Evaluator(member.problem)), options.updates, seed)
    row |= {"optimised": told(best, world), "optimised_s": seconds}
    plain = World(Evaluator(member.problem), is_listed=False)
    fresh = PlacetoNetwork(PUBLISHED, generator=torch.Generator().manual_seed(seed))
    best, trace, seconds = trials(fresh, plain, options.updates, seed)
    row |= {"published": told(best, plain), "published_s": seconds}

    plain = World(Evaluator(member.problem), is_listed=False)
    shape = RnnShape(max_groups=plain.num_groups, num_devices=plain.num_devices)
    own = RnnNetwork(shape, generator=torch.Generator().manual_seed(seed))
    trainer = RnnTrainer(own, [plain], RnnSettings(updates=options.rnn_updates), seed=seed)
    rnn_trace: Trace = []
    at, started = plain.evaluator.evaluations, time.perf_counter()
    for _ in range(options.rnn_updates):
        trainer.update()
        log_time = plain.outcome(trainer.best[0]).log_time
        rnn_trace.append((plain.evaluator.evaluations - at, log_time))
    best_log = rnn_trace[-1][1]
    rnn_evaluations = next(count for count, log in rnn_trace if log <= best_log)
    reached = [count for count, log in trace if log <= best_log]
    row |= {
        "rnn": told(trainer.best[0], plain),
        "rnn_s": time.perf_counter() - started,
        "rnn_evaluations": rnn_evaluations,
        "samples": rnn_evaluations / reached[0] if reached else 0.0,
        "samples-zero": rnn_evaluations / zero_evaluations if zero_log <= best_log else 0.0,
    }
    rng = np.random.default_rng(seed)
    random_s = mean(told(plain.random(rng), plain) for _ in range(20))
    short = World(Evaluator(member.problem), is_listed=False, max_groups=rnn.shape.max_groups)
    row["rnn-zero"] = told(placed_by(rnn, short), short) / random_s
    return row


def trials(
    network: PlacetoNetwork, world: World, updates: int, seed: int
) -> tuple[Any, Trace, float]:
    """Train by trials on one world; return the best placement met, how it came, and seconds."""
    rules = EpisodeRules(order="topological")
    settings = Settings(updates=updates, graphs=1, episodes=8, rules=rules)
    trainer = Trainer(network, [world], settings, seed=seed)
    at, begun = world.evaluator.evaluations, time.perf_counter()
    trace: Trace = []
    for _ in range(updates):
        trainer.update()
        log_time = world.outcome(trainer.best(0)).log_time
        trace.append((world.evaluator.evaluations - at, log_time))
    return trainer.best(0), trace, time.perf_counter() - begun


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
