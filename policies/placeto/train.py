"""REINFORCE with a baseline for each step, as Placeto trains (Addanki et al., 2019, section 3.3).

Read ``Trainer.update`` top to bottom beside the paper. Departures: several episodes of several
graphs make one update, in one process, where the paper has a worker a graph; losses are means over
steps, so that long episodes do not count more; advantages are told in their standard deviation, so
that the entropy's weight means the same on all graphs, and it starts lower; returns are discounted.
Episodes depart as well (episode.py), and what the network sees (network.py). For the training as
published ask for ``World(is_listed=False)``, ``Shape(width=16, rounds=8, moments=False,
is_ahead=False)`` and ``Settings(discount=1.0)``.
"""

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from dplace.policies.placeto.batch import Batch, moment
from dplace.policies.placeto.episode import Episode, EpisodeRules
from dplace.policies.placeto.kept import Kept, Learner, keep_learner, restore_learner
from dplace.policies.placeto.network import PlacetoNetwork
from dplace.policies.placeto.ranks import ALONE, Ranks, play_together
from dplace.policies.placeto.rollout import Played, one_thread
from dplace.policies.placeto.updates import entropy_of, fall
from dplace.policies.placeto.world import World

__all__ = ["Settings", "Trainer", "Update", "returns_to_go"]

Placement = NDArray[np.int32]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How a policy is trained; the published figure in brackets where it differs."""

    updates: int = 120
    """Steps of the optimiser; rates and weights fall from the first to the last."""
    graphs: int = 4
    """Graphs in an update, drawn anew each time where there are more (4 to 8 workers)."""
    episodes: int = 4
    """Episodes of each (1)."""
    learning_rate: float = 2e-3
    last_learning_rate: float = 2e-4
    """Adam's step falls linearly from the first to the second (1e-3, 1e-4)."""
    entropy: float = 0.005
    """Weight of the entropy at first (1); falls linearly to 0 at ``entropy_until``."""
    entropy_until: float = 0.7
    """Share of the updates after which chance is no longer rewarded."""
    discount: float = 0.9
    """What a reward counts a step later (1): a move is mostly answered by the next ones."""
    normalise: bool = True
    """Tell advantages in their standard deviation over the update, so that the weight of the
    entropy means the same at any scale of rewards (False)."""
    baseline_rounds: int = 10
    """Updates of a graph whose returns make its baseline."""
    gradient_norm: float = 1.25
    """Longer gradients are shortened to this."""
    rules: EpisodeRules = field(default_factory=EpisodeRules)
    steps_at_once: int = 8
    """Steps in one pass forward and back: what memory allows; it changes nothing else."""


class Update(NamedTuple):
    """What one update did."""

    number: int
    returns: float
    """Mean drop in log run time of an episode, from its start to its end."""
    entropy: float
    """Mean entropy of a choice, in nats."""
    gradient_norm: float
    """Before it was shortened."""
    best_s: tuple[float, ...]
    """For each world, the shortest makespan met so far that fits; ``inf`` for none."""


def returns_to_go(rewards: Tensor, discount: float) -> Tensor:
    """Return the discounted sum of the rewards from each step on; both of shape ``(T, B)``.

    >>> returns_to_go(torch.tensor([[1.0], [0.0], [2.0]]), 0.5).flatten().tolist()
    [1.5, 1.0, 2.0]
    """
    found = torch.zeros_like(rewards)
    after = torch.zeros_like(rewards[0])
    for step in range(len(rewards) - 1, -1, -1):
        after = rewards[step] + discount * after
        found[step] = after
    return found


