"""``plan.yaml`` as a Plan record; what it lacks or holds too much of is named."""

import dataclasses
import difflib
import hashlib
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import yaml

from dplace.errors import PlanError
from dplace.plan.folder import PLAN_FILE
from dplace.plan.records import FORMAT_VERSION, HOST, Plan, Step
from dplace.plan.validate import plan_problems

__all__ = ["check_files", "read_plan"]

_SHOWN_PROBLEMS = 3


def read_plan(folder: Path, *, verify: bool = True) -> Plan:
    """Read and validate a plan folder.

    Args:
        verify: Compare the digest of every part and weights file too.

    Raises:
        PlanError: The folder is no plan, is of another version, is incomplete or was changed.
    """
    if not folder.is_dir():
        kind = "got a file" if folder.exists() else "there is none"
        raise PlanError(f"{folder}: expected a plan folder, {kind}")
    file = folder / PLAN_FILE
    if not file.is_file():
        raise PlanError(f"{folder}: not a plan folder, for it holds no {PLAN_FILE}")
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        fields = yaml.load(file.read_text(encoding="utf-8"), Loader=loader)  # noqa: S506 (a safe one)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise PlanError(f"{file}: not YAML: {' '.join(str(error).split())[:200]}") from error
    if not isinstance(fields, dict):
        raise PlanError(f"{file}: expected a mapping of fields")
    version = fields.pop("format_version", None)
    if version != FORMAT_VERSION:
        raise PlanError(
            f"{file}: the plan has format version {version}, this dplace reads {FORMAT_VERSION}; "
            "place the model again"
        )
    plan: Plan = _record(Plan, fields, str(file))
    _refuse(folder, plan_problems(plan))
    if verify:
        check_files(plan, folder)
    return plan


def check_files(plan: Plan, folder: Path, *, device: str | None = None) -> None:
    """Compare the digest of every part and weights file, or of those of one device.

    Args:
        device: The device whose files alone have to be there; weights that the host streams count
            as the first device's.

    Raises:
        PlanError: A file is missing or is not the one that was written.
    """
    _refuse(folder, _file_problems(plan, folder, device))


def _refuse(folder: Path, problems: list[str]) -> None:
    if problems:
        more = len(problems) - _SHOWN_PROBLEMS
        tail = f"; and {more} more" if more > 0 else ""
        raise PlanError(f"{folder}: " + "; ".join(problems[:_SHOWN_PROBLEMS]) + tail)


def _file_problems(plan: Plan, folder: Path, device: str | None) -> list[str]:
    """Return a line for each file that is missing or is not the one that was written."""
    expected: dict[str, str] = {}
    for part in plan.parts:
        if device is not None and part.device != device:
            continue
        expected[part.file] = part.digest
        if part.weights_file is not None and part.weights_digest is not None:
            expected[part.weights_file] = part.weights_digest
    # Host memory is that of the process that drives the first device.
    hosts = HOST if device in (None, plan.devices[0].name) else None
    expected.update(
        (weight.file, weight.digest)
        for weight in plan.streamed
        if device is None or weight.home in (device, hosts)
    )
    problems: list[str] = []
    for name, digest in expected.items():
        path = folder / name
        if not path.is_file():
            problems.append(f"{name} is missing; place the model again")
            continue
        with path.open("rb") as file:
            found = "sha256:" + hashlib.file_digest(file, "sha256").hexdigest()
        if found != digest:
            problems.append(f"{name} was changed since the plan was made; place the model again")
    return problems


def _record(cls: Any, fields: Any, where: str) -> Any:
    """Return a record of ``cls`` from a mapping, checking names and types of all fields."""
    if not isinstance(fields, Mapping):
        raise PlanError(f"{where}: expected a mapping, got {type(fields).__name__}")
    if cls is Step:
        return _step(fields, where)
    hints = get_type_hints(cls)
    names = [field.name for field in dataclasses.fields(cls)]
    for name in fields:
        if name not in names:
            near = difflib.get_close_matches(str(name), names, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise PlanError(f"{where}: unknown field {name!r}{hint}")
    values: dict[str, Any] = {}
    for field in dataclasses.fields(cls):
        if field.name in fields:
            values[field.name] = _value(
                hints[field.name], fields[field.name], f"{where}: {field.name}"
            )
        elif field.default is dataclasses.MISSING:
            raise PlanError(f"{where}: the field {field.name!r} is missing")
    return cls(**values)


def _value(hint: Any, value: Any, where: str) -> Any:
    origin = get_origin(hint)
    if dataclasses.is_dataclass(hint):
        return _record(hint, value, where)
    if origin in (Union, types.UnionType):
        return _choice(hint, value, where)
    if origin is Literal:
        if value not in get_args(hint):
            listed = ", ".join(str(choice) for choice in get_args(hint))
            raise PlanError(f"{where}: expected one of {listed}, got {value!r}")
        return value
    if origin is tuple:
        if not isinstance(value, list):
            raise PlanError(f"{where}: expected a list, got {value!r}")
        items = get_args(hint)
        if items[-1] is not Ellipsis:
            if len(value) != len(items):
                raise PlanError(f"{where}: expected {len(items)} entries, got {len(value)}")
            return tuple(_value(i, v, where) for i, v in zip(items, value, strict=True))
        return tuple(_value(items[0], v, f"{where}[{i}]") for i, v in enumerate(value))
    if origin is dict:
        if not isinstance(value, dict):
            raise PlanError(f"{where}: expected a mapping, got {value!r}")
        return {str(key): _value(get_args(hint)[1], item, where) for key, item in value.items()}
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, hint) or (isinstance(value, bool) and hint is not bool):
        raise PlanError(f"{where}: expected {hint.__name__}, got {value!r}")
    return value


def _choice(hint: Any, value: Any, where: str) -> Any:
    choices = get_args(hint)
    if value is None and type(None) in choices:
        return None
    # Only unions of plain types and None stand in the records, so at most one list type fits.
    for choice in choices:
        if choice is type(None):
            continue
        if get_origin(choice) is tuple or choice in (int, str, float):
            try:
                return _value(choice, value, where)
            except PlanError:
                continue
    raise PlanError(f"{where}: {value!r} is of no type that belongs here")


def _step(fields: Mapping[str, Any], where: str) -> Step:
    for action, peer in (("run", None), ("send", "to"), ("receive", "from")):
        if action in fields:
            allowed = {action} if peer is None else {action, peer, "bytes", "priority"}
            unknown = set(fields) - allowed
            if unknown:
                raise PlanError(f"{where}: unknown field {sorted(unknown)[0]!r}")
            if peer is not None and peer not in fields:
                raise PlanError(f"{where}: {action} needs {peer!r}")
            return Step(
                action=action,  # type: ignore[arg-type]  # one of the three literals above
                subject=_value(str, fields[action], where),
                peer=None if peer is None else _value(str, fields[peer], where),
                size_bytes=_value(int, fields.get("bytes", 0), where),
                priority=_value(int, fields.get("priority", 0), where),
            )
    raise PlanError(f"{where}: expected run, send or receive, got {dict(fields)}")
