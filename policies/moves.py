"""Moves of a local search: which ops to send to which device next."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dplace.placement import allowed_devices, movable_units
from dplace.policies.regions import branches, cluster, edges, neighbours
from dplace.problem import Problem

__all__ = ["Move", "Moves"]

Int = NDArray[np.int32]


class Move(NamedTuple):
    """Some ops and the device that each goes to."""

    ops: Int
    devices: Int


class Moves:
    """Draws moves that keep to kernels, pins and co-location.

    What to move: a cluster or a branch (``regions.py``), a single op, an op at a border between
    devices with the run of ops behind it, all that hangs together on one device, or what an op
    feeds or is fed by up to a few steps away. Some moves swap two of these between devices.
    """

    def __init__(self, problem: Problem, rng: np.random.Generator) -> None:
        self._rng = rng
        self.num_devices = problem.num_devices
        self._allowed = allowed_devices(problem)
        self._is_free = bool(self._allowed.all())
        unit = movable_units(problem)
        self._unit = unit if int(unit.max(initial=-1)) + 1 < problem.num_ops else None
        self._clusters, _ = cluster(problem)
        self._sizes = self._clusters.sizes
        self._branches = branches(problem.graph)
        self._near = neighbours(problem.graph)
        self._edges = edges(problem.graph)
        self._num_ops = problem.num_ops
        kinds = [self._cluster, self._single, self._border, self._component, self._window]
        chances = [0.30, 0.15, 0.25, 0.10, 0.10]
        if self._branches:
            kinds.append(self._branch)
            chances.append(0.10)
        self._kinds = kinds
        self._thresholds = (np.cumsum(chances) / sum(chances)).tolist()

    def draw(self, placement: Int) -> Move | None:
        """Return a move that changes ``placement``, or None if the draw came to nothing."""
        ops = self._ops(placement)
        source = int(placement[ops[0]])
        target = self._other_device(source)
        if self._rng.random() < 0.12:
            back = self._ops(placement)
            back = back[placement[back] == target]
            if back.size:
                mine = ops[placement[ops] != target]
                return self._settle(
                    placement,
                    np.concatenate([mine, back]),
                    np.repeat(np.array([target, source], np.int32), [mine.size, back.size]),
                )
        ops = ops[placement[ops] != target]
        return self._settle(placement, ops, np.full(ops.size, target, dtype=np.int32))

    def _ops(self, placement: Int) -> Int:
        draw = self._rng.random()
        for threshold, kind in zip(self._thresholds, self._kinds, strict=True):
            if draw < threshold:
                return kind(placement)
        return self._single(placement)

    def _other_device(self, device: int) -> int:
        if self.num_devices == 2:
            return 1 - device
        target = int(self._rng.integers(self.num_devices - 1))
        return target + (target >= device)

    def _settle(self, placement: Int, ops: Int, devices: Int) -> Move | None:
        """Return the move without what is not allowed, and with co-located ops."""
        if self._unit is not None and ops.size:
            device_of_unit = np.full(self._num_ops, -1, dtype=np.int32)
            device_of_unit[self._unit[ops]] = devices
            devices = device_of_unit[self._unit]
            ops = np.flatnonzero(devices >= 0).astype(np.int32)
            devices = devices[ops]
        if not self._is_free and ops.size:
            may = self._allowed[ops, devices]
            ops, devices = ops[may], devices[may]
        if not ops.size or not (placement[ops] != devices).any():
            return None
        return Move(ops, devices)

    def _single(self, placement: Int) -> Int:
        return np.array([self._rng.integers(self._num_ops)], dtype=np.int32)

    def _cluster(self, placement: Int) -> Int:
        """Return a cluster; all sizes are as likely on a logarithmic scale."""
        size = self._num_ops ** self._rng.random()
        first = int(np.searchsorted(self._sizes, size))
        last = int(np.searchsorted(self._sizes, 1.5 * size, side="right"))
        last = max(last, first + 1)
        node = min(int(self._rng.integers(first, last)), len(self._sizes) - 1)
        return self._clusters.ops_of(node)

    def _branch(self, placement: Int) -> Int:
        return self._branches[int(self._rng.integers(len(self._branches)))]

    def _border(self, placement: Int) -> Int:
        """Return an op that another device feeds or is fed by, and some of what is behind it."""
        if not self._edges.size:
            return self._single(placement)
        drawn = self._edges[self._rng.integers(len(self._edges), size=16)]
        crossing = drawn[placement[drawn[:, 0]] != placement[drawn[:, 1]]]
        if not crossing.size:
            return self._single(placement)
        op = int(crossing[0, int(self._rng.integers(2))])
        return self._grow(op, placement, int(2 ** (4 * self._rng.random())))

    def _component(self, placement: Int) -> Int:
        """Return what hangs together with an op on its device."""
        op = int(self._rng.integers(self._num_ops))
        return self._grow(op, placement, 256)

    def _grow(self, op: int, placement: Int, limit: int) -> Int:
        """Return up to ``limit`` ops that hang together on one device, the nearest first."""
        device = placement[op]
        found = {op: None}
        front = [op]
        for member in front:
            for near in (self._near.producers(member), self._near.consumers(member)):
                for other in near.tolist():
                    if other not in found and placement[other] == device:
                        if len(found) >= limit:
                            return np.array(list(found), dtype=np.int32)
                        found[other] = None
                        front.append(other)
        return np.array(list(found), dtype=np.int32)

    def _window(self, placement: Int) -> Int:
        """Return an op and what it feeds, or what feeds it, up to some distance."""
        op = int(self._rng.integers(self._num_ops))
        forward = self._rng.random() < 0.5
        limit = min(256, int(self._num_ops ** self._rng.random()) + 1)
        found = {op: None}
        front = [op]
        for member in front:
            near = self._near.consumers(member) if forward else self._near.producers(member)
            for other in near.tolist():
                if len(found) >= limit:
                    return np.array(list(found), dtype=np.int32)
                if other not in found:
                    found[other] = None
                    front.append(other)
        return np.array(list(found), dtype=np.int32)
