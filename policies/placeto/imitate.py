"""A first stage of training, beyond the paper: imitate the best placements that search finds.

Doppler (Yao et al., ICLR 2026) too lets its policy follow a heuristic before it learns from its own
trials. Here the teacher is ``search`` on the training members. States are of two kinds: from
placements that are the target where the episode has been and something else where it has not, and,
as in DAgger (Ross, Gordon, Bagnell, 2011), from where the policy itself has come to.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from dplace.policies.placeto.batch import make_batch, moment
from dplace.policies.placeto.episode import Episode, EpisodeRules, State
from dplace.policies.placeto.kept import Kept, Learner, keep_learner, restore_learner
from dplace.policies.placeto.network import PlacetoNetwork
from dplace.policies.placeto.ranks import ALONE, Ranks, play_together
from dplace.policies.placeto.rollout import one_thread
from dplace.policies.placeto.teacher import classes_of, matched, renumbered
from dplace.policies.placeto.world import World

__all__ = ["Imitated", "Imitation", "ImitationSettings"]

Placement = NDArray[np.int32]


@dataclass(frozen=True, slots=True, kw_only=True)
class ImitationSettings:
    """How the first stage goes."""

    updates: int = 600
    graphs: int = 8
    """Graphs in an update."""
    states: int = 8
    """States of each."""
    learning_rate: float = 3e-3
    last_learning_rate: float = 1e-4
    gradient_norm: float = 1.25
    wrong: float = 0.05
    """Share of the visited groups that are not where the target has them."""
    own: float = 0.5
    """Share of the states that are from the policy's own episodes."""
    own_every: int = 20
    """Updates between two rounds of them."""
    rules: EpisodeRules = field(default_factory=lambda: EpisodeRules(order="mixed", start="mixed"))


class Imitated(NamedTuple):
    """What one update did."""

    number: int
    loss: float
    """Mean of minus the log of the probability of the target's device."""
    agreement: float
    """How often the most probable device is the target's."""


class _Walked(NamedTuple):
    """An episode of the policy's own."""

    order: NDArray[np.int64]
    start: Placement
    end: Placement


class _Drawn(NamedTuple):
    """A state of one world, not judged yet."""

    world: int
    devices: Placement
    visited: NDArray[np.bool_]
    current: int
    target: Placement