class Trainer:
    """Trains one network on some worlds, update by update; equal seeds do equal things."""

    def __init__(
        self,
        network: PlacetoNetwork,
        worlds: Sequence[World],
        settings: Settings | None = None,
        *,
        seed: int = 0,
        ranks: Ranks = ALONE,
    ) -> None:
        """Take a network, which is trained in place, on the device that it is on.

        Args:
            network: The policy.
            worlds: What it is trained on.
            settings: How.
            seed: Of the choice of graphs, orders, starts and devices.
            ranks: The processes that share an update, all with the same arguments else.
        """
        self.network = network
        self.worlds = tuple(worlds)
        self.settings = settings or Settings()
        self._ranks = ranks
        self._rng = np.random.default_rng(seed)
        self._generator = torch.Generator().manual_seed(seed)
        self._device = next(network.parameters()).device
        self._optimiser = torch.optim.Adam(network.parameters(), lr=self.settings.learning_rate)
        rounds = self.settings.baseline_rounds
        self._returns: list[deque[Tensor]] = [deque(maxlen=rounds) for _ in self.worlds]
        self._episodes = [
            [Episode(w, self.settings.rules, rng=self._rng) for _ in range(self.settings.episodes)]
            for w in self.worlds
        ]
        self.updates_done = 0

    @one_thread()
    def update(self) -> Update:
        """Play some episodes and learn from them."""
        settings = self.settings
        done = self.updates_done / max(1, settings.updates - 1)
        chosen = self._choose()
        episodes = [episode for index in chosen for episode in self._episodes[index]]
        for episode in episodes:
            episode.reset()

        batch, played = play_together(
            self.network,
            episodes,
            generator=self._generator,
            ranks=self._ranks,
            device=self._device,
        )
        returns = returns_to_go(played.rewards, settings.discount)  # (T, B)
        advantages = returns - self._baselines(chosen, returns)  # (T, B)
        if settings.normalise:
            mean_square = (advantages.square() * played.is_on).sum() / played.is_on.sum()
            advantages = advantages / (mean_square.sqrt() + 1e-8)

        weight = settings.entropy * max(0.0, 1.0 - done / settings.entropy_until)
        fall(self._optimiser, settings.learning_rate, settings.last_learning_rate, done)
        self._optimiser.zero_grad()
        entropy = self._backward(batch, played, advantages, weight)
        self._ranks.add_gradients(self.network)
        norm = nn.utils.clip_grad_norm_(self.network.parameters(), settings.gradient_norm)
        self._optimiser.step()

        self.updates_done += 1
        return Update(
            number=self.updates_done - 1,
            returns=float(played.rewards.sum(0).mean()),
            entropy=entropy,
            gradient_norm=float(norm),
            best_s=tuple(
                min(
                    math.inf if episode.best_score.overflow_bytes else episode.best_score.makespan_s
                    for episode in row
                )
                for row in self._episodes
            ),
        )

    def best(self, index: int) -> Placement:
        """Return the best placement of the groups of one world that any episode has met."""
        return min(self._episodes[index], key=lambda episode: episode.best_score).best

    def state(self) -> Kept:
        """Return all that later updates depend on, beside worlds and settings."""
        kept = keep_learner(*self._learner())
        kept.told["updates_done"] = self.updates_done
        for index, rounds in enumerate(self._returns):
            kept.put_row(f"returns.{index}", rounds)
        return kept

    def restore(self, kept: Kept) -> None:
        """Go on from a state, with worlds and settings as they were."""
        restore_learner(kept, *self._learner())
        self.updates_done = kept.told["updates_done"]
        for index, rounds in enumerate(self._returns):
            rounds.clear()
            rounds.extend(kept.row(f"returns.{index}"))

    def _learner(self) -> Learner:
        episodes = [episode for row in self._episodes for episode in row]
        return self.network, self._optimiser, self._rng, self._generator, episodes

    def _backward(
        self, batch: Batch | None, played: Played, advantages: Tensor, entropy_weight: float
    ) -> float:
        """Add up the gradients of all steps of own episodes, and return the mean entropy of all."""
        num_steps, num_graphs = played.actions.shape
        total = float(played.is_on.sum())
        at_once = self.settings.steps_at_once
        entropies = 0.0
        several: Batch | None = None
        for begin in range(0, num_steps, at_once):
            assert batch is not None  # who has no episodes has no steps
            steps = slice(begin, min(begin + at_once, num_steps))
            states = [state for row in played.states[steps] for state in row]
            if several is None or several.num_graphs != len(states):
                several = batch.repeat(len(states) // num_graphs)
            logits = self.network(several, moment(several, states))  # (steps * B, D)
            log_shares = logits.log_softmax(1)
            actions = played.actions[steps].reshape(-1, 1).to(self._device)
            log_chosen = log_shares.gather(1, actions).squeeze(1)  # (steps * B,)
            entropy = entropy_of(log_shares)
            is_on = played.is_on[steps, played.own].reshape(-1).to(self._device)
            gains = advantages[steps, played.own].reshape(-1).to(self._device)
            loss = -((log_chosen * gains + entropy_weight * entropy) * is_on).sum() / total
            torch.autograd.backward(loss)
            entropies += float((entropy.detach() * is_on).sum())
        return float(self._ranks.total(torch.tensor(entropies, dtype=torch.float64))) / total

    def _baselines(self, chosen: Sequence[int], returns: Tensor) -> Tensor:
        """Return the mean return of each step over a graph's last episodes, these included."""
        num = self.settings.episodes
        baselines = torch.zeros_like(returns)
        for place, index in enumerate(chosen):
            columns = slice(place * num, (place + 1) * num)
            length = self.worlds[index].num_groups
            self._returns[index].append(returns[:length, columns])
            mean = torch.cat(list(self._returns[index]), dim=1).mean(1, keepdim=True)
            baselines[:length, columns] = mean
        return baselines

    def _choose(self) -> tuple[int, ...]:
        """Return the worlds of an update, in order."""
        num = len(self.worlds)
        if num <= self.settings.graphs:
            return tuple(range(num))
        drawn = self._rng.choice(num, self.settings.graphs, replace=False)
        return tuple(sorted(drawn.tolist()))
