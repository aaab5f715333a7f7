"""A first stage of training, beyond the paper: imitate the best placements that search finds.

Doppler (Yao et al., ICLR 2026) too lets its policy follow a heuristic before it learns from its own
trials. Here the teacher is ``search`` on the training members. States are of two kinds: from
placements that are the target where the episode has been and something else where it has not, and,
as in DAgger (Ross, Gordon, Bagnell, 2011), from where the policy itself has come to. There the
target is the policy's own placement, improved by a short annealing: what it might have done, not
what is best of all (Anthony, Tian, Barber, *Thinking Fast and Slow with Deep Learning and Tree
Search*, 2017).

What is learned is not the target's device but what each device would cost if all that is not
visited yet went where the target has it (as in AggreVaTe, Ross and Bagnell, 2014): of many groups
it does not matter where they are, and of others very much.
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
from dplace.policies.placeto.teacher import Tutor, classes_of, matched, renumbered
from dplace.policies.placeto.updates import fall, finite
from dplace.policies.placeto.world import World

__all__ = ["Imitated", "Imitation", "ImitationSettings"]

Placement = NDArray[np.int32]


@dataclass(frozen=True, slots=True, kw_only=True)
class ImitationSettings:
    """How the first stage goes."""

    updates: int = 200
    graphs: int = 8
    """Graphs in an update."""
    states: int = 4
    """States of each."""
    learning_rate: float = 2e-3
    last_learning_rate: float = 1e-4
    gradient_norm: float = 1.25
    blur: float = 0.01
    """Difference in log run time at which a device is told to be e times as good as another."""
    wrong: float = 0.05
    """Share of the visited groups that are put anywhere instead."""
    own: float = 0.7
    """Share of the states that are from the policy's own episodes."""
    own_every: int = 16
    """Updates between two rounds of them."""
    own_kept: int = 4
    """Episodes of a graph that are remembered."""
    own_steps: int = 300
    """Placements that annealing looks at to improve where one ended."""
    rules: EpisodeRules = field(default_factory=lambda: EpisodeRules(order="mixed", start="mixed"))


class Imitated(NamedTuple):
    """What one update did."""

    number: int
    loss: float
    """Mean cross entropy between how good devices are and their probabilities."""
    agreement: float
    """How good the most probable device is, on average; all devices together are 1."""


class _Walked(NamedTuple):
    """An episode of the policy's own."""

    order: NDArray[np.int64]
    start: Placement
    end: Placement
    target: Placement
    """The end, improved."""


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
        self._walked: list[deque[_Walked]] = [deque(maxlen=self.settings.own_kept) for _ in worlds]
        self._tutors = [Tutor(world) for world in worlds]

    @one_thread()
    def update(self) -> Imitated:
        """Draw some states and learn how good each device is for their groups."""
        settings = self.settings
        if self.updates_done and self.updates_done % settings.own_every == 0:
            self._walk()
        chosen = self._choose()
        drawn = [[self._draw(index) for index in chosen] for _ in range(settings.states)]
        own = drawn[self._ranks.share(settings.states)]
        done = self.updates_done / max(1, settings.updates - 1)
        fall(self._optimiser, settings.learning_rate, settings.last_learning_rate, done)
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
        logits = self.network(batch, moment(batch, [state for state, _ in judged]))
        wanted = torch.zeros(logits.shape)  # (states * graphs, D)
        for row, (_, share) in enumerate(judged):
            wanted[row, : len(share)] = torch.from_numpy(share)
        wanted = wanted.to(self._device)
        loss = -(wanted * finite(logits.log_softmax(1))).sum(1).mean() * (
            len(own) / self.settings.states
        )
        torch.autograd.backward(loss)
        agreement = wanted.gather(1, logits.argmax(1, keepdim=True)).mean()
        told = torch.stack([loss.detach(), agreement * (len(own) / self.settings.states)])
        return told.cpu().double()

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
            there, start, target = walked.end, walked.start, walked.target
        else:
            episode = self._episodes[index]
            episode.reset()
            order, start = episode.order, episode.state.placement
            visited[order[:at]] = True
            if (start == world.single).all():
                target = renumbered(target, start, order, classes)
            else:
                work = world.graph.run.mean(axis=1, dtype=np.float64)
                target = matched(target, start, work, classes)
            there = target
        is_wrong = rng.random(world.num_groups) < self.settings.wrong
        devices = np.where(visited, np.where(is_wrong, world.random(rng), there), start)
        return _Drawn(index, devices.astype(np.int32), visited, int(order[at]), target)

    def _judged(self, drawn: _Drawn) -> tuple[State, NDArray[np.float32]]:
        """Return a state, and how good each device is for its group."""
        index, devices, visited, current, target = drawn
        world = self._worlds[index]
        ahead = world.ahead(devices, current) if self.network.shape.is_ahead else None
        state = State(devices, visited, current, world.outcome(devices), ahead)
        return state, self._shares(world, np.where(visited, devices, target), current)

    def _shares(self, world: World, devices: Placement, current: int) -> NDArray[np.float32]:
        """Return how good each device is if what is not visited goes where the target has it."""
        allowed = world.graph.allowed[current]
        cost = np.full(len(allowed), np.inf)
        for device in np.flatnonzero(allowed).tolist():
            devices[current] = device
            cost[device] = world.log_time(devices)
        share = np.exp(-(cost - cost.min()) / self.settings.blur)
        share /= share.sum()
        return np.asarray(share, dtype=np.float32)

    def _walk(self) -> None:
        """Let the policy play, to learn from where it comes to."""
        chosen = self._choose()
        episodes = [self._episodes[index] for index in chosen]
        for episode in episodes:
            episode.reset()
        starts = [episode.state.placement for episode in episodes]
        ranks, device = self._ranks, self._device
        play_together(self.network, episodes, generator=None, ranks=ranks, device=device)
        ends = ranks.rows([episode.state.placement for episode in episodes])
        for index, episode, start, end in zip(chosen, episodes, starts, ends, strict=True):
            seed = int(self._rng.integers(2**62))
            target = self._tutors[index].improved(end, steps=self.settings.own_steps, seed=seed)
            self._walked[index].append(_Walked(episode.order, start, end, target))
