"""METIS as dgl brings it: weights of vertices in, a part for each vertex out, nothing printed.

It runs in a process of its own, about three seconds for importing dgl. This METIS reads memory that
it has not written, so its answer depends on what was there before: only with an allocator that
clears what it gives do equal graphs get equal parts. It prints from C, too.
"""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

__all__ = ["MODES", "Mode", "partitions"]

Mode = Literal["recursive", "k-way"]

MODES: tuple[Mode, ...] = ("recursive", "k-way")

ENVIRONMENT: Mapping[str, str] = {
    # Without a cache for each thread, which is not cleared; 255 stands for zeros.
    "GLIBC_TUNABLES": "glibc.malloc.tcache_count=0:glibc.malloc.perturb=255",
    # Without this dgl writes a file that says which backend it takes.
    "DGLBACKEND": "pytorch",
}

PROGRAM = "from dplace.policies.metis_child import main; main()"


def partitions(
    edges: NDArray[np.int64],
    weights: Sequence[NDArray[np.int64]],
    num_parts: int,
    modes: Sequence[Mode] = MODES,
) -> list[NDArray[np.int64]]:
    """Return ways to part vertices, with few edges between parts of equal weight.

    Args:
        edges: Shape ``(num_edges, 2)``, each in one direction; named twice, one counts twice.
        weights: Each of shape ``(num_vertices, any)``: what each part has an equal share of. For
            each, and for each mode, vertices are parted once.
        num_parts: At least 2, at most the number of vertices.
        modes: Bisect again and again, or refine all parts at once.

    Returns:
        Arrays of shape ``(num_vertices,)``, from 0 to ``num_parts - 1``.
    """
    asked = BytesIO()
    arrays: dict[str, Any] = {
        f"{mode} {at}": column for at, column in enumerate(weights) for mode in modes
    }
    np.savez(asked, edges=edges, num_parts=np.array(num_parts), **arrays)
    child = subprocess.run(
        [sys.executable, "-P", "-W", "ignore", "-c", PROGRAM],
        input=asked.getvalue(),
        capture_output=True,
        env={**os.environ, **ENVIRONMENT},
        check=False,
    )
    if child.returncode != 0:
        last = child.stderr.decode(errors="replace").strip().splitlines()[-1:]
        raise RuntimeError(f"METIS ended with {child.returncode}: {' '.join(last)}")
    return list(np.load(BytesIO(child.stdout), allow_pickle=False))
