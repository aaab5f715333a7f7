"""Measure what models and hand-overs cost here, for ``place`` to go by: part of the roof."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from dplace.api_model import optimise_mode, prepare
from dplace.errors import InputError, UsageError
from dplace.report.profile import (
    OpTypeTime,
    ProfiledCalls,
    ProfiledLinks,
    ProfiledModel,
    ProfileReport,
)

if TYPE_CHECKING:
    import onnx

    from dplace.graph_io.session import OptLevel
    from dplace.profiles.catalogue import DeviceKind
    from dplace.profiles.store import LinkCosts, ModelProfile
    from dplace.runtime.values import Value

__all__ = ["profile", "profile_links"]


def profile(
    models: Sequence[str | Path | onnx.ModelProto],
    *,
    device: str = "CPU",
    out: Path | str | None = None,
    dims: Mapping[str, int] | None = None,
    optimize: Literal["auto", "native", "portable", "none"] = "auto",
    opt_level: OptLevel = "all",
    inputs: Path | Mapping[str, Value] | None = None,
    seed: int = 0,
    limit_s: float = 20.0,
) -> ProfileReport:
    """Measure the ops of models on a device of this machine, and store the times.

    Args:
        models: Paths, ``-`` for standard input, or models in memory.
        device: The kind of the device, such as ``CPU``.
        out: A file for all measurements; None stores each in the user's data folder.
        dims: Sizes of dynamic dimensions; others are taken as 1.
        optimize: Which graph is measured, as for ``place``.
        opt_level: onnxruntime's graph optimization level, as for ``place``.
        inputs: An .npz file, or values by name; other inputs are drawn from ``seed``.
        limit_s: Seconds to measure a model for at most; it takes fewer if its times are sure.

    Raises:
        InputError: A model, a dimension or an input cannot be used, the device is not here, or
            ``out`` cannot be written.
    """
    from dplace.profiles.machine import local_kind
    from dplace.profiles.store import ProfileFile, default_path, write_profile
    from dplace.runtime.npz import read_npz

    if isinstance(models, str):
        models = [models]
    if not models:
        raise UsageError("profile: expected at least one model, got none")
    kind = local_kind(device)
    target = _checked_target(out)
    values = read_npz(inputs) if isinstance(inputs, Path) else inputs or {}
    measured: list[tuple[ModelProfile, float]] = []
    warnings: list[str] = []
    for model in models:
        started_s = time.perf_counter()
        made, notes = _measure(
            model, kind, dims or {}, optimize, opt_level, values, seed=seed, limit_s=limit_s
        )
        measured.append((made, time.perf_counter() - started_s))
        warnings += [note for note in notes if note not in warnings]
        if target is None:
            write_profile(ProfileFile(models=(made,)), default_path(made))
    if target is not None:
        write_profile(ProfileFile(models=tuple(made for made, _ in measured)), target)
    return ProfileReport(
        models=tuple(
            _reported(made, seconds, target or default_path(made)) for made, seconds in measured
        ),
        warnings=tuple(warnings),
    )


def profile_links(
    *,
    device: str = "CPU",
    out: Path | str | None = None,
    listen: str | None = None,
    connect: str | None = None,
    progress: Callable[[str], None] | None = None,
) -> ProfileReport:
    """Measure what calls cost, and handing values from one device of this machine to another.

    Args:
        device: The kind of the devices; only ``CPU`` so far.
        out: A file for the figures; None stores them in the user's data folder.
        listen: ``ADDRESS:PORT`` to answer at, once, for another machine to measure the network.
        connect: ``ADDRESS:PORT`` of a machine that listens; measures the network to it.
        progress: Told where it waits for another machine.

    Raises:
        InputError: The device is not here, the other machine cannot be reached, or ``out`` cannot
            be written.
        UsageError: ``listen`` together with ``connect``, or with ``out``.
    """
    from dplace.profiles.links import measure_links
    from dplace.profiles.machine import local_kind
    from dplace.profiles.network import answer_network, measure_network
    from dplace.profiles.store import ProfileFile, default_path, write_profile

    if listen is not None and connect is not None:
        raise UsageError("--listen and --connect: one machine listens, the other one connects")
    if listen is not None and out is not None:
        raise UsageError("--listen and --out: the machine that connects writes the figures")
    kind = local_kind(device)
    if listen is not None:
        answer_network(listen, progress=progress)
        return ProfileReport()
    target = _checked_target(out)
    found, warnings = measure_links(kind) if connect is None else measure_network(connect, kind)
    path = target or default_path(found)
    write_profile(ProfileFile(links=(found,)), path)
    return ProfileReport(links=_reported_links(found, path), warnings=warnings)


def _checked_target(out: Path | str | None) -> Path | None:
    """Return the file to write, refused before anything is measured.

    Raises:
        InputError: It is a folder, lies in none, or nothing can be written to where it lies.
    """
    from dplace.profiles.store import data_folder

    if out is None:
        _check_folder(data_folder().absolute())
        return None
    target = Path(out)
    if target.is_dir():
        raise InputError(f"{target}: expected a file for the profile, got a folder")
    folder = target.absolute().parent
    if not folder.is_dir():
        raise InputError(f"{target}: there is no folder {folder}")
    if target.is_file() or not target.exists():  # devices and pipes need no new file
        _check_folder(target.resolve().parent)
    return target


def _check_folder(folder: Path) -> None:
    """Raise InputError if no file can be made in a folder, or the folder itself cannot."""
    nearest = next(parent for parent in (folder, *folder.parents) if parent.exists())
    try:
        with tempfile.TemporaryFile(dir=nearest):
            pass
    except OSError as error:
        raise InputError(
            f"{folder}: no profile can be written there: {error.strerror or error}"
        ) from error


def _measure(
    model: str | Path | onnx.ModelProto,
    kind: DeviceKind,
    dims: Mapping[str, int],
    optimize: Literal["auto", "native", "portable", "none"],
    opt_level: OptLevel,
    values: Mapping[str, Value],
    *,
    seed: int,
    limit_s: float,
) -> tuple[ModelProfile, list[str]]:
    """Return the profile of one model, and warnings."""
    from dplace.graph_io.read import read_model
    from dplace.profiles import read_cluster
    from dplace.profiles.measure import Effort
    from dplace.profiles.profiling import profile_model

    source = read_model(model)
    with tempfile.TemporaryDirectory(prefix="dplace-") as scratch:
        optimised, placeable, sizes, warnings = prepare(
            source,
            mode=optimise_mode(optimize, read_cluster(kind.name)),
            opt_level=opt_level,
            dims=dims,
            scratch=Path(scratch),
            provider=kind.provider,
        )
        made, notes = profile_model(
            placeable,
            optimised,
            kind=kind,
            dims=sizes,
            folder=Path(scratch),
            inputs=values,
            seed=seed,
            effort=Effort(limit_s=limit_s),
        )
    # What concerns the roofline model or a split is of no interest here.
    assumed = [note for note in warnings if note.startswith("dynamic dimensions")]
    return made, [*assumed, *notes]


def _reported(made: ModelProfile, seconds: float, path: Path) -> ProfiledModel:
    by_type: dict[str, list[float]] = {}
    for op in made.ops:
        row = by_type.setdefault(op.op_type, [0.0, 0.0, 0.0])
        row[0] += op.ops
        row[1] += 1
        row[2] += op.seconds * op.ops
    total_s = sum(row[2] for row in by_type.values()) or 1.0
    rows = [
        OpTypeTime(
            op_type=op_type,
            ops=int(row[0]),
            signatures=int(row[1]),
            seconds=row[2],
            share=row[2] / total_s,
        )
        for op_type, row in by_type.items()
    ]
    return ProfiledModel(
        model=made.model,
        device=made.setting.device,
        optimize=made.optimize,
        opt_level=made.opt_level,
        dims=made.dims,
        call_s=made.call_s,
        relative_error=made.relative_error,
        runs=max((op.runs // op.ops for op in made.ops), default=0),
        ops=sum(op.ops for op in made.ops),
        signatures=len(made.ops),
        seconds=seconds,
        by_type=tuple(sorted(rows, key=lambda row: (-row.seconds, row.op_type))),
        path=path,
    )


def _reported_links(found: LinkCosts, path: Path) -> ProfiledLinks:
    return ProfiledLinks(
        device=found.setting.device,
        between=found.between,
        calls=tuple(ProfiledCalls(**asdict(one)) for one in found.calls),
        latency_s=found.latency_s,
        bytes_per_s=found.bytes_per_s,
        relative_error=found.relative_error,
        path=path,
    )
