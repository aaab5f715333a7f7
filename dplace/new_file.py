"""Files that appear when they are whole."""

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

__all__ = ["new_file"]


@contextmanager
def new_file(path: Path) -> Iterator[BinaryIO]:
    """Yield a file to write; it takes the place of ``path`` on success only.

    A device or a pipe such as /dev/null is written to as it is: renaming a file over it would put
    an end to it, for every program of the machine. Where ``path`` is a link, the file that it
    points to is replaced.

    Raises:
        OSError: The disk is full or the place cannot be written to.
    """
    target = path.resolve()
    if target.exists() and not stat.S_ISREG(target.stat().st_mode):
        with target.open("wb") as file:
            yield file
        return
    number, work = tempfile.mkstemp(prefix=f".{target.name}-", dir=target.parent)
    try:
        with os.fdopen(number, "wb") as file:
            yield file
        umask = os.umask(0)
        os.umask(umask)
        Path(work).chmod(0o666 & ~umask)
        Path(work).replace(target)
    except BaseException:
        Path(work).unlink(missing_ok=True)
        raise
