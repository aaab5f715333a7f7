"""Many graphs and the steps that their episodes are at, as tensors for the network.

In shapes, ``B`` is the number of graphs, ``N`` that of all their groups, ``D`` the largest number
of devices. Devices that a graph does not have are absent: no figure of them reaches a logit.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import dgl
import numpy as np
import torch
from dgl import DGLGraph
from torch import Tensor

from dplace.graph_io.group_graph import GroupGraph
from dplace.graph_io.to_dgl import to_dgl
from dplace.policies.placeto.episode import State
from dplace.policies.placeto.world import reach

__all__ = ["Batch", "Edges", "Moment", "make_batch", "moment"]

Edges = Literal["feeds", "fed_by"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Batch:
    """What stays the same for whole episodes of some graphs."""

    graphs: dict[Edges, DGLGraph]
    """Groups with one kind of edges, all graphs together; always on the CPU, for the only wheels
    of dgl know nothing else."""
    feeds: Tensor
    """Shape ``(2, num_edges)``: from which row of ``N`` to which the ``feeds`` edges go."""
    feed_time: Tensor
    """Shape ``(num_edges,)``: mean time that the values of each take, in mean groups."""
    shrink: dict[Edges, Tensor]
    """Shape ``(N, 1)``: one over the root of the number of edges that end at each group."""
    sizes: Tensor
    """Shape ``(B,)``: groups of each graph."""
    graph_of: Tensor
    """Shape ``(N,)``: the graph of each group."""
    groups: Tensor
    """Shape ``(N, features)``."""
    sent: Tensor
    """Shape ``(N,)``: time of sending what others read, in mean groups."""
    run: Tensor
    """Shape ``(N, D)``: time on each device, in mean groups."""
    allowed: Tensor
    """Shape ``(N, D)``, bool: where each group may go."""
    devices: Tensor
    """Shape ``(B, D, features)``."""
    present: Tensor
    """Shape ``(B, D)``, bool: which devices a graph has."""
    link: Tensor
    """Shape ``(B, D, D)``: time of a transfer from row to column against the mean pair's."""
    reach: tuple[Tensor, ...]
    """For each graph, bool and of shape ``(groups, groups)``: whether the row comes before the
    column."""

    @property
    def num_graphs(self) -> int:
        """Return the number of graphs."""
        return len(self.sizes)

    @property
    def first(self) -> Tensor:
        """Return the first group of each graph, shape ``(B,)``."""
        return self.sizes.cumsum(0) - self.sizes

    def repeat(self, times: int) -> "Batch":
        """Return the same graphs several times over, for several steps at once."""
        num = self.num_graphs
        offsets = torch.arange(times, device=self.sizes.device).repeat_interleave(
            len(self.graph_of)
        )
        return Batch(
            graphs={edges: dgl.batch([graph] * times) for edges, graph in self.graphs.items()},
            feeds=torch.cat(
                [self.feeds + len(self.graph_of) * index for index in range(times)], dim=1
            ),
            feed_time=self.feed_time.repeat(times),
            shrink={edges: shrink.repeat(times, 1) for edges, shrink in self.shrink.items()},
            sizes=self.sizes.repeat(times),
            graph_of=self.graph_of.repeat(times) + offsets * num,
            groups=self.groups.repeat(times, 1),
            sent=self.sent.repeat(times),
            run=self.run.repeat(times, 1),
            allowed=self.allowed.repeat(times, 1),
            devices=self.devices.repeat(times, 1, 1),
            present=self.present.repeat(times, 1),
            link=self.link.repeat(times, 1, 1),
            reach=self.reach * times,
        )

    def arrivals(self, edges: Edges, rows: Tensor) -> Tensor:
        """Return for each group the sum of the rows of its neighbours, times a factor.

        The factor is one over the root of their number. Both are of shape ``(N, any)``.
        """
        if rows.is_cpu:
            sums: Tensor = dgl.ops.copy_u_sum(self.graphs[edges], rows)
        else:
            sums = _sums_by_torch(self.feeds if edges == "feeds" else self.feeds.flip(0), rows)
        return sums * self.shrink[edges]

    def sums(self, rows: Tensor) -> Tensor:
        """Return the sum over each graph's groups: ``(N, any)`` to ``(B, any)``."""
        if rows.is_cpu:
            sums: Tensor = dgl.ops.segment_reduce(self.sizes, rows, "sum")
            return sums
        return rows.new_zeros(self.num_graphs, rows.shape[1]).index_add(0, self.graph_of, rows)


def _sums_by_torch(edges: Tensor, rows: Tensor) -> Tensor:
    source, target = edges
    return torch.zeros_like(rows).index_add(0, target, rows[source])


