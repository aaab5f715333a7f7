"""Stored measurements: the files that ``dplace profile`` writes and ``dplace place`` reads.

docs/profile-format.md is the reference of the format. What is measured on one machine is kept in
the user's data folder, a file for each model and device kind, and one for the links.
"""

import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from dplace.errors import InputError
from dplace.new_file import new_file
from dplace.profiles.stored_fields import Fields, as_list

__all__ = [
    "CallCosts",
    "LinkCosts",
    "ModelProfile",
    "OpTime",
    "ProfileFile",
    "Setting",
    "data_folder",
    "default_path",
    "read_profile",
    "stored_profiles",
    "write_profile",
]

FORMAT = "dplace-profile"
VERSION = 2
LONGEST_NAME = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What measurements depend on beside the op: where and with what they were made."""

    device: str
    """Device kind, such as ``CPU``."""
    onnxruntime: str
    provider: str
    cpu: str
    """Architecture and vector instructions."""
    processor: str
    """Name of the CPU's model."""

    def differences(self, here: "Setting") -> list[str]:
        """Return in words what is different here."""
        names = {
            "device": "the device is",
            "onnxruntime": "onnxruntime is",
            "provider": "the provider is",
            "processor": "the processor is",
        }
        found = [
            f"{words} {getattr(here, name)}, not {getattr(self, name)}"
            for name, words in names.items()
            if getattr(here, name) != getattr(self, name)
        ]
        if not found and self.cpu != here.cpu:
            found.append("the CPU's vector instructions are others")
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class OpTime:
    """The measured time of one op signature."""

    signature: str
    op_type: str
    attributes: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    seconds: float
    """Of one execution; the mean over the model's ops of this signature."""
    relative_error: float
    """Standard error of ``seconds``, as a fraction of it."""
    runs: int
    """Executions that were measured."""
    ops: int
    """Ops of the model that have this signature."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelProfile:
    """What the ops of one model take on one kind of device."""

    setting: Setting
    date: str
    """When it was measured, in UTC: ``2026-05-01T12:00:00Z``."""
    model: str
    model_digest: str
    optimize: str
    opt_level: str
    dims: Mapping[str, int]
    call_s: float
    """A whole call of the model in one session."""
    relative_error: float
    """Standard error of ``call_s``, as a fraction of it."""
    probe_s: float
    """What the speed probe (``probe.py``) took meanwhile: how quick the core was."""
    ops: tuple[OpTime, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CallCosts:
    """What calls cost where a device touches so many bytes in a request."""

    working_set_bytes: int
    """Weights and values of a device: the more, the less is left in its caches for a call."""
    call_overhead_s: float
    """One more part, beside its ops."""
    single_call_overhead_s: float
    """A request to a plan of one device, beside its ops."""
    request_s: float
    """Bringing a request to a device's thread and its outputs back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkCosts:
    """What calls cost on one kind of device, and handing a value from one device to another."""

    setting: Setting
    date: str
    calls: tuple[CallCosts, ...]
    """The smallest working set first; none for a network."""
    latency_s: float
    """From the end of a part to the start of one that waits for it on another device."""
    bytes_per_s: float
    """At which a part reads what another device has made."""
    relative_error: float
    """Of the fit: median of the distances from the line, as fractions of what was measured."""
    sizes_bytes: tuple[int, ...]
    """Sizes of the values that were handed over."""
    between: str
    """``devices`` of one process, or ``hosts``."""
    probe_s: float
    """What the speed probe takes at the speed that the times were brought to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileFile:
    """All that one file holds."""

    models: tuple[ModelProfile, ...] = ()
    links: tuple[LinkCosts, ...] = ()


def data_folder() -> Path:
    """Return the folder of the user's profiles; it need not exist.

    ``DPLACE_HOME`` is looked at first, then ``XDG_DATA_HOME``, then ``~/.local/share``.
    """
    if home := os.environ.get("DPLACE_HOME"):
        return Path(home) / "profiles"
    base = os.environ.get("XDG_DATA_HOME")
    folder = Path(base) if base else Path.home() / ".local" / "share"
    return folder / "dplace" / "profiles"


def default_path(content: ModelProfile | LinkCosts) -> Path:
    """Return where a measurement is kept if the user names no file."""
    kind = _plain(content.setting.device)
    if isinstance(content, LinkCosts):
        return data_folder() / f"{kind}.{content.between}.json"
    model = _plain(Path(content.model).stem)[:LONGEST_NAME]
    dims = "".join(f"-{_plain(name)}{size}" for name, size in content.dims.items())
    if len(dims) > LONGEST_NAME:
        dims = f"-{hashlib.sha256(dims.encode()).hexdigest()[:8]}"
    digest = _plain(content.model_digest.rpartition(":")[2])[:8]
    return data_folder() / (
        f"{kind}.{model}-{digest}{dims}.{content.optimize}-{content.opt_level}.json"
    )


def _plain(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]+", "-", text)


def write_profile(content: ProfileFile, path: Path) -> None:
    """Write a profile file: beside its place, then renamed.

    Raises:
        InputError: It cannot be written.
    """
    fields = {"format": FORMAT, "version": VERSION, **asdict(content)}
    text = json.dumps(fields, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with new_file(path) as file:
            file.write(text.encode())
    except OSError as error:
        raise InputError(
            f"{path}: the profile cannot be written: {error.strerror or error}"
        ) from error


def read_profile(path: Path) -> ProfileFile:
    """Return what a profile file holds.

    Raises:
        InputError: It is missing, cut short, no profile, or of another version.
    """
    try:
        content = json.loads(path.read_bytes())
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"{path}: the profile is cut short or no JSON ({error}); make it anew with "
            "dplace profile"
        ) from error
    if isinstance(content, list) or (isinstance(content, dict) and "traceEvents" in content):
        raise InputError(
            f"{path}: is a trace, as onnxruntime's profiler writes it; expected a file that "
            "dplace profile wrote"
        )
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise InputError(f"{path}: expected a file that dplace profile wrote")
    if content.get("version") != VERSION:
        raise InputError(
            f"{path}: is of format version {content.get('version')!r:.60}, and this dplace reads "
            f"{VERSION}; make it anew with dplace profile"
        )
    try:
        return ProfileFile(
            models=tuple(_model(entry) for entry in as_list(content, "models")),
            links=tuple(_links(entry) for entry in as_list(content, "links")),
        )
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def stored_profiles(kinds: Iterable[str]) -> list[Path]:
    """Return the files in the user's data folder about some kinds of devices, newest first."""
    folder = data_folder()
    found = [path for kind in sorted(set(kinds)) for path in folder.glob(f"{_plain(kind)}.*.json")]

    def age(path: Path) -> tuple[float, str]:
        try:
            return -path.stat().st_mtime, path.name
        except OSError:
            return 0.0, path.name

    return sorted(found, key=age)


