"""The plan folder as a whole: written beside its place and moved there when it is complete."""

import errno
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dplace.errors import PlanError

__all__ = ["PLACEMENT_FILE", "PLAN_FILE", "TIMELINE_FILE", "check_target", "new_folder"]

PLAN_FILE = "plan.yaml"
PLACEMENT_FILE = "placement.json"
TIMELINE_FILE = "timeline.json"


def check_target(out: Path) -> None:
    """Refuse a target that cannot become a plan folder, before any work is done.

    Raises:
        PlanError: It is a file, or a folder with something else than a plan in it, or its
            parent does not exist.
    """
    if out.is_symlink() and not out.exists():
        raise PlanError(f"{out}: is a broken link; give another output folder")
    if out.exists() and not out.is_dir():
        raise PlanError(f"{out}: expected a folder for the plan, got a file")
    if out.is_dir() and any(out.iterdir()) and not _is_ours(out):
        raise PlanError(f"{out}: the folder exists and is not a plan; give another output folder")
    nearest = out.absolute().parent
    while not nearest.exists():
        nearest = nearest.parent
    if not nearest.is_dir():
        raise PlanError(f"{out}: {nearest} is not a folder")


def _is_ours(folder: Path) -> bool:
    """Return whether a folder is a plan, or the answer for a graph that nothing is split of."""
    if (folder / PLAN_FILE).is_file():
        return True
    return {file.name for file in folder.iterdir()} == {PLACEMENT_FILE, TIMELINE_FILE}


@contextmanager
def new_folder(out: Path) -> Iterator[Path]:
    """Yield a folder beside ``out`` to fill; it takes the place of ``out`` on success only.

    Raises:
        PlanError: The disk is full or the place cannot be written to.
    """
    check_target(out)
    created = _missing_parents(out)
    work: Path | None = None
    try:
        out.absolute().parent.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=f".{out.name}-", dir=out.absolute().parent))
        work.chmod(0o755)
        yield work
        _replace(work, out)
    except BaseException as error:
        if work is not None:
            shutil.rmtree(work, ignore_errors=True)
        for folder in reversed(created):
            _remove_if_empty(folder)
        if isinstance(error, OSError):
            raise PlanError(f"{out}: {_reason(error)}") from error
        raise


def _missing_parents(out: Path) -> list[Path]:
    missing: list[Path] = []
    folder = out.absolute().parent
    while not folder.exists():
        missing.append(folder)
        folder = folder.parent
    return list(reversed(missing))


def _remove_if_empty(folder: Path) -> None:
    try:
        folder.rmdir()
    except OSError:
        return


def _replace(work: Path, out: Path) -> None:
    target = out.resolve()
    if not target.exists():
        work.rename(target)
        return
    old = Path(tempfile.mkdtemp(prefix=f".{out.name}-old-", dir=work.parent))
    target.rename(old / "plan")
    try:
        work.rename(target)
    except OSError:
        (old / "plan").rename(target)
        raise
    finally:
        shutil.rmtree(old, ignore_errors=True)


def _reason(error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return f"the plan could not be written: {error.strerror}; nothing was kept"
    return f"cannot be written: {error.strerror or error}"
