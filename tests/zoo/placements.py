"""Placements that cut a graph wherever it may be cut."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from dplace.problem import Problem

__all__ = ["Placement", "drawn", "from_names", "round_robin"]

Placement = Callable[["Problem"], NDArray[np.int32]]
"""From a problem to the device of each op."""


def together(problem: "Problem", devices: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return ``devices`` with ops that must share a device on that of the first of them."""
    first: dict[int, int] = {}
    for op, group in enumerate(problem.graph.colocation.tolist()):
        if group >= 0:
            devices[op] = devices[first.setdefault(group, op)]
    return devices


def round_robin(problem: "Problem") -> NDArray[np.int32]:
    """Put op after op on device after device: as many cuts as there can be."""
    devices = np.arange(problem.num_ops, dtype=np.int32) % problem.num_devices
    return together(problem, devices.astype(np.int32))


def drawn(seed: int) -> Placement:
    """Return the placement that puts every op on a device of its own luck."""

    def placement(problem: "Problem") -> NDArray[np.int32]:
        rng = np.random.default_rng(seed)
        devices = rng.integers(0, problem.num_devices, problem.num_ops, dtype=np.int32)
        return together(problem, devices)

    return placement


def from_names(devices: dict[str, int], otherwise: int = 0) -> Placement:
    """Return the placement that puts the op of each first output on the device given for it."""

    def placement(problem: "Problem") -> NDArray[np.int32]:
        missing = set(devices) - set(problem.graph.op_names)
        assert not missing, f"no op makes {missing}; there are {problem.graph.op_names}"
        wanted = [devices.get(name, otherwise) for name in problem.graph.op_names]
        return np.array(wanted, dtype=np.int32)

    return placement
