"""Runs placements with transfers in a given order: see ``ordered.py`` and ``queues.py``."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dplace.problem import Problem
from dplace.rules import Rule, Score
from dplace.schedule.transfers import Transfers, transfers_of
from dplace.simulator.engine import capacity, takes_ops_one_by_one
from dplace.simulator.memory import Memory
from dplace.simulator.moves import Moves, make_moves, set_priorities
from dplace.simulator.ordered import simulate_ordered
from dplace.simulator.part_engine import run_records
from dplace.simulator.queues import HOST
from dplace.simulator.run import make_run
from dplace.simulator.tables import TRANSFER, Records, Tables, largest_station, ordered_tables
from dplace.simulator.timeline import Lowered, Timeline

__all__ = ["OrderedEngine", "Way"]

Int = NDArray[np.int32]


class Way(NamedTuple):
    """All that is chosen about a placement."""

    rule: Rule
    order: Int
    """Shape ``(num_ops,)``: ops by priority, topological."""
    priorities: Int
    """Shape ``(num_transfers,)``: of each transfer, smaller goes first."""


class OrderedEngine:
    """Forms parts and times them and all moves in one pass, for one placement at a time."""

    compiled = (simulate_ordered,)

    def __init__(
        self,
        problem: Problem,
        tables: Tables,
        *,
        one_by_one: bool | None = None,
    ) -> None:
        """Make room for passes.

        Args:
            problem: Graph, costs, cluster, and where streamed weights lie.
            tables: Of the same problem.
            one_by_one: Whether each op is a part of its own; by default where that costs nothing.
        """
        self._problem = problem
        self.tables = ordered_tables(problem, tables)
        self.run = make_run(self.tables)
        """Of the last pass."""
        self._memory = Memory(problem, tables)
        self._one_by_one = takes_ops_one_by_one(problem) if one_by_one is None else one_by_one
        self.capacity = capacity(problem)
        self.is_memory_tight = bool(self._memory.most_bytes > self.capacity.min())

    def prepare(self, placement: Int) -> tuple[Transfers, Moves]:
        """Return what crosses under a placement: transfers by their ids, and room for passes."""
        transfers = transfers_of(self._problem, placement)
        return transfers, make_moves(self._problem, self.tables, placement, transfers)

    def score(self, moves: Moves, way: Way) -> Score:
        """Return the score of a placement; the makespan is ``inf`` where it gets stuck."""
        self._simulate(moves, way)
        run, placement = self.run, moves.placement
        makespan_s = float(run.makespan[0])
        overflow = 0
        if not np.isfinite(makespan_s):
            return Score(0, makespan_s, int(run.totals[0]))
        if self.is_memory_tight and (self._memory.bound(placement) > self.capacity).any():
            peaks = self._peaks(moves)
            overflow = int(np.maximum(peaks - self.capacity, 0).sum())
        time_s = makespan_s
        if self._problem.objective == "throughput":
            time_s = self._bottleneck_s(self._between_devices(moves)[0])
        return Score(overflow, time_s, int(run.totals[0]))

    def records(self, moves: Moves, way: Way) -> tuple[Lowered, Timeline]:
        """Return the parts, transfers and copies of a placement, and the timeline."""
        self._simulate(moves, way)
        run, placement, records = self.run, moves.placement, moves.queues.moves
        transfers, priorities = self._between_devices(moves)
        sent = self._sent(moves)
        copied = np.concatenate(
            [np.flatnonzero(moves.is_input), sent[records["source"][sent] == HOST]]
        )
        copied = copied[np.argsort(records["start"][copied], kind="stable")]
        return run_records(
            run,
            placement,
            transfers=transfers,
            transfer_priority=priorities,
            copies=_as_transfers(records[copied]),
            copy_priority=np.where(moves.is_input[copied], 0, records["priority"][copied]),
            bottleneck_s=self._bottleneck_s(transfers),
            weight_bytes=self._memory.weights(placement),
            peak_bytes=self._peaks(moves),
        )

    def _simulate(self, moves: Moves, way: Way) -> None:
        set_priorities(moves, way.priorities)
        simulate_ordered(
            self.tables,
            moves.placement,
            way.order,
            *way.rule[1:],
            self._one_by_one,
            self.run,
            moves.queues,
            moves.streams,
        )

    def _peaks(self, moves: Moves) -> NDArray[np.int64]:
        """Return the bytes at the worst moment of the last pass on each device."""
        # Of what is sent all that ops have made: weights are counted by the room for them.
        run, sent = self.run, self._sent(moves)
        made = sent[~moves.is_weight[sent]]
        run.totals[1] = len(made)
        run.transfers[: len(made)] = _as_transfers(moves.queues.moves[made])
        return self._memory.peaks(moves.placement, run)

    def _sent(self, moves: Moves) -> Int:
        """Return the moves of the last pass in the order in which they started."""
        return moves.queues.sent[: moves.queues.totals[1]]

    def _between_devices(self, moves: Moves) -> tuple[Records, Int]:
        """Return the transfers of the last pass between devices, and their priorities."""
        sent = self._sent(moves)
        records = moves.queues.moves[sent]
        records = records[records["source"] != HOST]
        return _as_transfers(records), records["priority"].copy()

    def _bottleneck_s(self, transfers: Records) -> float:
        """Return the largest load of a device or a channel."""
        parts = self.run.parts[: self.run.totals[0]]
        busy_s = np.bincount(parts["device"], weights=parts["end"] - parts["start"])
        return largest_station(busy_s.astype(np.float64), transfers, self.tables.links)


def _as_transfers(moves: Records) -> Records:
    """Return moves as TRANSFER."""
    transfers = np.zeros(len(moves), dtype=TRANSFER)
    for name in ("start", "end", "value", "source", "target"):
        transfers[name] = moves[name]
    return transfers
