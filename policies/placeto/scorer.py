"""What a trained network says of one graph, in NumPy: what placing needs, without torch.

The same figures as network.py gives, which is to be read first; a test holds that they are equal.
Loading torch and dgl takes longer than placing a model of a thousand ops with this.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from dplace.graph_io.group_graph import GROUP_FEATURES, GroupGraph
from dplace.policies.placeto.episode import State
from dplace.policies.placeto.shape import AHEAD, NODE_FEATURES, Pool
from dplace.policies.placeto.weights import Weights, no_number
from dplace.policies.placeto.world import reach

__all__ = ["Scorer"]

Float = NDArray[np.float32]

DYNAMIC = {name: NODE_FEATURES.index(name) for name in NODE_FEATURES[len(GROUP_FEATURES) :]}
"""Where the features are that are not of the graph alone."""


class Scorer:
    """Scores devices for the current group of one graph."""

    def __init__(self, weights: Weights, graph: GroupGraph) -> None:
        self.name = weights.name
        self.shape = weights.shape
        self.graph = graph
        # Transposed once, so that rows are multiplied from the left.
        self._arrays: dict[str, NDArray[Any]] = {
            name: np.ascontiguousarray(array.T) for name, array in weights.arrays.items()
        }
        num, num_devices = graph.num_groups, graph.num_devices
        self._run = np.log1p(graph.run)
        self._features = np.zeros((num, num_devices, len(NODE_FEATURES)), dtype=np.float32)
        self._features[:, :, : len(GROUP_FEATURES)] = graph.features[:, None]
        self._features[:, :, DYNAMIC["run"]] = self._run
        self._features[:, :, DYNAMIC["allowed"]] = graph.allowed
        source, target = graph.edges.T
        self._down = _neighbours(target, source, num)
        self._up = _neighbours(source, target, num)
        self._reach = reach(graph)
        # Edges by where they end.
        order = np.argsort(target, kind="stable")
        self._feeders, self._feed_time = source[order], graph.edge_sent[order]
        self._fed = np.searchsorted(target[order], np.arange(num + 1))

    def logits(self, state: State) -> Float:
        """Return unnormalised log-probabilities of devices, ``-inf`` where masked; ``(D,)``.

        Raises:
            InputError: The weights are so large that a score is no number.
            ValueError: The network looks ahead and the state does not.
        """
        with np.errstate(over="ignore", invalid="ignore"):  # told below, once
            logits = self._logits(state)
        allowed = self.graph.allowed[state.current]
        if not np.isfinite(logits[allowed]).all():
            raise no_number(self.name)
        logits[~allowed] = -np.inf
        return logits

    def _logits(self, state: State) -> Float:
        """Return the same, told of every device."""
        shape, graph = self.shape, self.graph
        num, num_devices = graph.num_groups, graph.num_devices
        own = self._two_layers("transform", self._seen(state).reshape(num * num_devices, -1))
        embedding = np.concatenate(
            [self._messages("down", self._down, own), self._messages("up", self._up, own)], axis=1
        ).reshape(num, num_devices, -1)
        usage = np.stack([state.outcome.busy, state.outcome.full], axis=1)  # (D, 2)
        seen = [*self._pools(state.current, embedding), graph.device_features, usage]
        if shape.moments:
            seen.append(self._of_moment(state))
        if shape.is_ahead:
            if state.ahead is None:
                raise ValueError("expected a state that looks ahead")
            seen.append(_damped(np.float32(100.0) * state.ahead)[:, None])
        each = np.concatenate(seen, axis=1)  # (D, seen)
        arrays = self._arrays
        hidden = each @ arrays["of_device.weight"] + arrays["of_device.bias"]
        hidden += each.mean(axis=0) @ arrays["of_all.weight"]
        np.maximum(hidden, 0.0, out=hidden)
        hidden = hidden @ arrays["classify.1.weight"] + arrays["classify.1.bias"]
        np.maximum(hidden, 0.0, out=hidden)
        logits: Float = (hidden @ arrays["classify.3.weight"])[:, 0] + arrays["classify.3.bias"]
        if shape.is_ahead and state.ahead is not None:
            logits -= state.ahead / np.float32(AHEAD)
        return logits

    def _seen(self, state: State) -> Float:
        """Return what is seen of groups, shape ``(N, D, len(NODE_FEATURES))``; used again."""
        graph, features, placement = self.graph, self._features, state.placement
        rows = np.arange(graph.num_groups)
        start = state.outcome.start
        features[:, :, DYNAMIC["visited"]] = state.visited[:, None]
        features[:, :, DYNAMIC["current"]] = 0.0
        features[state.current, :, DYNAMIC["current"]] = 1.0
        features[:, :, DYNAMIC["start"]] = (start - start[state.current])[:, None]
        features[:, :, DYNAMIC["run-here"]] = self._run[rows, placement][:, None]
        features[:, :, DYNAMIC["on"]] = 0.0
        features[rows, placement, DYNAMIC["on"]] = 1.0
        features[:, :, DYNAMIC["away"]] = np.log1p(graph.sent[:, None] * graph.link[placement])
        return features

    def _two_layers(self, name: str, rows: Float) -> Float:
        arrays = self._arrays
        hidden = rows @ arrays[f"{name}.0.weight"]
        hidden += arrays[f"{name}.0.bias"]
        np.maximum(hidden, 0.0, out=hidden)
        found: Float = hidden @ arrays[f"{name}.2.weight"]
        found += arrays[f"{name}.2.bias"]
        return np.maximum(found, 0.0, out=found)

    def _messages(self, name: str, neighbours: csr_array, own: Float) -> Float:
        """Return embeddings; ``own`` and they are of shape ``(N * D, width)``."""
        num = self.graph.num_groups
        embedding: Float = own
        for _ in range(self.shape.rounds):
            sent = self._two_layers(f"{name}.send", embedding)
            arrived = (neighbours @ sent.reshape(num, -1)).reshape(own.shape)
            embedding = self._two_layers(f"{name}.receive", arrived) + own
        return embedding

    def _pools(self, current: int, embedding: Float) -> list[Float]:
        """Return each pool, shape ``(D, 2 * width)``, and the shares of groups in them."""
        num, num_devices, width = embedding.shape
        found: list[Float] = []
        for name in self.shape.pools:
            if name == "self":
                found.append(embedding[current])
                continue
            members = self._members(name, current)
            rows = embedding[members].reshape(-1, width)
            sent = self._two_layers(f"before_pool.{name}", rows).reshape(-1, num_devices, width)
            mean = sent.sum(axis=0) / np.float32(max(len(sent), 1))
            found.append(self._two_layers(f"after_pool.{name}", mean))
            found.append(np.full((num_devices, 1), len(sent) / num, dtype=np.float32))
        return found

    def _members(self, pool: Pool, current: int) -> NDArray[np.bool_]:
        """Return which groups a pool holds, shape ``(N,)``."""
        before: NDArray[np.bool_] = self._reach[:, current]
        after: NDArray[np.bool_] = self._reach[current]
        if pool == "ancestors":
            return before
        if pool == "descendants":
            return after
        beside = ~(before | after)
        beside[current] = False
        return beside

    def _of_moment(self, state: State) -> Float:
        """Return ``ready``, ``free`` and ``finish`` of devices at this step, shape ``(D, 3)``."""
        graph, current, outcome = self.graph, state.current, state.outcome
        end = outcome.end * np.float32(outcome.length)  # (N,)
        feeders = slice(self._fed[current], self._fed[current + 1])
        source = self._feeders[feeders]
        away = self._feed_time[feeders, None] * graph.link[state.placement[source]]
        ready = (end[source, None] + away).max(axis=0, initial=0.0)  # (D,)
        free = np.zeros(graph.num_devices, dtype=np.float32)
        np.maximum.at(free, state.placement, end * state.visited)
        finish = np.maximum(ready, free) + graph.run[current]
        earliest = finish[graph.allowed[current]].min()
        return _damped(np.stack([ready, free, finish], axis=1) - earliest)


def _damped(figures: Float) -> Float:
    return np.sign(figures) * np.log1p(np.abs(figures))


def _neighbours(ends: NDArray[np.int64], starts: NDArray[np.int64], num: int) -> csr_array:
    """Return what sums the rows of each group's neighbours and scales by the root of how many."""
    counts = np.maximum(np.bincount(ends, minlength=num), 1)
    shares = (1.0 / np.sqrt(counts.astype(np.float32)))[ends]
    return csr_array((shares, (ends, starts)), shape=(num, num), dtype=np.float32)
