"""Simulated annealing in compiled code (Kirkpatrick, Gelatt, Vecchi, Science 220, 1983).

One loop for all machine models: what differs is how a placement is judged, which numba chooses by
the type of the search state.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numba import types
from numba.extending import overload
from numpy.typing import NDArray

from dplace.simulator.blocks import BlockSearch, simulate_blocks
from dplace.simulator.by_op import simulate_ops
from dplace.simulator.compiled import inner, kernel
from dplace.simulator.loads import LoadSearch, largest, move_op, recount
from dplace.simulator.online import simulate
from dplace.simulator.op_engine import OpSearch
from dplace.simulator.part_engine import PartSearch
from dplace.simulator.search_moves import Moves, draw_move, next_uniform

__all__ = ["BEST_OVERFLOW", "BEST_TIME", "Memory", "Walk", "anneal", "make_walk"]

Int = NDArray[np.int32]
Float = NDArray[np.float64]


class Memory(NamedTuple):
    """What ops hold on their device all the time, where that may be too much."""

    op_offsets: Int
    op_weights: Int
    """Weights that each op reads; compressed by op."""
    weight_bytes: Float
    readers: Int
    """Shape ``(num_weights * num_devices,)``: ops on each device that read each weight."""
    held: Float
    """Shape ``(num_devices,)``: bytes of the placement that was counted."""
    capacity: Float
    is_tight: bool


class Walk(NamedTuple):
    """Where the annealing is."""

    current: Int
    best: Int
    """Shape ``(num_ops,)``."""
    figures: Float
    """Current energy, best time in seconds and best overflow in bytes: see the constants."""


ENERGY, BEST_TIME, BEST_OVERFLOW = range(3)

MEMORY_WEIGHT = 20.0
"""How many makespans a placement costs more that needs twice the memory there is."""


def make_walk(num_ops: int) -> Walk:
    """Return room for a walk."""
    return Walk(np.zeros(num_ops, dtype=np.int32), np.zeros(num_ops, dtype=np.int32), np.zeros(3))


# _time, _soft and _follow are names that compiled code calls. Which function that is, numba asks
# the one that is registered under each, with the type of the state; Python never runs them. The
# arguments' names and annotations have to be the same in both.
_COMPILED_ONLY = "only compiled code calls this"


def _time(state: Any, placement: Int) -> float:
    """Return what the objective makes small."""
    raise NotImplementedError(_COMPILED_ONLY)


@overload(_time, jit_options={"error_model": "numpy", "_nrt": False})
def _time_of_state(state: Any, placement: Any) -> Any:
    if not isinstance(state, types.BaseNamedTuple):
        return None
    if state.instance_class is OpSearch:

        def by_op(state: Any, placement: Any) -> Any:
            return float(
                simulate_ops(state.op_tables, placement, state.order, state.position, state.op_run)
            )

        return by_op
    if state.instance_class is BlockSearch:

        def by_block(state: Any, placement: Any) -> Any:
            return float(simulate_blocks(state, placement))

        return by_block
    if state.instance_class is LoadSearch:

        def by_load(state: Any, placement: Any) -> Any:
            return float(largest(state.loads))

        return by_load
    if state.instance_class is PartSearch:

        def by_part(state: Any, placement: Any) -> Any:
            simulate(
                state.tables,
                placement,
                state.order,
                state.cut_gain,
                state.patience,
                state.urgent_only,
                state.slice_work,
                state.run,
            )
            return float(state.run.makespan[0])

        return by_part
    return None


def _soft(state: Any, time_s: float, slope: float) -> float:
    """Return what the walk makes small: the objective, with a slope where that has plateaus.

    The largest load says nothing on whether the others shrink, so it is mixed with their norm.
    """
    raise NotImplementedError(_COMPILED_ONLY)


@overload(_soft, jit_options={"error_model": "numpy", "_nrt": False})
def _soft_of_state(state: Any, time_s: Any, slope: Any) -> Any:
    if isinstance(state, types.BaseNamedTuple) and state.instance_class is LoadSearch:

        def by_load(state: Any, time_s: Any, slope: Any) -> Any:
            total = 0.0
            for resource in range(len(state.loads)):
                square = (state.loads[resource] / time_s) ** 2
                total += square**4
            return time_s * (1.0 - slope + slope * math.sqrt(math.sqrt(math.sqrt(total))))

        return by_load

    def same(state: Any, time_s: Any, slope: Any) -> Any:
        return time_s

    return same


def _follow(state: Any, placement: Int, ops: Int, count: int) -> None:
    """Tell a state that keeps something from one placement to the next which ops have moved.

    A ``count`` of -1 means that all may have.
    """
    raise NotImplementedError(_COMPILED_ONLY)


@overload(_follow, jit_options={"error_model": "numpy", "_nrt": False})
def _follow_of_state(state: Any, placement: Any, ops: Any, count: Any) -> Any:
    if isinstance(state, types.BaseNamedTuple) and state.instance_class is LoadSearch:

        def move(state: Any, placement: Any, ops: Any, count: Any) -> Any:
            if count < 0:
                recount(state, placement)
            for slot in range(count):
                move_op(ops[slot], placement[ops[slot]], state)

        return move

    def nothing(state: Any, placement: Any, ops: Any, count: Any) -> Any:
        pass

    return nothing


@inner
def _hold(op: int, device: int, change: int, memory: Memory) -> None:
    """Count an op's weights on a device, or off it with ``change`` -1."""
    num = len(memory.held)
    for slot in range(memory.op_offsets[op], memory.op_offsets[op + 1]):
        weight = memory.op_weights[slot]
        cell = weight * num + device
        before = memory.readers[cell]
        memory.readers[cell] += change
        if before == 0 or memory.readers[cell] == 0:
            memory.held[device] += change * memory.weight_bytes[weight]


