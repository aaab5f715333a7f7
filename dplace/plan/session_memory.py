"""What onnxruntime takes on a CPU beside weights and values.

Where weights are streamed a device's memory is filled to the brim, so this counts there.
"""

import numpy as np
from numpy.typing import NDArray

from dplace.problem import Problem
from dplace.simulator.streamed import room_bytes
from dplace.simulator.timeline import Lowered, Timeline

__all__ = ["peak_with_sessions"]

SESSION_BYTES, OP_BYTES = 32 * 1024, 8 * 1024
"""Of a session, and of each op in it: 28 kB and 5.4 kB measured with onnxruntime 1.31 on sessions
of 1 to 50 ops."""
GAPS = 8
"""One part in so many of the values: gaps that the allocator leaves between them."""


def peak_with_sessions(problem: Problem, lowered: Lowered, timeline: Timeline) -> NDArray[np.int64]:
    """Return the bytes at the worst moment on each device, shape ``(num_devices,)``.

    With streamed weights these count what onnxruntime takes for sessions and gaps, too.
    """
    peak = timeline.peak_bytes
    if not len(problem.streamed):
        return peak
    num = problem.num_devices
    ops = np.bincount(lowered.placement, minlength=num)
    parts = np.bincount(lowered.part_device, minlength=num)
    values = peak - timeline.weight_bytes - room_bytes(problem, lowered.placement)
    return np.asarray(peak + parts * SESSION_BYTES + ops * OP_BYTES + values // GAPS)
