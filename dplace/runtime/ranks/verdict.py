"""How a run over several processes ended before its time: one verdict, the same on all ranks."""

import json
from dataclasses import asdict, dataclass

from dplace import errors
from dplace.errors import DplaceError

__all__ = ["INTERRUPTED", "Verdict", "verdict_of"]

INTERRUPTED = 130

KINDS: dict[str, type[DplaceError]] = {name: getattr(errors, name) for name in errors.__all__}


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Why a run is over; the first one that is told counts."""

    kind: str
    """Name of the error in ``dplace.errors``; any other for Ctrl-C."""
    message: str
    lost: int | None = None
    """The rank that was lost, if one was."""

    @property
    def exit_code(self) -> int:
        """Return what every rank ends with."""
        return KINDS[self.kind].exit_code if self.kind in KINDS else INTERRUPTED

    def error(self) -> BaseException:
        """Return what to raise."""
        kind = KINDS.get(self.kind, KeyboardInterrupt)
        return kind(self.message)

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
        return Verdict(kind="KeyboardInterrupt", message=f"interrupted on rank {rank}")
    if isinstance(error, DplaceError) and type(error).__name__ in KINDS:
        return Verdict(kind=type(error).__name__, message=str(error))
    words = " ".join(f"{type(error).__name__}: {error}".split())
    return Verdict(kind="DplaceError", message=f"rank {rank} failed: {words}")
