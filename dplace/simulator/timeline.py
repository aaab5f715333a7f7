"""What one run of a placed model looks like on the clock, as the simulator predicts it."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

__all__ = ["Lowered", "Timeline", "straggler_effect"]


def _no_ids() -> NDArray[np.int32]:
    return np.zeros(0, dtype=np.int32)


def _no_times() -> NDArray[np.float64]:
    return np.zeros(0)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Lowered:
    """A placement as it will really run: parts in order on each device, and transfers.

    Compressed lists are read as in ``OpGraph``. Parts are numbered in the order in which they
    start; so are transfers. A part runs whole: its inputs must all have arrived before it starts
    and its outputs appear together when it ends.
    """

    placement: NDArray[np.int32]
    """Shape ``(num_ops,)``: the device of each op."""
    part_device: NDArray[np.int32]
    """Shape ``(num_parts,)``."""
    part_offsets: NDArray[np.int32]
    part_ops: NDArray[np.int32]
    """Ops of each part in the order they run; compressed by part. Holds every op once."""
    part_of_op: NDArray[np.int32]
    """Shape ``(num_ops,)``."""
    transfer_value: NDArray[np.int32]
    """Shape ``(num_transfers,)``: one transfer for each value and device that lacks it, if the
    value is made by an op or is a streamed weight whose home is a device."""
    transfer_source: NDArray[np.int32]
    """Device that the value comes from."""
    transfer_target: NDArray[np.int32]
    """Device that the value goes to."""
    transfer_priority: NDArray[np.int32]
    """Smaller goes first among those ready on a link; of equal ones what became ready first."""
    copy_value: NDArray[np.int32] = field(default_factory=_no_ids)
    """Shape ``(num_copies,)``: what is copied from the host, in the order in which copies start:
    what the caller feeds, and streamed weights whose home is the host."""
    copy_target: NDArray[np.int32] = field(default_factory=_no_ids)
    copy_priority: NDArray[np.int32] = field(default_factory=_no_ids)
    """Among the weights; what the caller feeds goes first, in its order."""

    @property
    def num_parts(self) -> int:
        """Return the number of parts."""
        return len(self.part_device)

    @property
    def num_transfers(self) -> int:
        """Return the number of transfers."""
        return len(self.transfer_value)

    @property
    def num_copies(self) -> int:
        """Return the number of copies from the host."""
        return len(self.copy_value)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Timeline:
    """Start and end of everything in one run; all times in seconds from the request's arrival."""

    makespan_s: float
    """When the last graph output is in host memory."""
    bottleneck_s: float = 0.0
    """The largest load of a device or a channel: the time between two results of a stream."""
    part_start_s: NDArray[np.float64]
    part_end_s: NDArray[np.float64]
    """Shape ``(num_parts,)``; the call's overhead lies between the two."""
    op_start_s: NDArray[np.float64]
    op_end_s: NDArray[np.float64]
    """Shape ``(num_ops,)``."""
    transfer_start_s: NDArray[np.float64]
    transfer_end_s: NDArray[np.float64]
    """Shape ``(num_transfers,)``."""
    copy_start_s: NDArray[np.float64] = field(default_factory=_no_times)
    copy_end_s: NDArray[np.float64] = field(default_factory=_no_times)
    """Shape ``(num_copies,)``."""
    busy_s: NDArray[np.float64]
    """Shape ``(num_devices,)``: time in which the device runs a part."""
    weight_bytes: NDArray[np.int64]
    """Shape ``(num_devices,)``: distinct weights that the device holds."""
    peak_bytes: NDArray[np.int64]
    """Shape ``(num_devices,)``: weights and live values at the worst moment."""


def straggler_effect(lowered: Lowered, timeline: Timeline) -> float:
    """Return the longest time that a device waits for others at its end, over the makespan.

    Devices without parts do not count. So Hashemi, Jyothi, Campbell measure stragglers
    (*Communication Scheduling as a First-Class Citizen in Distributed Machine Learning Systems*,
    2018) of workers that have all the same to do.
    """
    if timeline.makespan_s <= 0 or lowered.num_parts == 0:
        return 0.0
    last_s = np.full(int(lowered.part_device.max()) + 1, -np.inf)
    np.maximum.at(last_s, lowered.part_device, timeline.part_end_s)
    ends_s = last_s[np.isfinite(last_s)]
    return float(ends_s.max() - ends_s.min()) / timeline.makespan_s
