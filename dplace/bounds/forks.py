"""Latency where devices run ops one by one: what forks take, and what a first crossing takes.

*Forks.* Between two ops of a chain lies a region: all ops that the first reaches and that reach the
second. They run after the one and before the other. If those two share a device, then an op of the
region that would come too late on any other device, by the longest paths with a crossing on either
side, has to be there as well, and such ops run one after another; so a time that is less than their
sum cannot be kept to. If they do not, every path between them crosses. The times of the regions
along a chain add up, each on the devices where that is best, by dynamic programming.

*Crossing.* Where all ops hang together by values, either one device runs them all, or the longest
path through some value that crosses passes.
"""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dplace.bounds.chain import Edges, Surroundings, edges_of, long_chains, surroundings
from dplace.bounds.units import Units
from dplace.problem import Problem

if TYPE_CHECKING:
    from dplace.simulator.tables import Tables

__all__ = ["alone_s", "are_connected", "crossing_bound_s", "forks_bound_s", "least_away_s"]

Int = NDArray[np.signedinteger]
Float = NDArray[np.float64]

WIDEST = (2**30, 8)
"""Ops beside a chain are looked at if the chain's ops around them are so near to each other: what
spans all of it makes one region of it."""

MOST_TIMES = 4_000_000
"""Ops times devices of a graph for which forks are looked at; they take seconds beyond."""


def least_away_s(problem: Problem, tables: "Tables") -> Float:
    """Return what lies at least between the maker of each value and a reader elsewhere.

    Returns:
        Shape ``(num_values,)``, in seconds; ``inf`` with one device only.
    """
    links, num = tables.links, problem.num_devices
    size = problem.graph.value_bytes.astype(np.float64)
    least = np.full(len(size), np.inf)
    for source in range(num):
        for target in range(num):
            if source != target:
                link = links[source, target]
                away = float(link["latency"] + tables.devices[target]["overhead"])
                least = np.minimum(least, away + size / link["bytes_per_s"])
    return np.asarray(least + tables.values["transfer_s"][:-1])


def alone_s(units: Units, room: Float) -> Float:
    """Return what each device takes for everything; ``inf`` where it cannot run or hold it."""
    fits = units.bytes.sum() * (1 - 1e-9) <= room
    return np.where(fits, units.seconds.sum(axis=0), np.inf)


def are_connected(num_ops: int, edges: Edges) -> bool:
    """Return whether all ops hang together by the values that they read from each other."""
    label = np.arange(num_ops)
    while True:
        before = label.copy()
        np.minimum.at(label, edges.makers, before[edges.readers])
        np.minimum.at(label, edges.readers, before[edges.makers])
        label = label[label]
        if np.array_equal(label, before):
            return bool((label == 0).all())


def crossing_bound_s(
    problem: Problem, tables: "Tables", allowed: NDArray[np.bool_], starts: Float, alone: float
) -> float:
    """Return what a placement takes on one device or through its first crossing; else 0.

    Args:
        problem: What to place.
        tables: Graph and costs.
        allowed: Shape ``(num_ops, num_devices)``: where each op may go.
        starts: The same shape: a time before which each op cannot start on each device.
        alone: What one device takes for everything.
    """
    from dplace.simulator.ranks import upward

    edges = edges_of(problem)
    if problem.num_devices == 1:
        return alone
    if not are_connected(problem.num_ops, edges):
        return 0.0
    seconds = np.where(allowed, problem.seconds, np.inf)
    ends = (starts + seconds).min(axis=1)
    tails = upward(tables, seconds.min(axis=1), np.zeros(problem.graph.num_values))
    away_s = least_away_s(problem, tables)
    through = ends[edges.makers] + away_s[edges.values] + tails[edges.readers]
    return min(alone, float(through.min(initial=np.inf)))


def forks_bound_s(problem: Problem, tables: "Tables", allowed: NDArray[np.bool_]) -> float:
    """Return the best bound that the forks along some chains give, in seconds.

    Args:
        problem: What to place.
        tables: Graph and costs.
        allowed: Shape ``(num_ops, num_devices)``: where each op may go.
    """
    if problem.num_devices == 1 or allowed.size > MOST_TIMES:
        return 0.0
    edges, away_s = edges_of(problem), least_away_s(problem, tables)
    seconds = np.where(allowed, problem.seconds, np.inf)
    best = 0.0
    for chain in long_chains(problem, tables, allowed, away_s)[:2]:
        beside = surroundings(edges, chain, problem.num_ops)
        found: set[bytes] = set()
        for widest in WIDEST:
            stops = _stops(beside, edges, widest)
            if stops.tobytes() not in found:
                found.add(stops.tobytes())
                inside = _beside(beside, widest)
                walk_s = _walk_s(seconds, edges, away_s, beside, inside, chain, stops)
                best = max(best, walk_s)
    return best


