"""The best split of an order of ops into runs, a device each, for the smallest largest load.

Dynamic programming over the ends of runs, as PipeDream's planner (Narayanan et al., SOSP 2019)
and the linearised form of Tarnawski et al. (NeurIPS 2020) do it: exact among such splits. The load
of a run is its ops, and for each value once that it reads from outside or that outside reads, its
transfer.
"""

import numpy as np
from numpy.typing import NDArray

from dplace.simulator.compiled import kernel
from dplace.simulator.op_tables import OpTables

__all__ = ["best_runs"]

Int = NDArray[np.int32]
Float = NDArray[np.float64]


def best_runs(
    tables: OpTables,
    input_offsets: Int,
    input_values: Int,
    groups: list[NDArray[np.int64]],
    seconds: Float,
    held: Float,
    transfer_s: Float,
    num_runs: int,
    capacity: float,
) -> list[int] | None:
    """Return where runs start, as positions in the order, or None if nothing fits.

    Args:
        tables: The graph.
        input_offsets: With ``input_values`` the values made by ops that each op reads.
        input_values: See there.
        groups: The order: ops that must stay together, one group after another.
        seconds: Shape ``(num_ops,)``: time of each op.
        held: Shape ``(num_ops,)``: bytes of each op.
        transfer_s: Shape ``(num_values,)``.
        num_runs: How many runs at most.
        capacity: Bytes of a device.
    """
    num = len(groups)
    offsets = np.concatenate([[0], np.cumsum([len(group) for group in groups])]).astype(np.int32)
    ops = np.concatenate(groups).astype(np.int32)
    num_values = len(tables.values) - 1
    least = np.full((num_runs + 1, num + 1), np.inf)
    first = np.zeros((num_runs + 1, num + 1), dtype=np.int32)
    least[0, 0] = 0.0
    _fill(
        tables,
        input_offsets,
        input_values,
        offsets,
        ops,
        seconds,
        held,
        transfer_s,
        capacity,
        np.zeros(num_values, dtype=np.int32),
        np.zeros(num_values, dtype=np.int32),
        least,
        first,
    )
    runs = int(least[:, num].argmin())
    if not np.isfinite(least[runs, num]):
        return None
    starts: list[int] = []
    end = num
    for index in range(runs, 0, -1):
        end = int(first[index, end])
        starts.append(end)
    return starts[::-1]


@kernel
def _fill(
    tables: OpTables,
    input_offsets: Int,
    input_values: Int,
    offsets: Int,
    ops: Int,
    seconds: Float,
    held: Float,
    transfer_s: Float,
    capacity: float,
    stamp: Int,
    inside: Int,
    least: Float,
    first: Int,
) -> None:
    """Fill ``least[k, j]`` with the smallest largest load of the first ``j`` groups in ``k`` runs.

    Args:
        stamp: Scratch: the run start for which ``inside`` of a value counts.
        inside: Scratch: readers inside the run; beyond the number of readers where the value is
            made inside as well.
    """
    num = len(offsets) - 1
    made = 1 << 24
    for start in range(num):
        load = 0.0
        size = 0.0
        for end in range(start, num):
            for slot in range(offsets[end], offsets[end + 1]):
                op = ops[slot]
                load += seconds[op]
                size += held[op]
                for at in range(input_offsets[op], input_offsets[op + 1]):
                    value = input_values[at]
                    if stamp[value] != start + 1:
                        stamp[value] = start + 1
                        inside[value] = 0
                    readers = (
                        tables.values[value + 1]["consumers"] - tables.values[value]["consumers"]
                    )
                    inside[value] += 1
                    if inside[value] == 1:
                        load += transfer_s[value]
                    elif inside[value] == made + readers:
                        load -= transfer_s[value]
                for at in range(tables.ops[op]["outputs"], tables.ops[op + 1]["outputs"]):
                    value = tables.output_values[at]
                    if stamp[value] != start + 1:
                        stamp[value] = start + 1
                        inside[value] = 0
                    readers = (
                        tables.values[value + 1]["consumers"] - tables.values[value]["consumers"]
                    )
                    if readers == 0:
                        continue
                    if inside[value] == 0:
                        load += transfer_s[value]
                    elif inside[value] == readers:
                        load -= transfer_s[value]
                    inside[value] += made
            if size > capacity:
                break
            for runs in range(1, len(least)):
                worst = max(least[runs - 1, start], load)
                if worst < least[runs, end + 1]:
                    least[runs, end + 1] = worst
                    first[runs, end + 1] = start
