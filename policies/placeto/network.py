"""The policy network of Placeto: messages along the edges, four pools, a classifier of devices.

What each node sees is told from every device's point of view in turn ("is the group on this device;
how long would it take here; how long to get its values here"), and all devices share the weights.
So one network serves any number of unlike devices, and devices that are alike are treated alike.

Departures from the paper: the points of view stand for its one-hot device; a classifier scores one
device at a time, its features and the mean over all devices beside it, instead of a fixed number;
pools are means, with the share of the groups that they hold beside them, instead of sums, and
messages are scaled by the root of how many arrive, so that graphs of all sizes compare.
"""

from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from dplace.errors import UsageError
from dplace.graph_io.group_graph import DEVICE_FEATURES, GROUP_FEATURES
from dplace.policies.placeto.batch import Batch, Edges, Moment

__all__ = ["MOMENT_FEATURES", "NODE_FEATURES", "PlacetoNetwork", "Pool", "Shape", "features_of"]

Pool = Literal["ancestors", "descendants", "parallel", "self"]

NODE_FEATURES = (
    *GROUP_FEATURES,
    *("visited", "current", "start", "run-here"),
    *("on", "run", "allowed", "away"),
)
"""Of a group from a device's point of view. ``start`` is told from the current group's start,
``run-here`` is the time where the group is, ``run`` that on the device, ``away`` that of bringing
its values there; the last three times through ``log1p``."""


MOMENT_FEATURES = ("busy", "full", "ready", "free", "finish", "ahead")
"""Of a device at one step: how long it works and how full it is; when the current group has its
inputs there, when what was visited there ends, and when the group would end there; and what going
there would change in log run time, in hundredths."""


MAX_ROUNDS = 1000
"""More than any graph of groups is long; a file that asks for more would never come to an end."""

AHEAD = 0.003
"""By how much in log run time a choice must be better to seem e times as good."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What a network is made of; a checkpoint needs nothing else to be built again."""

    width: int = 8
    """Numbers in a message."""
    rounds: int = 4
    """How many edges a message travels, in each direction; 0 for none. The paper's are 8; 4 are as
    good here and take half the time."""
    pools: tuple[Pool, ...] = get_args(Pool)
    """What the classifier sees beside the devices, each at most once."""
    moments: bool = True
    """Whether it sees what list scheduling decides by: ``ready``, ``free`` and ``finish``."""
    is_ahead: bool = True
    """Whether it sees what the simulator says of each choice: ``ahead``. The paper's sees neither
    of the two."""

    def __post_init__(self) -> None:
        if self.width < 1:
            raise UsageError(f"width must be at least 1, got {self.width}")
        if not 0 <= self.rounds <= MAX_ROUNDS:
            raise UsageError(f"rounds must be from 0 to {MAX_ROUNDS}, got {self.rounds}")
        if sorted(set(self.pools) & set(get_args(Pool))) != sorted(self.pools):
            raise UsageError(f"pools must be some of {get_args(Pool)}, got {self.pools}")


