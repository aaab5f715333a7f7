"""What it takes to move a value, for policies that look at no clock."""

import numpy as np
from numpy.typing import NDArray

from dplace.lowering import Evaluator
from dplace.problem import Problem

__all__ = ["given_transfer_s", "mean_transfer_s"]


def given_transfer_s(problem: Problem) -> NDArray[np.float64] | None:
    """Return the transfer times that the problem gives, for each pair of devices; or None.

    Returns:
        Shape ``(num_values, num_devices, num_devices)``, perhaps a view of one time a value.
    """
    if problem.transfer_s is None:
        return None
    num = problem.num_devices
    return np.broadcast_to(problem.transfer_s, (problem.graph.num_values, num, num))


def mean_transfer_s(evaluator: Evaluator) -> NDArray[np.float64]:
    """Return the time of moving each value, the mean over pairs of unlike devices, in seconds.

    Returns:
        Shape ``(num_values,)``; without calls of parts, and 0 where there is one device only.
    """
    problem, links = evaluator.problem, evaluator.tables.links
    num_values = problem.graph.num_values
    apart = ~np.eye(problem.num_devices, dtype=np.bool_)
    if not apart.any():
        return np.zeros(num_values)
    s_per_byte = float((1.0 / links["bytes_per_s"][apart]).mean())
    mean_s = links["latency"][apart].mean() + problem.graph.value_bytes * s_per_byte
    given = problem.transfer_s
    if given is not None:
        pairs = given.reshape(num_values, -1)  # (num_values, 1 or num_devices ** 2)
        mean_s = mean_s + (pairs if pairs.shape[1] == 1 else pairs[:, apart.ravel()]).mean(axis=1)
    return np.asarray(mean_s)
