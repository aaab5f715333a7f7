"""A cost graph as it is read: ops and values by their ids, then checked and put in order."""

import heapq
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dplace.errors import InputError
from dplace.op_graph import OpGraph

__all__ = ["Draft", "DraftOp", "DraftValue", "bytes_of", "number", "seconds_of"]

_SHOWN = 12
"""Ops of a cycle that a message names before it skips to the last."""

_MAX_BYTES = 2**56


@dataclass(slots=True, kw_only=True)
class DraftOp:
    """One op of a file."""

    id: str
    label: str
    """What the file calls it besides; its type in reports."""
    seconds: Sequence[float]
    """Time on each kind of device; ``inf`` where it cannot run."""
    memory_bytes: int = 0
    colocation: str | None = None
    """Ops with an equal key must share a device."""


@dataclass(slots=True, kw_only=True)
class DraftValue:
    """What one op makes and others read."""

    name: str
    producer: str
    consumers: list[str]
    size_bytes: int = 0
    seconds: float | Sequence[Sequence[float]] | None = None
    """Time of a transfer, the same between any two devices or for each pair; None: not given."""


@dataclass(slots=True, kw_only=True)
class Draft:
    """All that a file says of ops and values, in the order of the file."""

    source: str
    """The file, for messages."""
    name: str
    ops: list[DraftOp] = field(default_factory=list)
    values: list[DraftValue] = field(default_factory=list)

    def finish(self) -> tuple[OpGraph, NDArray[np.float64], NDArray[np.float64] | None]:
        """Return the graph with its ops in topological order, their times and the transfers'.

        Returns:
            The graph; seconds, shape ``(num_ops, num_kinds)``; times of transfers as in
            ``Problem``, or None where no value has any.

        Raises:
            InputError: No ops, ids used twice or missing, or a cycle.
        """
        if not self.ops:
            raise InputError(f"{self.source}: expected at least one op, got none")
        index = self._index()
        for value in self.values:
            self._check_ends(index, value)
        producers = [index[value.producer] for value in self.values]
        readers = [
            list(dict.fromkeys(index[consumer] for consumer in value.consumers))
            for value in self.values
        ]
        order = self._order(producers, readers)
        place = np.empty(len(order), dtype=np.int64)
        place[order] = np.arange(len(order))
        ops = [self.ops[position] for position in order]
        producer = place[producers] if producers else np.zeros(0, dtype=np.int64)
        graph = self._graph(ops, producer, [sorted(place[row].tolist()) for row in readers])
        seconds = np.array([op.seconds for op in ops], dtype=np.float64)
        return graph, seconds, self._transfer_s()

    def _index(self) -> dict[str, int]:
        index: dict[str, int] = {}
        for position, op in enumerate(self.ops):
            earlier = index.setdefault(op.id, position)
            if earlier != position:
                raise InputError(
                    f"{self.source}: id {op.id} is used twice, by ops {earlier + 1} and "
                    f"{position + 1} of the file"
                )
        return index

    def _check_ends(self, index: Mapping[str, int], value: DraftValue) -> None:
        for op_id in (value.producer, *value.consumers):
            if op_id not in index:
                consumer = op_id if op_id != value.producer else "".join(value.consumers[:1])
                raise InputError(
                    f"{self.source}: edge {value.producer} -> {consumer}: no op has the id {op_id}"
                )

    def _order(self, producers: Sequence[int], readers: Sequence[Sequence[int]]) -> list[int]:
        """Return the ops in topological order, those of the file first where it is free."""
        successors: list[list[int]] = [[] for _ in self.ops]
        missing = [0] * len(self.ops)
        for producer, row in zip(producers, readers, strict=True):
            successors[producer] += row
            for reader in row:
                missing[reader] += 1
        ready = [op for op, count in enumerate(missing) if count == 0]
        order: list[int] = []
        while ready:
            op = heapq.heappop(ready)
            order.append(op)
            for reader in successors[op]:
                missing[reader] -= 1
                if missing[reader] == 0:
                    heapq.heappush(ready, reader)
        if len(order) < len(self.ops):
            cycle = " -> ".join(self._shortened(_cycle(successors, missing)))
            raise InputError(f"{self.source}: the graph has a cycle: {cycle}")
        return order

    def _shortened(self, cycle: Sequence[int]) -> list[str]:
        ids = [self.ops[op].id for op in cycle]
        if len(ids) <= _SHOWN + 1:
            return ids
        return [*ids[:_SHOWN], f"({len(ids) - _SHOWN - 1} more)", ids[-1]]

    def _graph(
        self,
        ops: Sequence[DraftOp],
        producer: NDArray[np.int64],
        readers: Sequence[Sequence[int]],
    ) -> OpGraph:
        num_ops = len(ops)
        inputs: list[list[int]] = [[] for _ in ops]
        outputs: list[list[int]] = [[] for _ in ops]
        for value, row in enumerate(readers):
            outputs[int(producer[value])].append(value)
            for reader in row:
                inputs[reader].append(value)
        weights = [op for op in range(num_ops) if ops[op].memory_bytes > 0]
        holds = np.zeros(num_ops, dtype=np.int64)
        holds[weights] = 1
        groups: dict[str, int] = {}
        keys = [op.colocation for op in ops]
        input_offsets, input_values = _compressed(inputs)
        output_offsets, output_values = _compressed(outputs)
        consumer_offsets, consumer_ops = _compressed(readers)
        return OpGraph(
            name=self.name,
            op_names=tuple(op.id for op in ops),
            op_types=tuple(op.label for op in ops),
            op_flop=np.zeros(num_ops),
            op_bytes=np.zeros(num_ops),
            op_classes=("other",) * num_ops,
            op_dtypes=("float32",) * num_ops,
            op_launches=np.ones(num_ops, dtype=np.int32),
            value_names=tuple(value.name for value in self.values),
            value_producer=producer.astype(np.int32),
            value_bytes=np.array([value.size_bytes for value in self.values], dtype=np.int64),
            value_movable=np.ones(len(self.values), dtype=np.bool_),
            input_offsets=input_offsets,
            input_values=input_values,
            output_offsets=output_offsets,
            output_values=output_values,
            consumer_offsets=consumer_offsets,
            consumer_ops=consumer_ops,
            # Nothing comes from the caller and nothing goes back: a file has no times for that.
            graph_inputs=np.zeros(0, dtype=np.int32),
            graph_outputs=np.zeros(0, dtype=np.int32),
            weight_names=tuple(ops[op].id for op in weights),
            weight_bytes=np.array([ops[op].memory_bytes for op in weights], dtype=np.int64),
            weight_offsets=np.concatenate([[0], np.cumsum(holds)]).astype(np.int32),
            op_weights=np.arange(len(weights), dtype=np.int32),
            colocation=np.array(
                [-1 if key is None else groups.setdefault(key, len(groups)) for key in keys],
                dtype=np.int32,
            ),
        )

    def _transfer_s(self) -> NDArray[np.float64] | None:
        given = [value for value in self.values if value.seconds is not None]
        if not given:
            return None
        without = [value for value in self.values if value.seconds is None]
        if without:
            raise InputError(
                f"{self.source}: value {given[0].name} has a time of transfer and "
                f"{without[0].name} has none; give one to all or to none"
            )
        times = [np.asarray(value.seconds, dtype=np.float64) for value in given]
        tables = [table for table in times if table.ndim == 2]
        if not tables:
            return np.array(times).reshape(-1, 1, 1)
        apart = 1.0 - np.eye(len(tables[0]))
        return np.array([table if table.ndim == 2 else table * apart for table in times])


