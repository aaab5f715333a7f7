"""METIS as dgl brings it: weights of vertices in, a part for each vertex out, nothing printed."""

import ctypes
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import numpy as np
from numpy.typing import NDArray

__all__ = ["MODES", "Mode", "partition"]

Mode = Literal["recursive", "k-way"]

MODES: tuple[Mode, ...] = ("recursive", "k-way")


def partition(
    edges: NDArray[np.int64], weights: NDArray[np.int64], num_parts: int, mode: Mode
) -> NDArray[np.int64]:
    """Return the part of each vertex, with few edges between parts of equal weight.

    METIS seeds its own random numbers, always the same way, so equal graphs give equal parts.

    Args:
        edges: Shape ``(num_edges, 2)``, each in one direction; named twice, one counts twice.
        weights: Shape ``(num_vertices, num_weights)``: what each part has an equal share of.
        num_parts: At least 2, at most the number of vertices.
        mode: Bisect again and again, or refine all parts at once.

    Returns:
        Shape ``(num_vertices,)``, from 0 to ``num_parts - 1``.
    """
    with _silence():
        # dgl asks for its backend on a terminal and writes the answer to a file without this.
        os.environ.setdefault("DGLBACKEND", "pytorch")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import dgl
            import torch
            from dgl import partition as dgl_partition

            both = np.concatenate([edges, edges[:, ::-1]])
            source, target = torch.from_numpy(np.ascontiguousarray(both.T))
            graph = dgl.graph((source, target), num_nodes=len(weights))
            # What metis_partition_assignment calls in the end; itself, it takes no weights.
            parts = dgl_partition._CAPI_DGLMetisPartition_Hetero(
                graph._graph,
                num_parts,
                dgl.backend.to_dgl_nd(torch.from_numpy(weights.reshape(-1).copy())),
                mode,
                True,
            )
            found = np.array(parts.asnumpy(), dtype=np.int64)
    if len(found) != len(weights):
        raise RuntimeError(f"METIS made no parts of {len(weights)} vertices; this is a bug")
    return found


@contextmanager
def _silence() -> Iterator[None]:
    """Let nothing be printed, not by C either: dgl reports each cut, METIS what it dislikes."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    saved: list[tuple[int, int]] = []
    null = os.open(os.devnull, os.O_WRONLY)
    try:
        for descriptor in (1, 2):
            try:
                saved.append((descriptor, os.dup(descriptor)))
            except OSError:  # closed, so it stays clean
                continue
            os.dup2(null, descriptor)
        yield
    finally:
        # What C has kept back would be printed later.
        ctypes.CDLL(None).fflush(None)
        for descriptor, copy in saved:
            os.dup2(copy, descriptor)
            os.close(copy)
        os.close(null)
