"""Members of a family as files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import onnx

from dplace.errors import InputError
from dplace.graph_io.families.members import SplitName, generate
from dplace.new_file import new_file

__all__ = ["write_family"]


def write_family(
    family: str,
    out: Path,
    *,
    count: int | None = None,
    seed: int,
    size: float = 1.0,
    split: SplitName | None = None,
) -> Iterator[Path]:
    """Write members of a family to ``out/<name>.onnx`` and yield each path once it is there.

    The folder is made if it is missing, once there is a model to write; a file of the same name
    is replaced. Each file is written beside its place and renamed, so whoever looks sees a whole
    model or none.

    Args:
        family: one of ``FAMILIES``.
        out: the folder to write into.
        count: as for ``generate``, and so are the others.

    Raises:
        InputError: for what ``generate`` refuses (before anything is written), and for a folder
            that cannot be made or written.
    """
    members = generate(family, count=count, seed=seed, size=size, split=split)
    return _write(members, out)


def _write(members: Iterator[tuple[str, onnx.ModelProto]], out: Path) -> Iterator[Path]:
    for name, model in members:
        path = out / f"{name}.onnx"
        try:
            out.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"{out}: cannot be made a folder: {error.strerror}") from error
        try:
            with new_file(path) as file:
                file.write(model.SerializeToString(deterministic=True))
        except OSError as error:
            raise InputError(f"{path}: cannot be written: {error.strerror}") from error
        yield path
