"""Orders of communication improved in the simulator: the order ``searched``.

A walk over permutations of a placement's transfers. Half of its steps take a transfer that the
makespan waits for and that waited for its link itself, and put it before the one that it waited
for; the others put any transfer before any other of the same source or target. A step is kept
unless it makes things worse.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dplace.rules import Score

if TYPE_CHECKING:
    from dplace.simulator.moves import Moves
    from dplace.simulator.ordered_engine import OrderedEngine, Way

__all__ = ["Found", "improve_order"]

Int = NDArray[np.int32]


class Found(NamedTuple):
    """The best that a walk has met."""

    score: Score
    way: "Way"


def improve_order(
    engine: "OrderedEngine",
    moves: "Moves",
    way_with: "Callable[[Int], Way | None]",
    start: Int,
    *,
    rng: np.random.Generator,
    passes: int,
) -> Found | None:
    """Return the best of so many orders near ``start``; None if none finds room for weights.

    Args:
        engine: The simulator.
        moves: What is put in order.
        way_with: From priorities to a way to run.
        start: Shape ``(num_moves,)``: priorities to begin with; of equal ones the lower id first.
        rng: The only source of chance.
        passes: How often the simulator may be asked, at least once.
    """
    free = np.flatnonzero(~moves.is_input)
    order = free[np.argsort(start[free], kind="stable")]
    best: Found | None = None
    score: Score | None = None
    pairs: list[tuple[int, int]] = []
    for step in range(passes):
        tried = order if step == 0 else _changed(order, pairs, moves, rng)
        way = way_with(_priorities(tried, len(start)))
        if way is None:
            continue
        new = engine.score(moves, way)
        if score is None or new <= score:
            order, score = tried, new
            pairs = waits(engine, moves)
            if best is None or new < best.score:
                best = Found(new, way)
    return best


def _priorities(order: NDArray[np.int64], num: int) -> Int:
    priorities = np.zeros(num, dtype=np.int32)
    priorities[order] = np.arange(len(order), dtype=np.int32)
    return priorities


def _changed(
    order: NDArray[np.int64],
    pairs: list[tuple[int, int]],
    moves: "Moves",
    rng: np.random.Generator,
) -> NDArray[np.int64]:
    """Return an order with one move put before another."""
    records = moves.queues.moves
    if pairs and rng.random() < 0.5:
        first, later = pairs[rng.integers(len(pairs))]
    else:
        later = int(order[rng.integers(len(order))])
        mine = records[later]
        is_near = records["source"][order] == mine["source"]
        is_near |= records["target"][order] == mine["target"]
        rivals = order[is_near & (order != later)]
        if not len(rivals):
            return order
        first = int(rivals[rng.integers(len(rivals))])
    rest = order[order != later]
    place = int(np.flatnonzero(rest == first)[0])
    return np.insert(rest, place, later)


class _Past:
    """The last pass of an engine, to be gone back through."""

    def __init__(self, engine: "OrderedEngine", moves: "Moves") -> None:
        run = engine.run
        self._ops, self._tables = run.ops, engine.tables
        self._links, self._is_weight = moves.queues.links, moves.is_weight
        self.parts = run.parts[: run.totals[0]]
        self.moves = moves.queues.moves
        self._part_at: dict[tuple[int, float], list[int]] = {}
        """Parts by their device and end."""
        for part, record in enumerate(self.parts.tolist()):
            self._part_at.setdefault((record[2], record[1]), []).append(part)
        self._moves_at: dict[float, list[int]] = {}
        for move in np.flatnonzero(~moves.is_input).tolist():
            self._moves_at.setdefault(float(self.moves["end"][move]), []).append(move)

    def maker(self, move: int) -> int:
        """Return the part that makes what is moved, -1 for a weight."""
        op = self._tables.values["producer"][self.moves["value"][move]]
        return int(self._ops["part"][op]) if op >= 0 else -1

    def before_part(self, part: int) -> tuple[int, int]:
        """Return the part or else the move, -1 for the other, that a part waited for."""
        start_s, device = float(self.parts["start"][part]), int(self.parts["device"][part])
        for move in self._moves_at.get(start_s, []):
            if self.moves["target"][move] == device and self._reads(part, move):
                return -1, move
        others = [it for it in self._part_at.get((device, start_s), []) if it != part]
        return (others[0], -1) if others else (-1, -1)

    def before_move(self, move: int) -> int:
        """Return the move that one waited for on a channel, or for its turn; -1 for none."""
        for other in self._moves_at.get(float(self.moves["start"][move]), []):
            if other != move and self._share(other, move):
                return other
        return -1

    def _reads(self, part: int, move: int) -> bool:
        values, value = self._tables.values, self.moves["value"][move]
        readers = self._tables.consumer_ops[
            values["consumers"][value] : values["consumers"][value + 1]
        ]
        return bool((self._ops["part"][readers] == part).any())

    def _share(self, one: int, other: int) -> bool:
        first, second = self.moves[one], self.moves[other]
        if self._is_weight[one] and self._is_weight[other]:
            return bool(first["target"] == second["target"])
        if min(first["source"], second["source"]) < 0:
            return False
        links = [self._links[it["source"], it["target"]] for it in (first, second)]
        channels = [{int(it["channel_a"]), int(it["channel_b"])} - {-1} for it in links]
        return bool(channels[0] & channels[1])


def waits(engine: "OrderedEngine", moves: "Moves") -> list[tuple[int, int]]:
    """Return pairs of moves that the makespan waits for, the second of which waits for the first.

    Found by going back in the last pass of ``engine`` from the part that ends last: a part starts
    when a move ends that it reads or when its device is free, a move when its value is made or
    when its channel is free.
    """
    past = _Past(engine, moves)
    pairs: list[tuple[int, int]] = []
    seen: set[tuple[int, int]] = set()
    part, move = int(past.parts["end"].argmax()), -1
    while max(part, move) >= 0 and (part, move) not in seen:
        seen.add((part, move))  # what takes no time could be gone through for ever
        if part >= 0:
            part, move = past.before_part(part)
            continue
        maker = past.maker(move)
        if maker >= 0 and past.parts["end"][maker] == past.moves["start"][move]:
            part, move = maker, -1
            continue
        before = past.before_move(move)
        if before >= 0:
            pairs.append((before, move))
        move = before
    return pairs
