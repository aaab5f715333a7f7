"""How a run over several processes ended before its time: one verdict, the same on all ranks."""

import json
from dataclasses import asdict, dataclass

from dplace.errors import DeviceLostError, DplaceError, MemoryLimitError, UsageError

__all__ = ["INTERRUPTED", "Verdict", "verdict_of"]

INTERRUPTED = 130

ERRORS = {error.exit_code: error for error in (UsageError, MemoryLimitError, DeviceLostError)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Why a run is over; the first one that is told counts."""

    exit_code: int
    message: str
    lost: int | None = None
    """The rank that was lost, if one was."""

    def error(self) -> BaseException:
        """Return what to raise: an error with this exit code, KeyboardInterrupt for Ctrl-C."""
        if self.exit_code == INTERRUPTED:
            return KeyboardInterrupt(self.message)
        return ERRORS.get(self.exit_code, DplaceError)(self.message)

    def to_text(self) -> str:
        """Return the form that is kept in the store."""
        return json.dumps(asdict(self))

    @classmethod
    def from_text(cls, text: bytes) -> "Verdict":
        """Return the verdict that ``to_text`` wrote."""
        return cls(**json.loads(text))


def verdict_of(error: BaseException, rank: int) -> Verdict:
    """Return what the other ranks are to be told of an error on this one."""
    if isinstance(error, KeyboardInterrupt):
        return Verdict(exit_code=INTERRUPTED, message=f"interrupted on rank {rank}")
    if isinstance(error, DplaceError):
        return Verdict(exit_code=error.exit_code, message=str(error))
    words = " ".join(f"{type(error).__name__}: {error}".split())
    return Verdict(exit_code=1, message=f"rank {rank} failed: {words}")
