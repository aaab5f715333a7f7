"""REINFORCE on whole placements, as the RNN placer trains (Mirhoseini et al., 2017, section 3.1).

Departures: the reward is minus the log run time with the penalty above memory that Placeto gets,
where theirs is minus its square root; the baseline is, as theirs, a moving mean of the rewards of a
graph. Advantages are told in their standard deviation, as for Placeto, so that the two compare.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from dplace.lowering import Score
from dplace.policies.placeto.rollout import one_thread
from dplace.policies.placeto.updates import fall
from dplace.policies.placeto.world import World, topological
from dplace.policies.rnn.network import RnnNetwork, sequence_of

__all__ = ["RnnSettings", "RnnTrainer", "RnnUpdate", "placed_by"]

Placement = NDArray[np.int32]


@dataclass(frozen=True, slots=True, kw_only=True)
class RnnSettings:
    """How an RNN placer is trained."""

    updates: int = 500
    """Steps of the optimiser; rates and weights fall from the first to the last."""
    graphs: int = 4
    """Graphs in an update, drawn anew each time where there are more."""
    samples: int = 8
    """Placements of each, drawn at once."""
    learning_rate: float = 3e-3
    last_learning_rate: float = 3e-4
    entropy: float = 0.02
    """Weight of the entropy at first; falls linearly to 0 at ``entropy_until``."""
    entropy_until: float = 0.7
    baseline_decay: float = 0.9
    gradient_norm: float = 1.0


class RnnUpdate(NamedTuple):
    """What one update did."""

    number: int
    log_time: float
    """Mean log run time of the placements that were drawn."""
    entropy: float
    best: tuple[Score, ...]
    """For each world, the best score met so far."""


class RnnTrainer:
    """Trains one network on some worlds; equal seeds do equal things."""

    def __init__(
        self,
        network: RnnNetwork,
        worlds: Sequence[World],
        settings: RnnSettings | None = None,
        *,
        orders: Sequence[NDArray[np.int64]] | None = None,
        seed: int = 0,
    ) -> None:
        """Take a network, which is trained in place, on the device that it is on.

        Args:
            network: The policy.
            worlds: What it is trained on.
            settings: How.
            orders: In which the groups of each world are read; by default topological ones.
            seed: Of the choice of graphs and devices.
        """
        self.network = network
        self.worlds = tuple(worlds)
        self.settings = settings or RnnSettings()
        self.orders = tuple(orders or [topological(world.graph) for world in worlds])
        self._rng = np.random.default_rng(seed)
        self._generator = torch.Generator().manual_seed(seed)
        self._device = next(network.parameters()).device
        self._optimiser = torch.optim.Adam(network.parameters(), lr=self.settings.learning_rate)
        self._baselines: list[float | None] = [None] * len(self.worlds)
        self.best: list[Placement] = [world.single for world in worlds]
        self.best_score: list[Score] = [world.outcome(world.single).score for world in worlds]
        self.updates_done = 0

    @one_thread()
    def update(self) -> RnnUpdate:
        """Draw some placements and learn from them."""
        settings = self.settings
        done = self.updates_done / max(1, settings.updates - 1)
        weight = settings.entropy * max(0.0, 1.0 - done / settings.entropy_until)
        fall(self._optimiser, settings.learning_rate, settings.last_learning_rate, done)
        self._optimiser.zero_grad()
        num = min(settings.graphs, len(self.worlds))
        chosen = sorted(self._rng.permutation(len(self.worlds))[:num].tolist())
        times, entropies = [], []
        for index in chosen:
            world, order = self.worlds[index], self.orders[index]
            sequence = sequence_of(world.graph, order, self.network.shape.max_groups)
            allowed = torch.from_numpy(world.graph.allowed[order])
            drawn = self.network(
                sequence.to(self._device),
                allowed.to(self._device),
                num_samples=settings.samples,
                generator=self._generator,
            )
            log_times = np.array([self._judge(index, row) for row in drawn.devices.cpu().numpy()])
            mean = float(log_times.mean())
            before = self._baselines[index]
            decay = settings.baseline_decay
            baseline = mean if before is None else decay * before + (1 - decay) * mean
            self._baselines[index] = baseline
            gains = baseline - log_times
            gains /= np.sqrt(np.square(gains).mean()) + 1e-8
            advantages = torch.from_numpy(gains.astype(np.float32)).to(self._device)
            # The mean over groups, as Placeto's over steps.
            log_share = drawn.log_probability / len(order)
            loss = -(log_share * advantages + weight * drawn.entropy).mean() / num
            torch.autograd.backward(loss)
            times.append(mean)
            entropies.append(float(drawn.entropy.detach().mean()))
        nn.utils.clip_grad_norm_(self.network.parameters(), settings.gradient_norm)
        self._optimiser.step()
        self.updates_done += 1
        return RnnUpdate(
            number=self.updates_done - 1,
            log_time=float(np.mean(times)),
            entropy=float(np.mean(entropies)),
            best=tuple(self.best_score),
        )

    def _judge(self, index: int, row: NDArray[np.int64]) -> float:
        world = self.worlds[index]
        devices = np.empty(world.num_groups, dtype=np.int32)
        devices[self.orders[index]] = row
        outcome = world.outcome(devices)
        if outcome.score < self.best_score[index]:
            self.best[index], self.best_score[index] = devices, outcome.score
        return outcome.log_time


@one_thread()
@torch.no_grad()
def placed_by(
    network: RnnNetwork, world: World, order: NDArray[np.int64] | None = None
) -> Placement:
    """Return the placement of the groups whose every step is most probable.

    Args:
        network: The policy.
        world: The problem in groups.
        order: In which the groups are read; by default a topological one.
    """
    order = topological(world.graph) if order is None else order
    drawn = network(
        sequence_of(world.graph, order, network.shape.max_groups),
        torch.from_numpy(world.graph.allowed[order]),
        num_samples=1,
        generator=None,
    )
    devices = np.empty(world.num_groups, dtype=np.int32)
    devices[order] = drawn.devices[0].numpy()
    return devices
