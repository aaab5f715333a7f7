"""What ``profile`` answers, and its JSON form."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

__all__ = ["OpTypeTime", "ProfileReport", "ProfiledCalls", "ProfiledLinks", "ProfiledModel"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OpTypeTime:
    """What the ops of one type take in one request."""

    op_type: str
    ops: int
    signatures: int
    """Distinct ones among them."""
    seconds: float
    """Of all of them together."""
    share: float
    """Fraction of the model's time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfiledModel:
    """A model whose ops were measured."""

    model: str
    device: str
    optimize: str
    opt_level: str
    dims: Mapping[str, int]
    call_s: float
    """One call of the whole model in one session."""
    relative_error: float
    """Standard error of ``call_s``, as a fraction of it."""
    runs: int
    ops: int
    signatures: int
    seconds: float
    """How long measuring took."""
    by_type: tuple[OpTypeTime, ...]
    """The longest first."""
    path: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfiledCalls:
    """What calls cost where a device touches so many bytes in a request."""

    working_set_bytes: int
    call_overhead_s: float
    single_call_overhead_s: float
    request_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfiledLinks:
    """What calls and hand-overs cost."""

    device: str
    between: str
    """``devices`` of one process, or ``hosts``."""
    calls: tuple[ProfiledCalls, ...]
    """The smallest working set first; none for a network."""
    latency_s: float
    bytes_per_s: float
    relative_error: float
    path: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileReport:
    """All that one call measured."""

    models: tuple[ProfiledModel, ...] = ()
    links: ProfiledLinks | None = None
    warnings: tuple[str, ...] = ()

    def as_json(self) -> dict[str, object]:
        """Return the report as one JSON object."""
        links = None if self.links is None else asdict(self.links) | {"path": str(self.links.path)}
        return {
            "models": [asdict(model) | {"path": str(model.path)} for model in self.models],
            "links": links,
            "warnings": list(self.warnings),
        }
