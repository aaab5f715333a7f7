"""The moves of a placement as the ordered pass reads them: see ``queues.py``."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dplace.problem import Problem
from dplace.schedule.transfers import Transfers
from dplace.simulator.ordered import Streams
from dplace.simulator.queues import HOST, MOVE, Queues, make_queues
from dplace.simulator.streamed import homes_of, room_bytes, streamed_reads
from dplace.simulator.tables import Records, Tables

__all__ = ["Moves", "make_moves", "set_priorities"]

Int = NDArray[np.int32]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Moves:
    """A placement's transfers, weights and copies of inputs, ready for passes."""

    placement: Int
    queues: Queues
    """Its moves are the transfers by their ids."""
    streams: Streams
    is_weight: NDArray[np.bool_]
    """Shape ``(num_moves,)``: whether it brings a streamed weight."""
    is_input: NDArray[np.bool_]
    """Whether it copies what the caller feeds."""


def make_moves(problem: Problem, tables: Tables, placement: Int, transfers: Transfers) -> Moves:
    """Return the moves of a placement; ``set_priorities`` puts them in order.

    Args:
        problem: The graph and where weights lie.
        tables: Of the same problem.
        placement: Shape ``(num_ops,)``: the device of each op.
        transfers: What crosses under it, sorted by value and then by target.
    """
    graph, num_devices = problem.graph, problem.num_devices
    num = transfers.num_transfers
    is_fed = np.zeros(graph.num_values, dtype=np.bool_)
    is_fed[graph.graph_inputs] = True
    is_input = is_fed[transfers.value]
    is_weight = (graph.value_producer[transfers.value] < 0) & ~is_input
    move_of = np.full((graph.num_values, num_devices), -1, dtype=np.int32)
    move_of[transfers.value, transfers.target] = np.arange(num, dtype=np.int32)

    reads = streamed_reads(problem)
    devices = placement[reads.op]
    is_away = devices != reads.home
    residents = np.unique(reads.value[~is_away])
    readers = reads.op[is_away]
    read_moves = move_of[reads.value[is_away], devices[is_away]]
    by_op = np.argsort(readers, kind="stable")

    records = np.zeros(num, dtype=MOVE)
    records["seconds"] = _seconds(problem, tables, placement, transfers)
    records["bytes"] = graph.value_bytes[transfers.value]
    for name in ("value", "source", "target"):
        records[name] = getattr(transfers, name)
    records["source"][is_input] = HOST
    records["readers"] = np.bincount(read_moves, minlength=num)
    streams = Streams(
        move_offsets=_offsets(transfers.value, graph.num_values),
        resident=residents.astype(np.int32),
        resident_on=homes_of(problem)[residents],
        read_offsets=_offsets(readers, graph.num_ops),
        read_moves=read_moves[by_op],
        hold_until=np.zeros(num_devices),
    )
    weights = np.flatnonzero(is_weight).astype(np.int32)
    weights = weights[np.argsort(transfers.target[weights], kind="stable")]
    return Moves(
        placement=placement.copy(),
        queues=make_queues(records, weights, tables.links, room_bytes(problem, placement, reads)),
        streams=streams,
        is_weight=is_weight,
        is_input=is_input,
    )


def set_priorities(moves: Moves, priorities: Int) -> None:
    """Put moves in an order, shape ``(num_moves,)``: smaller goes first, then the lower id."""
    queues = moves.queues
    queues.moves["priority"] = priorities
    if len(queues.weights) == 0:
        return
    weights = np.sort(queues.weights)
    by_place = np.lexsort((priorities[weights], queues.moves["target"][weights]))
    queues.weights[:] = weights[by_place]


def _seconds(
    problem: Problem, tables: Tables, placement: Int, transfers: Transfers
) -> NDArray[np.float64]:
    """Return what each move takes, added up as the other passes do, to the last bit."""
    devices, given = tables.devices, problem.transfer_s
    value, source, target = transfers.value, transfers.source, transfers.target
    size = problem.graph.value_bytes[value]
    has_all = np.bincount(placement, minlength=problem.num_devices) == problem.num_ops
    latency_s = np.where(has_all, devices["alone_host_latency"], devices["host_latency"])
    from_host_s = latency_s[target] + size / devices["host_bytes_per_s"][target]
    links: Records = tables.links[source, target]
    beside_s = tables.values["transfer_s"][value]
    if given is not None:
        beside_s = given[value, 0, 0] if given.shape[1] == 1 else given[value, source, target]
    from_device_s = links["latency"] + beside_s + size / links["bytes_per_s"]
    return np.asarray(np.where(source == HOST, from_host_s, from_device_s))


def _offsets(rows: Int, num_rows: int) -> Int:
    """Return where each row begins in a list that is sorted by row."""
    counts = np.bincount(rows, minlength=num_rows)
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