class Imitation:
    """Trains one network to go where targets are; equal seeds do equal things."""

    def __init__(
        self,
        network: PlacetoNetwork,
        worlds: Sequence[World],
        targets: Sequence[Placement],
        settings: ImitationSettings | None = None,
        *,
        seed: int = 0,
        ranks: Ranks = ALONE,
    ) -> None:
        """Take a network, which is trained in place, on the device that it is on.

        Args:
            network: The policy.
            worlds: What it is trained on.
            targets: A placement of the groups of each.
            settings: How.
            seed: Of all chance.
            ranks: The processes that share an update, all with the same arguments else.
        """
        self.network = network
        self.settings = settings or ImitationSettings()
        self.updates_done = 0
        self._worlds = tuple(worlds)
        self._targets = tuple(targets)
        self._classes = [classes_of(world.graph) for world in worlds]
        self._ranks = ranks
        self._rng = np.random.default_rng(seed)
        self._generator = torch.Generator().manual_seed(seed)
        self._device = next(network.parameters()).device
        self._optimiser = torch.optim.Adam(network.parameters(), lr=self.settings.learning_rate)
        self._episodes = [Episode(w, self.settings.rules, rng=self._rng) for w in worlds]
        self._walked: list[deque[_Walked]] = [deque(maxlen=8) for _ in worlds]

    @one_thread()
    def update(self) -> Imitated:
        """Draw some states and learn where their groups belong."""
        settings = self.settings
        if self.updates_done and self.updates_done % settings.own_every == 0:
            self._walk()
        chosen = self._choose()
        drawn = [[self._draw(index) for index in chosen] for _ in range(settings.states)]
        own = drawn[self._ranks.share(settings.states)]
        done = self.updates_done / max(1, settings.updates - 1)
        rate = settings.learning_rate
        rate += (settings.last_learning_rate - rate) * min(1.0, done)
        for group in self._optimiser.param_groups:
            group["lr"] = rate
        self._optimiser.zero_grad()
        told = self._backward(chosen, own) if own else torch.zeros(2, dtype=torch.float64)
        self._ranks.add_gradients(self.network)
        nn.utils.clip_grad_norm_(self.network.parameters(), settings.gradient_norm)
        self._optimiser.step()
        self.updates_done += 1
        loss, agreement = self._ranks.total(told).tolist()
        return Imitated(self.updates_done - 1, loss, agreement)

    def _backward(self, chosen: Sequence[int], own: Sequence[Sequence[_Drawn]]) -> Tensor:
        """Add up the gradients of own states; return loss and agreement, by their share of all."""
        batch = make_batch([self._worlds[index].graph for index in chosen], device=self._device)
        batch = batch.repeat(len(own))
        judged = [self._judged(one) for row in own for one in row]
        wanted = torch.tensor([device for _, device in judged], device=self._device)
        logits = self.network(batch, moment(batch, [state for state, _ in judged]))
        share = len(own) / self.settings.states
        loss = nn.functional.cross_entropy(logits, wanted) * share  # (states * graphs, D)
        torch.autograd.backward(loss)
        agreement = (logits.argmax(1) == wanted).float().mean() * share
        return torch.stack([loss.detach(), agreement]).cpu().double()

    def state(self) -> Kept:
        """Return all that later updates depend on, beside worlds, targets and settings."""
        kept = keep_learner(*self._learner())
        kept.told["updates_done"] = self.updates_done
        for index, walked in enumerate(self._walked):
            for name in _Walked._fields:
                rows = [torch.from_numpy(getattr(episode, name)) for episode in walked]
                kept.put_row(f"walked.{index}.{name}", rows)
        return kept

    def restore(self, kept: Kept) -> None:
        """Go on from a state, with worlds, targets and settings as they were."""
        restore_learner(kept, *self._learner())
        self.updates_done = kept.told["updates_done"]
        for index, walked in enumerate(self._walked):
            rows = [kept.row(f"walked.{index}.{name}") for name in _Walked._fields]
            walked.clear()
            walked.extend(
                _Walked(*(tensor.numpy() for tensor in row)) for row in zip(*rows, strict=True)
            )

    def _learner(self) -> Learner:
        return self.network, self._optimiser, self._rng, self._generator, self._episodes

    def _choose(self) -> list[int]:
        num = len(self._worlds)
        return sorted(self._rng.permutation(num)[: self.settings.graphs].tolist())

    def _draw(self, index: int) -> _Drawn:
        """Return a state of one world; all chance is in here."""
        world, rng = self._worlds[index], self._rng
        target, classes = self._targets[index], self._classes[index]
        at = int(rng.integers(world.num_groups))
        visited = np.zeros(world.num_groups, dtype=np.bool_)
        if self._walked[index] and rng.random() < self.settings.own:
            walked = self._walked[index][rng.integers(len(self._walked[index]))]
            order = walked.order
            visited[order[:at]] = True
            devices = np.where(visited, walked.end, walked.start)
            work = world.graph.run.mean(axis=1, dtype=np.float64)
            target = matched(target, devices, work * np.where(visited, 1.0, 0.01), classes)
        else:
            episode = self._episodes[index]
            episode.reset()
            order = episode.order
            visited[order[:at]] = True
            target = renumbered(target, episode.state.placement, order, classes)
            is_wrong = rng.random(world.num_groups) < self.settings.wrong
            there = np.where(is_wrong, world.random(rng), target)
            devices = np.where(visited, there, episode.state.placement)
        return _Drawn(index, devices.astype(np.int32), visited, int(order[at]), target)

    def _judged(self, drawn: _Drawn) -> tuple[State, int]:
        """Return a state, and the device that its group should go to."""
        index, devices, visited, current, target = drawn
        state = State(devices, visited, current, self._worlds[index].outcome(devices))
        return state, int(target[current])

    def _walk(self) -> None:
        """Let the policy play, to learn from where it comes to."""
        chosen = self._choose()
        episodes = [self._episodes[index] for index in chosen]
        for episode in episodes:
            episode.reset()
        starts = [episode.state.placement for episode in episodes]
        ranks, device = self._ranks, self._device
        play_together(self.network, episodes, generator=self._generator, ranks=ranks, device=device)
        ends = ranks.rows([episode.state.placement for episode in episodes])
        for index, episode, start, end in zip(chosen, episodes, starts, ends, strict=True):
            self._walked[index].append(_Walked(episode.order, start, end))
