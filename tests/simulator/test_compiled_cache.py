"""What is compiled is kept even where the package's folder takes no files."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import dplace.simulator

COMPILE = """
import numpy as np
from dplace.simulator import loads
from dplace.simulator.compiled import is_compiled_cache_present
print(loads.__file__)
print(is_compiled_cache_present(loads.largest))
loads.largest(np.ones(3))
print(sum(loads.largest.stats.cache_hits.values()))
print(loads.largest.stats.cache_path)
"""


def test_a_read_only_package_is_compiled_once_for_each_user(tmp_path: Path) -> None:
    """The core is copied, nothing may be written in the copy, and two processes use it.

    Modes do not stop root, so a plain file stands in the copy where numba would make its folder:
    what numba sees then, an OSError when it tries to write there, is the same for every user.
    """
    core = Path(dplace.simulator.__file__).parents[1]
    copy = tmp_path / "dplace"
    shutil.copytree(core, copy, ignore=shutil.ignore_patterns("__pycache__"))
    (copy / "simulator" / "__pycache__").touch()
    for folder in (copy, *(path for path in copy.rglob("*") if path.is_dir())):
        folder.chmod(0o555)
    environment = {name: value for name, value in os.environ.items() if "NUMBA" not in name}
    environment |= {
        "HOME": str(tmp_path / "home"),
        "XDG_CACHE_HOME": str(tmp_path / "home" / "cache"),
        "PYTHONPATH": str(tmp_path),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    try:
        told = [
            subprocess.run(
                [sys.executable, "-c", COMPILE],
                cwd=tmp_path,
                env=environment,
                check=True,
                capture_output=True,
                text=True,
            ).stdout.split()
            for _ in range(2)
        ]
    finally:
        for folder in (copy, *(path for path in copy.rglob("*") if path.is_dir())):
            folder.chmod(0o755)
    (file, was_there, hits, kept), (_, is_there, hits_again, kept_again) = told
    assert Path(file).is_relative_to(copy)
    assert (was_there, hits) == ("False", "0")
    assert (is_there, hits_again) == ("True", "1")
    assert kept == kept_again
    assert Path(kept).is_relative_to(tmp_path / "home")