@inner
def _overflow(memory: Memory) -> float:
    """Return the bytes above the devices' memory."""
    total = 0.0
    for device in range(len(memory.held)):
        total += max(0.0, memory.held[device] - memory.capacity[device])
    return total


@inner
def _count_memory(placement: Int, memory: Memory) -> None:
    for device in range(len(memory.held)):
        memory.held[device] = 0.0
    for cell in range(len(memory.readers)):
        memory.readers[cell] = 0
    for op in range(len(placement)):
        _hold(op, placement[op], 1, memory)


@inner
def _copy(source: Int, target: Int) -> None:
    for index in range(len(source)):
        target[index] = source[index]


@inner
def _energy(time_s: float, overflow: float, total_bytes: float) -> float:
    """Return what the walk makes small: what does not fit may be passed through, at a price."""
    return time_s * (1.0 + MEMORY_WEIGHT * overflow / total_bytes)


@kernel
def anneal(
    state: Any,
    moves: Moves,
    memory: Memory,
    walk: Walk,
    steps: int,
    hot: float,
    cold: float,
    slope: float,
    is_new: bool,
) -> int:
    """Walk on, and return how many placements were judged.

    Args:
        state: How to judge.
        moves: What to try.
        memory: What ops hold.
        walk: Where it is; its ``best`` is improved.
        steps: Placements to judge, at most.
        hot: First temperature, as a share of the makespan: a move that costs so much more is
            taken in one of e cases.
        cold: Last temperature.
        slope: How much of the norm of all loads is mixed with the largest, where loads count.
        is_new: Whether ``current`` has not been judged yet.
    """
    current, figures = walk.current, walk.figures
    total_bytes = 1.0
    if memory.is_tight:
        _count_memory(current, memory)
        for weight in range(len(memory.weight_bytes)):
            total_bytes += memory.weight_bytes[weight]
    judged = 0
    _follow(state, current, moves.ops, -1)
    if is_new:
        time_s = _time(state, current)
        overflow = _overflow(memory) if memory.is_tight else 0.0
        figures[ENERGY] = _energy(_soft(state, time_s, slope), overflow, total_bytes)
        judged += 1
        if overflow < figures[BEST_OVERFLOW] or (
            overflow == figures[BEST_OVERFLOW] and time_s < figures[BEST_TIME]
        ):
            figures[BEST_TIME], figures[BEST_OVERFLOW] = time_s, overflow
            _copy(current, walk.best)
    cooling = math.log(cold / hot) / max(1, steps)
    idle = 0
    while judged < steps and idle < 1000:
        count = draw_move(moves, current)
        if count == 0:
            idle += 1
            continue
        idle = 0
        for slot in range(count):
            op, device = moves.ops[slot], moves.devices[slot]
            moves.devices[slot] = current[op]
            if memory.is_tight:
                _hold(op, current[op], -1, memory)
                _hold(op, device, 1, memory)
            current[op] = device
        _follow(state, current, moves.ops, count)
        overflow = _overflow(memory) if memory.is_tight else 0.0
        time_s = _time(state, current)
        judged += 1
        energy = _energy(_soft(state, time_s, slope), overflow, total_bytes)
        loss = energy / figures[ENERGY] - 1.0
        temperature = hot * math.exp(cooling * judged)
        if loss <= 0.0 or (
            loss < 50.0 * temperature and next_uniform(moves.rng) < math.exp(-loss / temperature)
        ):
            figures[ENERGY] = energy
            if overflow < figures[BEST_OVERFLOW] or (
                overflow == figures[BEST_OVERFLOW] and time_s < figures[BEST_TIME]
            ):
                figures[BEST_TIME], figures[BEST_OVERFLOW] = time_s, overflow
                _copy(current, walk.best)
            continue
        for slot in range(count):
            op, device = moves.ops[slot], moves.devices[slot]
            if memory.is_tight:
                _hold(op, current[op], -1, memory)
                _hold(op, device, 1, memory)
            current[op] = device
        _follow(state, current, moves.ops, count)
    return judged
