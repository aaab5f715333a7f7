"""A Problem as a DGL graph: groups of ops, devices, and how they hang together.

Nodes are ``group`` and ``device``. Edges are

- ``feeds``, from each group to those that read its values, and ``fed_by``, the same turned round;
- ``runs_on``, from every group to every device, group by group;
- ``link``, from every device to every device, itself included, row by row.

All features are 32-bit floats and told in ``GroupGraph``: ``features`` and ``sent`` of a group,
``features`` of a device, ``sent`` of ``feeds`` and ``fed_by``, ``run`` and ``allowed`` (0 or 1) of
``runs_on``, ``time`` of ``link``. Graphs of any number of devices go together into ``dgl.batch``.
"""

import os
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dplace.graph_io.group_graph import GroupGraph

if TYPE_CHECKING:
    from dgl import DGLGraph

__all__ = ["to_dgl"]


def to_dgl(graph: GroupGraph) -> "DGLGraph":
    """Return groups and devices as a DGL graph on the CPU."""
    # Without this dgl writes a file that says which backend it takes.
    os.environ.setdefault("DGLBACKEND", "pytorch")
    import dgl

    def tensor(array: NDArray[np.generic]) -> object:
        return dgl.backend.tensor(np.ascontiguousarray(array))

    source, target = tensor(graph.edges[:, 0]), tensor(graph.edges[:, 1])
    num_groups, num_devices = graph.num_groups, graph.num_devices
    groups, devices = np.divmod(np.arange(num_groups * num_devices), num_devices)
    starts, ends = np.divmod(np.arange(num_devices**2), num_devices)
    made = dgl.heterograph(
        {
            ("group", "feeds", "group"): (source, target),
            ("group", "fed_by", "group"): (target, source),
            ("group", "runs_on", "device"): (tensor(groups), tensor(devices)),
            ("device", "link", "device"): (tensor(starts), tensor(ends)),
        },
        num_nodes_dict={"group": num_groups, "device": num_devices},
    )
    made.nodes["group"].data["features"] = tensor(graph.features)
    made.nodes["group"].data["sent"] = tensor(graph.sent)
    made.nodes["device"].data["features"] = tensor(graph.device_features)
    made.edges["feeds"].data["sent"] = tensor(graph.edge_sent)
    made.edges["fed_by"].data["sent"] = tensor(graph.edge_sent)
    made.edges["runs_on"].data["run"] = tensor(graph.run.reshape(-1))
    made.edges["runs_on"].data["allowed"] = tensor(graph.allowed.reshape(-1).astype(np.float32))
    made.edges["link"].data["time"] = tensor(graph.link.reshape(-1))
    return made
