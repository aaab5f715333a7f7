"""A sequence-to-sequence LSTM with attention that reads groups and writes their devices.

Mirhoseini et al., 2017, section 3.2: an encoder reads an embedding of each group; a decoder of as
many steps writes a device at each, fed the device written last, and looks back at the encoder's
states (Bahdanau et al., 2015). A group's embedding is its own features and, as theirs, which groups
it hangs together with: a row of the adjacency matrix, by position in the order. A graph of other
size or order shows it other positions: that is what Placeto does without.

Departures: groups are those that Placeto gets, their op types are not told; logits are squashed by
a scaled ``tanh`` as in Bello et al., 2017, whose training this is.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from dplace.graph_io.group_graph import GROUP_FEATURES, GroupGraph
from dplace.policies.placeto.updates import entropy_of

__all__ = ["Drawn", "RnnNetwork", "RnnShape", "sequence_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RnnShape:
    """What a network is made of."""

    max_groups: int
    """Longest sequence; also how many positions a row of the adjacency matrix has."""
    num_devices: int
    width: int = 64
    """Of both LSTMs; the paper's is not told, later ones have 512."""
    squash: float = 5.0
    """Logits lie between minus and plus this."""


def sequence_of(graph: GroupGraph, order: NDArray[np.int64], max_groups: int) -> Tensor:
    """Return what the encoder reads, shape ``(num_groups, features + 2 * max_groups)``.

    Args:
        graph: The groups.
        order: Every group once.
        max_groups: As in ``RnnShape``.
    """
    num = graph.num_groups
    position = np.empty(num, dtype=np.int64)
    position[order] = np.arange(num)
    adjacency = np.zeros((num, 2 * max_groups), dtype=np.float32)
    source, target = position[graph.edges].T
    adjacency[source, target] = 1.0
    adjacency[target, max_groups + source] = 1.0
    return torch.from_numpy(np.concatenate([graph.features[order], adjacency], axis=1))


class Drawn(NamedTuple):
    """Placements of one graph."""

    devices: Tensor
    """Shape ``(num_samples, num_groups)``, int64, in the order of the sequence."""
    log_probability: Tensor
    """Shape ``(num_samples,)``: of each whole placement."""
    entropy: Tensor
    """Shape ``(num_samples,)``: mean over groups, in nats."""


class RnnNetwork(nn.Module):
    """Writes a device for each group of a sequence."""

    def __init__(self, shape: RnnShape, *, generator: torch.Generator | None = None) -> None:
        """Make a network with random weights, drawn from ``generator`` or torch's own."""
        super().__init__()
        self.shape = shape
        width = shape.width
        self.embed = nn.Linear(len(GROUP_FEATURES) + 2 * shape.max_groups, width)
        self.encoder = nn.LSTM(width, width, bidirectional=True)
        self.bridge = nn.Linear(2 * width, width)
        self.written = nn.Embedding(shape.num_devices + 1, width)
        self.decoder = nn.LSTMCell(3 * width, width)
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(2 * width, width, bias=False)
        self.value = nn.Linear(width, 1, bias=False)
        self.out = nn.Linear(3 * width, shape.num_devices)
        for parameter in self.parameters():  # as in the paper's successors
            nn.init.uniform_(parameter, -0.1, 0.1, generator=generator)

    def forward(
        self,
        sequence: Tensor,
        allowed: Tensor,
        *,
        num_samples: int,
        generator: torch.Generator | None,
    ) -> Drawn:
        """Draw placements; without a generator the most probable device of each step is taken.

        Args:
            sequence: As ``sequence_of`` returns it.
            allowed: Shape ``(num_groups, num_devices)``, bool, in the order of the sequence.
            num_samples: How many.
            generator: Draws devices by their probabilities.
        """
        read, (hidden, _) = self.encoder(torch.tanh(self.embed(sequence)))  # (groups, 2 * width)
        keys = self.key(read)  # (groups, width)
        state = torch.tanh(self.bridge(hidden.flatten())).expand(num_samples, -1)
        memory = torch.zeros_like(state)
        last = torch.full((num_samples,), self.shape.num_devices, device=sequence.device)
        devices, log_shares, entropies = [], [], []
        for step in range(len(sequence)):
            # The decoder is at the group that it writes for, as each op has its place in both.
            given = torch.cat([self.written(last), read[step].expand(num_samples, -1)], dim=1)
            state, memory = self.decoder(given, (state, memory))
            scores = self.value(torch.tanh(keys[None] + self.query(state)[:, None])).squeeze(2)
            context = scores.softmax(1) @ read  # (samples, 2 * width)
            squashed = self.shape.squash * torch.tanh(self.out(torch.cat([state, context], dim=1)))
            logits = squashed.masked_fill(~allowed[step], -torch.inf)
            log_share = logits.log_softmax(1)  # (samples, D)
            if generator is None:
                last = logits.argmax(1)
            else:
                # Drawn on the CPU, so that equal seeds give equal draws wherever the network is.
                shares = log_share.detach().exp().double().cpu()
                last = torch.multinomial(shares, 1, generator=generator).squeeze(1).to(last.device)
            devices.append(last)
            log_shares.append(log_share.gather(1, last[:, None]).squeeze(1))
            entropies.append(entropy_of(log_share))
        return Drawn(
            torch.stack(devices, dim=1),
            torch.stack(log_shares).sum(0),
            torch.stack(entropies).mean(0),
        )