def _model(entry: object) -> ModelProfile:
    fields = Fields("models", entry)
    dims = Fields("dims", fields.get("dims"))
    return ModelProfile(
        setting=_setting(fields),
        date=fields.text("date"),
        model=fields.text("model"),
        model_digest=fields.text("model_digest"),
        optimize=fields.text("optimize"),
        opt_level=fields.text("opt_level"),
        dims={name: int(dims.number(name)) for name in dims.content},
        call_s=fields.number("call_s"),
        relative_error=fields.number("relative_error"),
        probe_s=fields.number("probe_s", above=True),
        ops=tuple(_op_time(op) for op in as_list(fields.content, "ops")),
    )


def _setting(fields: Fields) -> Setting:
    inner = Fields("setting", fields.get("setting"))
    names = ("device", "onnxruntime", "provider", "cpu", "processor")
    return Setting(**{name: inner.text(name) for name in names})


def _op_time(entry: object) -> OpTime:
    fields = Fields("ops", entry)
    return OpTime(
        signature=fields.text("signature"),
        op_type=fields.text("op_type"),
        attributes=fields.text("attributes"),
        inputs=fields.texts("inputs"),
        outputs=fields.texts("outputs"),
        seconds=fields.number("seconds"),
        relative_error=fields.number("relative_error"),
        runs=int(fields.number("runs")),
        ops=int(fields.number("ops")),
    )


def _links(entry: object) -> LinkCosts:
    fields = Fields("links", entry)
    sizes: Sequence[object] = as_list(fields.content, "sizes_bytes")
    return LinkCosts(
        setting=_setting(fields),
        date=fields.text("date"),
        calls=tuple(
            sorted(
                (_call_costs(call) for call in as_list(fields.content, "calls")),
                key=lambda costs: costs.working_set_bytes,
            )
        ),
        latency_s=fields.number("latency_s"),
        bytes_per_s=fields.number("bytes_per_s", above=True),
        relative_error=fields.number("relative_error"),
        sizes_bytes=tuple(size for size in sizes if isinstance(size, int)),
        between=fields.text("between"),
        probe_s=fields.number("probe_s", above=True),
    )


def _call_costs(entry: object) -> CallCosts:
    fields = Fields("calls", entry)
    return CallCosts(
        working_set_bytes=int(fields.number("working_set_bytes")),
        call_overhead_s=fields.number("call_overhead_s"),
        single_call_overhead_s=fields.number("single_call_overhead_s"),
        request_s=fields.number("request_s"),
    )