class Moment(NamedTuple):
    """What the policy sees at one step of each graph's episode."""

    placement: Tensor
    """Shape ``(N,)``, int64: the device of each group."""
    visited: Tensor
    """Shape ``(N,)``: 1 for groups that the episode has passed."""
    current: Tensor
    """Shape ``(B,)``, int64: the group that is to be placed, as a row of ``N``."""
    start: Tensor
    """Shape ``(N,)``: when each group starts, as a share of the makespan."""
    end: Tensor
    """Shape ``(N,)``: when each group ends, as a share of the makespan."""
    length: Tensor
    """Shape ``(B,)``: the makespan in mean groups."""
    usage: Tensor
    """Shape ``(B, D, 2)``: how long each device works and how full it is."""
    ahead: Tensor
    """Shape ``(B, D)``: what each choice would change in log run time; 0 where nobody asked."""


def make_batch(graphs: Sequence[GroupGraph], *, device: torch.device | str = "cpu") -> Batch:
    """Return graphs as one batch on a device of torch's."""
    parts = [to_dgl(graph) for graph in graphs]
    whole: DGLGraph = dgl.batch(parts)
    sizes = whole.batch_num_nodes("group")  # (B,)
    counts = [graph.num_devices for graph in graphs]
    most = max(counts)
    num_graphs, num_groups = len(graphs), int(sizes.sum())
    run = torch.zeros(num_groups, most)
    allowed = torch.zeros(num_groups, most, dtype=torch.bool)
    features = whole.nodes["device"].data["features"]
    devices = torch.zeros(num_graphs, most, features.shape[1])
    present = torch.zeros(num_graphs, most, dtype=torch.bool)
    link = torch.zeros(num_graphs, most, most)
    begun = (sizes.cumsum(0) - sizes).tolist()
    for index, part in enumerate(parts):
        num = counts[index]
        rows = slice(begun[index], begun[index] + graphs[index].num_groups)
        run[rows, :num] = part.edges["runs_on"].data["run"].reshape(-1, num)
        allowed[rows, :num] = part.edges["runs_on"].data["allowed"].reshape(-1, num) > 0
        devices[index, :num] = part.nodes["device"].data["features"]
        present[index, :num] = True
        link[index, :num, :num] = part.edges["link"].data["time"].reshape(num, num)
    feeds = torch.stack(whole.edges(etype="feeds"))  # (2, num_edges)
    return Batch(
        graphs={"feeds": whole["feeds"], "fed_by": whole["fed_by"]},
        feeds=feeds.to(device),
        feed_time=whole.edges["feeds"].data["sent"].to(device),
        shrink={
            "feeds": _shrink(feeds[1], num_groups).to(device),
            "fed_by": _shrink(feeds[0], num_groups).to(device),
        },
        sizes=sizes.to(device),
        graph_of=torch.arange(num_graphs).repeat_interleave(sizes).to(device),
        groups=whole.nodes["group"].data["features"].to(device),
        sent=whole.nodes["group"].data["sent"].to(device),
        run=run.to(device),
        allowed=allowed.to(device),
        devices=devices.to(device),
        present=present.to(device),
        link=link.to(device),
        reach=tuple(torch.from_numpy(reach(graph)).to(device) for graph in graphs),
    )


def _shrink(ends: Tensor, num_groups: int) -> Tensor:
    counts = torch.bincount(ends, minlength=num_groups)
    return counts.clamp(min=1).float().rsqrt()[:, None]


def moment(batch: Batch, states: Sequence[State]) -> Moment:
    """Return the states of all graphs, in the order of the batch, as tensors."""
    device = batch.sizes.device
    most = batch.present.shape[1]
    usage = np.zeros((len(states), most, 2), dtype=np.float32)
    ahead = np.zeros((len(states), most), dtype=np.float32)
    for index, state in enumerate(states):
        num = len(state.outcome.busy)
        usage[index, :num, 0] = state.outcome.busy
        usage[index, :num, 1] = state.outcome.full
        if state.ahead is not None:
            ahead[index, :num] = state.ahead
    current = np.array([state.current for state in states], dtype=np.int64)

    def joined(arrays: list[np.ndarray], dtype: torch.dtype) -> Tensor:
        return torch.from_numpy(np.concatenate(arrays)).to(device, dtype)

    return Moment(
        placement=joined([state.placement for state in states], torch.int64),
        visited=joined([state.visited for state in states], torch.float32),
        current=torch.from_numpy(current).to(device) + batch.first,
        start=joined([state.outcome.start for state in states], torch.float32),
        end=joined([state.outcome.end for state in states], torch.float32),
        length=torch.tensor([state.outcome.length for state in states]).to(device, torch.float32),
        usage=torch.from_numpy(usage).to(device),
        ahead=torch.from_numpy(ahead).to(device),
    )