def _beside(beside: Surroundings, widest: int) -> NDArray[np.bool_]:
    """Return which ops are on the chain or lie between two ops of it that are not far apart."""
    inside = (beside.after >= 0) & (beside.before < beside.length)
    return inside & (beside.before - beside.after <= widest)


def _stops(beside: Surroundings, edges: Edges, widest: int) -> Int:
    """Return the positions in a chain past which nothing leads that is looked at."""
    inside = _beside(beside, widest)
    use = inside[edges.makers] & inside[edges.readers]
    first = np.concatenate([beside.after[edges.makers[use]], beside.after[inside]])
    last = np.concatenate([beside.before[edges.readers[use]], beside.before[inside]])
    wide = (last > first + 1) & (last - first <= widest)
    passed = np.zeros(beside.length + 1, dtype=np.int64)
    np.add.at(passed, first[wide] + 1, 1)
    np.add.at(passed, last[wide], -1)
    return np.flatnonzero(np.cumsum(passed)[:-1] == 0)


def _walk_s(
    seconds: Float,
    edges: Edges,
    away_s: Float,
    beside: Surroundings,
    inside: NDArray[np.bool_],
    chain: Int,
    stops: Int,
) -> float:
    """Return the sum of the regions between some stops of a chain, on the best devices.

    Args:
        seconds: Shape ``(num_ops, num_devices)``; ``inf`` where an op may not go.
        edges: Who reads what.
        away_s: Shape ``(num_values,)``: what lies between a maker and a reader elsewhere.
        beside: Where each op lies beside the chain.
        inside: Shape ``(num_ops,)``: which ops are looked at.
        chain: The chain.
        stops: Positions in it.
    """
    from dplace.simulator.chains import Regions, walk_regions

    region_of = np.searchsorted(stops, beside.before, "left")
    region_of[~inside] = -1
    makers, readers = region_of[edges.makers], region_of[edges.readers]
    stop_of = np.append(chain[stops], -1)
    is_from_stop = edges.makers == stop_of[np.maximum(readers, 0) - 1]
    is_within = makers == readers
    use = np.flatnonzero((readers > 0) & (is_within | is_from_stop))
    order = np.argsort(region_of, kind="stable")
    order = order[region_of[order] > 0]
    place = np.full(len(region_of), -1, dtype=np.int32)
    place[order] = np.arange(len(order))
    into = place[edges.readers[use]]
    use, into = use[np.argsort(into, kind="stable")], np.sort(into)
    homes, others, kinds = _kinds(seconds)
    ends = seconds[chain[stops[0]]].copy()
    walk_regions(
        Regions(
            bounds=np.searchsorted(region_of[order], np.arange(1, len(stops) + 1)).astype(np.int32),
            offsets=np.searchsorted(into, np.arange(len(order) + 1)).astype(np.int32),
            sources=np.where(is_within[use], place[edges.makers[use]], -1).astype(np.int32),
            away_s=away_s[edges.values[use]],
            home_s=np.ascontiguousarray(homes[order].T),
            other_s=np.ascontiguousarray(others[order].T),
            kinds=kinds,
            heads=np.zeros((2, len(order))),
            tails=np.zeros((2, len(order))),
        ),
        ends,
        np.zeros((3, len(ends))),
    )
    return float(ends.min())


def _kinds(seconds: Float) -> tuple[Float, Float, NDArray[np.int32]]:
    """Return times on each kind of device, on the fastest other device, and the kinds."""
    fastest = np.sort(seconds, axis=1)[:, :2]
    is_fastest = seconds == fastest[:, :1]
    is_only = is_fastest & (is_fastest.sum(axis=1, keepdims=True) == 1)
    others = np.where(is_only, fastest[:, 1:], fastest[:, :1])  # (num_ops, num_devices)
    first: dict[tuple[bytes, bytes], int] = {}
    kinds = [
        first.setdefault((seconds[:, device].tobytes(), others[:, device].tobytes()), len(first))
        for device in range(seconds.shape[1])
    ]
    some = [kinds.index(kind) for kind in range(len(first))]
    return seconds[:, some], others[:, some], np.array(kinds, dtype=np.int32)
