"""METIS in a process of its own: graphs on standard input, the parts on standard output.

See ``metis_call.py``, which starts it.
"""

import os
import sys
from io import BytesIO

import numpy as np
from numpy.typing import NDArray

__all__ = ["main"]


def main() -> None:
    """Read arrays as ``metis_call`` writes them, and write the parts."""
    output = os.dup(1)
    os.dup2(2, 1)  # dgl reports each cut, and METIS prints what it dislikes
    asked = np.load(BytesIO(sys.stdin.buffer.read()), allow_pickle=False)
    found = [
        _partition(asked["edges"], asked[name], int(asked["num_parts"]), name.partition(" ")[0])
        for name in asked.files
        if " " in name
    ]
    answer = BytesIO()
    np.save(answer, np.stack(found), allow_pickle=False)
    with os.fdopen(output, "wb") as stream:
        stream.write(answer.getvalue())


def _partition(
    edges: NDArray[np.int64], weights: NDArray[np.int64], num_parts: int, mode: str
) -> NDArray[np.int64]:
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
    return np.array(parts.asnumpy(), dtype=np.int64)
