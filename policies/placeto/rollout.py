"""Episodes of many graphs side by side: one pass of the network a step."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor

from dplace.policies.placeto.batch import Batch, moment
from dplace.policies.placeto.episode import Episode, State
from dplace.policies.placeto.network import PlacetoNetwork
from dplace.policies.placeto.policy import TIE
from dplace.policies.placeto.weights import no_number

__all__ = ["Played", "Seats", "one_thread", "play"]


@contextmanager
def one_thread() -> Iterator[None]:
    """Let torch and dgl compute in one thread on the CPU meanwhile.

    Tensors are too small to share out: two threads on two busy cores take ten times as long as
    one. And sums do not depend on the number of cores.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class Played(NamedTuple):
    """What happened in the episodes of a batch; ``T`` is the length of the longest."""

    states: list[list[State]]
    """For each step, the state of each graph's episode."""
    actions: Tensor
    """Shape ``(T, B)``, int64: the device that was chosen."""
    rewards: Tensor
    """Shape ``(T, B)``; 0 after the end."""
    is_on: Tensor
    """Shape ``(T, B)``: 1 for steps of episodes that were not over."""
    own: slice = slice(None)
    """Which of the ``B`` states and actions are of, where other processes played the rest."""


class Seats(NamedTuple):
    """Where some episodes sit among those that several processes play."""

    own: slice
    num_episodes: int
    num_devices: int
    num_steps: int

    def noise(self, generator: torch.Generator) -> Tensor:
        """Return what decides a draw for each own episode and any device.

        Divided by it, the largest share is drawn: that is how ``torch.multinomial`` draws one. It
        takes the same out of the generator as a draw for all episodes.
        """
        every = torch.empty(self.num_episodes, self.num_devices, dtype=torch.float64)
        return every.exponential_(generator=generator)[self.own]


def _likeliest(logits: Tensor, here: Tensor) -> Tensor:
    """Return the most probable devices, shape ``(B,)``; rounding does not choose among equals."""
    close = logits >= logits.amax(1, keepdim=True) - TIE  # (B, D)
    stays = close.gather(1, here[:, None]).squeeze(1)
    return torch.where(stays, here, close.int().argmax(1))


@one_thread()
@torch.no_grad()
def play(
    network: PlacetoNetwork,
    batch: Batch,
    episodes: Sequence[Episode],
    *,
    generator: torch.Generator | None,
    seats: Seats | None = None,
) -> Played:
    """Play episodes, just reset, to their ends.

    Args:
        network: The policy.
        batch: The graphs of the episodes, in the same order.
        episodes: What is played.
        generator: Draws devices by their probabilities; without it the most probable is taken; of
            equals the one where the group is, or else the lowest.
        seats: Where the episodes sit, if other processes play more of them.

    Raises:
        InputError: The weights are so large that a score is no number.
    """
    states: list[list[State]] = []
    actions: list[Tensor] = []
    rewards: list[list[float]] = []
    is_on: list[list[float]] = []
    while not all(episode.is_over for episode in episodes):
        states.append([episode.seen(is_ahead=network.shape.is_ahead) for episode in episodes])
        # Drawn on the CPU, so that equal seeds give equal draws wherever the network is.
        now = moment(batch, states[-1])
        logits = network(batch, now).cpu()  # (B, D)
        masked = ~batch.allowed[now.current].cpu()
        if not logits.masked_fill(masked, 0.0).isfinite().all():
            raise no_number("the network in training")
        if generator is None:
            chosen = _likeliest(logits, now.placement[now.current].cpu())
        else:
            shares = logits.double().softmax(1)
            if seats is None:
                chosen = torch.multinomial(shares, 1, generator=generator).squeeze(1)  # (B,)
            else:
                chosen = (shares / seats.noise(generator)[:, : shares.shape[1]]).argmax(1)
        actions.append(chosen)
        is_on.append([float(not episode.is_over) for episode in episodes])
        rewards.append(
            [
                0.0 if episode.is_over else episode.step(device)
                for episode, device in zip(episodes, chosen.tolist(), strict=True)
            ]
        )
    if seats is not None and generator is not None:
        for _ in range(len(states), seats.num_steps):  # others have longer episodes
            seats.noise(generator)
    return Played(states, torch.stack(actions), torch.tensor(rewards), torch.tensor(is_on))
