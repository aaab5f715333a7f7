"""What really happened in a run: one record for each part, copy and transfer."""

from typing import Literal, NamedTuple

__all__ = ["RunEvent"]


class RunEvent(NamedTuple):
    """Something that took time; both times are of ``time.perf_counter`` on its host, in seconds."""

    kind: Literal["run", "send", "receive", "copy"]
    """``send`` and ``receive`` are the two ends of a transfer between processes, or of a weight
    that is brought from its home; ``copy`` is one in or out of an accelerator's memory."""
    subject: str
    """Name of the part or of the value."""
    device: str
    peer: str | None
    """The device at the other end, ``host``, or None."""
    start_s: float
    end_s: float
    request: int = 0
    """Number of the request, from 0."""
    size_bytes: int = 0