def two_layers(width_in: int, width: int) -> nn.Sequential:
    """Return two layers with ReLU, as all functions of the paper are."""
    return nn.Sequential(nn.Linear(width_in, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())


def features_of(batch: Batch, moment: Moment) -> Tensor:
    """Return what the network sees of groups, shape ``(N, D, len(NODE_FEATURES))``."""
    num_devices = batch.present.shape[1]
    at = moment.placement[:, None]  # (N, 1)
    current = torch.zeros_like(batch.sent)
    current[moment.current] = 1.0
    start = moment.start - moment.start[moment.current][batch.graph_of]  # (N,)
    here = torch.log1p(batch.run.gather(1, at)).squeeze(1)  # (N,)
    shared = torch.cat(
        [batch.groups, torch.stack([moment.visited, current, start, here], dim=1)], dim=1
    )  # (N, shared features)
    on = torch.arange(num_devices, device=at.device)[None] == at  # (N, D)
    link = batch.link[batch.graph_of, moment.placement]  # (N, D), from where each group is
    of_device = torch.stack(
        [
            on.float(),
            torch.log1p(batch.run),
            batch.allowed.float(),
            torch.log1p(batch.sent[:, None] * link),
        ],
        dim=2,
    )  # (N, D, 4)
    return torch.cat([shared[:, None].expand(-1, num_devices, -1), of_device], dim=2)


def of_moment(batch: Batch, moment: Moment) -> Tensor:
    """Return ``ready``, ``free`` and ``finish`` of devices at this step, shape ``(B, D, 3)``.

    This is what list scheduling decides by (HEFT, Topcuoglu et al., 2002; Doppler, 2026, shows its
    policy the like): three moments, in mean groups and told from the earliest end anywhere.
    """
    num_graphs, num_devices = batch.present.shape
    end = moment.end * moment.length[batch.graph_of]  # (N,)
    floor = end.new_zeros(num_graphs, num_devices)
    feeding = moment.current[batch.graph_of[batch.feeds[1]]] == batch.feeds[1]
    source, graph = batch.feeds[0, feeding], batch.graph_of[batch.feeds[1, feeding]]
    away = batch.link[graph, moment.placement[source]]  # (edges of current groups, D)
    arrival = end[source, None] + batch.feed_time[feeding, None] * away
    ready = floor.scatter_reduce(0, graph[:, None].expand_as(arrival), arrival, "amax")
    cell = batch.graph_of * num_devices + moment.placement  # (N,)
    free = floor.flatten().scatter_reduce(0, cell, end * moment.visited, "amax").view_as(floor)
    finish = torch.maximum(ready, free) + batch.run[moment.current]
    earliest = finish.masked_fill(~batch.allowed[moment.current], torch.inf).amin(1, keepdim=True)
    moments = torch.stack([ready, free, finish], dim=2) - earliest[:, :, None]
    return _damped(moments)


def _damped(figures: Tensor) -> Tensor:
    return figures.sign() * torch.log1p(figures.abs())


class Messages(nn.Module):
    """Rounds of messages along one kind of edges: ``e <- g(sum of f(e) over neighbours) + x``."""

    def __init__(self, edges: Edges, shape: Shape) -> None:
        super().__init__()
        self.edges = edges
        self.rounds = shape.rounds
        self.send = two_layers(shape.width, shape.width)
        self.receive = two_layers(shape.width, shape.width)

    def forward(self, batch: Batch, own: Tensor) -> Tensor:
        """Return embeddings; ``own`` and they are of shape ``(N, D, width)``."""
        embedding = own
        for _ in range(self.rounds):
            arrived = batch.arrivals(self.edges, self.send(embedding).flatten(1))
            embedding = self.receive(arrived.view_as(own)) + own
        return embedding


class PlacetoNetwork(nn.Module):
    """Scores devices for the current group of each graph."""

    def __init__(
        self, shape: Shape | None = None, *, generator: torch.Generator | None = None
    ) -> None:
        """Make a network with random weights, drawn from ``generator`` or torch's own."""
        super().__init__()
        self.shape = shape or Shape()
        width = self.shape.width
        self.transform = two_layers(len(NODE_FEATURES), width)
        self.down = Messages("feeds", self.shape)
        self.up = Messages("fed_by", self.shape)
        others = [name for name in self.shape.pools if name != "self"]
        self.before_pool = nn.ModuleDict({n: two_layers(2 * width, 2 * width) for n in others})
        self.after_pool = nn.ModuleDict({n: two_layers(2 * width, 2 * width) for n in others})
        pooled = 2 * width * len(self.shape.pools)
        told = 2 + 3 * self.shape.moments + self.shape.is_ahead
        seen = pooled + len(others) + len(DEVICE_FEATURES) + told
        # The paper's sizes: twice the four pools of two directions, then once.
        self.of_device = nn.Linear(seen, 16 * width)
        self.of_all = nn.Linear(seen, 16 * width, bias=False)
        last = nn.Linear(8 * width, 1)
        self.classify = nn.Sequential(nn.ReLU(), nn.Linear(16 * width, 8 * width), nn.ReLU(), last)
        # torch's own weights are so small that after two rounds nothing is left of a message; with
        # those for ReLU (He et al., 2015) eight rounds make it a hundred times larger.
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight, generator=generator)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
        if self.shape.is_ahead:
            nn.init.zeros_(last.weight)

    def forward(self, batch: Batch, moment: Moment) -> Tensor:
        """Return unnormalised log-probabilities of devices, ``-inf`` where masked; ``(B, D)``."""
        own = self.transform(features_of(batch, moment))  # (N, D, width)
        embedding = torch.cat([self.down(batch, own), self.up(batch, own)], dim=2)
        seen = [*self._pools(batch, moment, embedding), batch.devices, moment.usage]
        if self.shape.moments:
            seen.append(of_moment(batch, moment))
        if self.shape.is_ahead:
            seen.append(_damped(100.0 * moment.ahead)[:, :, None])
        each = torch.cat(seen, dim=2)  # (B, D, seen)
        present = batch.present[:, :, None]
        mean = (each * present).sum(1) / present.sum(1)  # (B, seen)
        hidden = self.of_device(each) + self.of_all(mean)[:, None]
        logits: Tensor = self.classify(hidden).squeeze(2)  # (B, D)
        if self.shape.is_ahead:
            # The network says by how much to believe otherwise: before it has learned anything, the
            # device that is best if all else stays as it is gets most.
            logits = logits - moment.ahead / AHEAD
        return logits.masked_fill(~batch.allowed[moment.current], -torch.inf)

    def _pools(self, batch: Batch, moment: Moment, embedding: Tensor) -> list[Tensor]:
        """Return each pool, shape ``(B, D, 2 * width)``, and the shares of groups in them."""
        members = _members(batch, moment)
        found: list[Tensor] = []
        for name in self.shape.pools:
            if name == "self":
                found.append(embedding[moment.current])
                continue
            mask = members[name]  # (N,)
            counts = batch.sums(mask[:, None])  # (B, 1)
            sent = self.before_pool[name](embedding) * mask[:, None, None]
            mean = batch.sums(sent.flatten(1)) / counts.clamp(min=1)
            found.append(self.after_pool[name](mean.view(-1, *embedding.shape[1:])))
            share = counts / batch.sizes[:, None]
            found.append(share[:, None].expand(-1, embedding.shape[1], -1))
        return found


def _members(batch: Batch, moment: Moment) -> dict[Pool, Tensor]:
    """Return which groups each pool holds: 1 or 0, shape ``(N,)``."""
    own = (moment.current - batch.first).tolist()
    before = torch.cat([reach[:, at] for reach, at in zip(batch.reach, own, strict=True)])
    after = torch.cat([reach[at] for reach, at in zip(batch.reach, own, strict=True)])
    beside = ~(before | after)
    beside[moment.current] = False
    return {"ancestors": before.float(), "descendants": after.float(), "parallel": beside.float()}
