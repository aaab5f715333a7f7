"""The policy network of Placeto: messages along the edges, four pools, a classifier of devices.

What each node sees is told from every device's point of view in turn ("is the group on this device;
how long would it take here; how long to get its values here"), and all devices share the weights.
So one network serves any number of unlike devices, and devices that are alike are treated alike.

Departures from the paper: the points of view stand for its one-hot device; a classifier scores one
device at a time, its features and the mean over all devices beside it, instead of a fixed number;
pools are means, with the share of the groups that they hold beside them, instead of sums, and
messages are scaled by the root of how many arrive, so that graphs of all sizes compare.
"""

import torch
from torch import Tensor, nn

from dplace.policies.placeto.batch import Batch, Edges, Moment
from dplace.policies.placeto.shape import AHEAD, NODE_FEATURES, Pool, Shape

__all__ = ["PlacetoNetwork", "features_of", "of_moment"]


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
        others = self.shape.others
        self.before_pool = nn.ModuleDict({n: two_layers(2 * width, 2 * width) for n in others})
        self.after_pool = nn.ModuleDict({n: two_layers(2 * width, 2 * width) for n in others})
        seen = self.shape.num_seen
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