def _cycle(successors: Sequence[Sequence[int]], missing: Sequence[int]) -> list[int]:
    """Return the ops of one cycle, the first of the file at both ends."""
    stuck = [count > 0 for count in missing]
    before = [-1] * len(successors)
    for op, row in enumerate(successors):
        if stuck[op]:
            for reader in row:
                before[reader] = op
    # Each op that is left waits for another that is left, so this walk must come round.
    op = stuck.index(True)
    seen: dict[int, int] = {}
    walk: list[int] = []
    while op not in seen:
        seen[op] = len(walk)
        walk.append(op)
        op = before[op]
    cycle = walk[seen[op] :][::-1]
    first = cycle.index(min(cycle))
    return [*cycle[first:], *cycle[: first + 1]]


def _compressed(rows: Iterable[Sequence[int]]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    lists = list(rows)
    offsets = np.zeros(len(lists) + 1, dtype=np.int32)
    np.cumsum([len(row) for row in lists], out=offsets[1:])
    return offsets, np.array([item for row in lists for item in row], dtype=np.int32)


def number(content: object, where: str, expected: str) -> float:
    """Return a number that is finite and at least 0.

    Args:
        content: A number, or a text that is one.
        where: The file and the field, for the message.
        expected: What it should be, with its unit: ``a time in ms``.

    Raises:
        InputError: It is something else.
    """
    value = math.nan
    if isinstance(content, int | float) and not isinstance(content, bool):
        value = float(content) if abs(content) < 1e300 else math.inf
    elif isinstance(content, str):
        try:
            value = float(content)
        except ValueError:
            raise InputError(
                f"{where}: expected {expected}, a number without a unit, got {content[:40]!r}"
            ) from None
    if not math.isfinite(value) or value < 0:
        got = repr(content)[:40]
        raise InputError(f"{where}: expected {expected}, finite and at least 0, got {got}")
    return value


def seconds_of(content: object, where: str, *, unit_s: float, unit: str) -> float:
    """Return a time in seconds that a file gives in units of ``unit_s``."""
    return number(content, where, f"a time in {unit}") * unit_s


def bytes_of(content: object, where: str) -> int:
    """Return a size in whole bytes.

    Raises:
        InputError: It is no number, below 0, or beyond any memory.
    """
    size = number(content, where, "a size in bytes")
    if size > _MAX_BYTES:
        raise InputError(f"{where}: expected a size of at most 2**56 bytes, got {size:g}")
    return round(size)
