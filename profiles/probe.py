"""Tell the moments in which a core runs at its own speed from those in which it is held up.

On a machine that is shared, as virtual ones are, a core's speed changes by half within a second:
another guest computes on the same physical core, or a process takes a share. A small kernel of
fixed work, timed before and after each measurement, shows the first; it is too short to be
interrupted often, but Linux counts how long threads wait for a core that another process has.
"""

import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dplace.runtime.devices import session_options
from dplace.runtime.values import hold

__all__ = [
    "BUSY",
    "WAITING",
    "SpeedProbe",
    "await_rest",
    "num_undisturbed",
    "undisturbed",
    "waited_s",
]

SIZE = 128
TAKES = 3
TOLERANCE = 1.12
"""How much slower than at its best the probe may be; a core that is held up is slower by more."""
WAITING = 5.0
"""How much slower it counts as to have waited for a core all the time: 1 in 50 counts as 1.1."""
LOOK_S, QUIET_LOOKS = 0.005, 6
"""How often to look whether others compute, and how many times in a row nobody does at rest."""
FEWEST = 8
"""Measurements to keep even if all were disturbed: the least."""
BUSY = (
    "other processes, or other guests of this machine, were busy nearly all the time, so what was "
    "measured is not to be trusted; measure again when nothing else runs"
)


class SpeedProbe:
    """A small matrix product on this thread's core."""

    def __init__(self) -> None:
        import onnxruntime
        from onnx import TensorProto, helper

        matrix = [SIZE, SIZE]
        graph = helper.make_graph(
            [helper.make_node("MatMul", ["a", "a"], ["b"])],
            "probe",
            [helper.make_tensor_value_info("a", TensorProto.FLOAT, matrix)],
            [helper.make_tensor_value_info("b", TensorProto.FLOAT, matrix)],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        options = session_options("none", fixed_shapes=True)
        session = onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        self._native = session._sess
        self._array = np.full(matrix, 0.5, np.float32)
        self._feeds = {"a": hold(self._array)[0]}

    def take(self) -> float:
        """Return how long the kernel takes now, in seconds: the quickest of a few."""
        best_s = float("inf")
        for _ in range(TAKES):
            start_s = time.perf_counter()
            self._native.run_with_ort_values(self._feeds, ["b"], None)
            best_s = min(best_s, time.perf_counter() - start_s)
        return best_s


def waited_s() -> float:
    """Return how long this process's threads have waited for a core so far, in seconds.

    It is 0 where the system does not say.
    """
    waited_ns = 0
    for task in Path("/proc/self/task").glob("*/schedstat"):
        try:
            waited_ns += int(task.read_text().split()[1])
        except (OSError, IndexError):
            continue  # a thread that has just ended
    return waited_ns * 1e-9


def await_rest(limit_s: float) -> None:
    """Wait until no other process computes, for some seconds at most."""
    state = Path("/proc/loadavg")
    started_s = time.perf_counter()
    quiet = 0
    while quiet < QUIET_LOOKS and time.perf_counter() - started_s < limit_s and state.exists():
        running = int(state.read_text().split()[3].partition("/")[0])  # this thread is one
        quiet = quiet + 1 if running <= 1 else 0
        time.sleep(LOOK_S)


def undisturbed(
    probes_s: NDArray[np.float64], waited: NDArray[np.float64] | None = None
) -> NDArray[np.intp]:
    """Return the indices of the measurements during which every core ran at its own speed.

    Args:
        probes_s: Shape ``(num_measurements, num_probes)``: what the probes beside each took; each
            column is of one core.
        waited: Shape ``(num_measurements,)``: fraction of the time that threads waited for a core.

    >>> undisturbed(np.array([[1.0, 1.0], [1.5, 1.0]] * 8)).tolist()
    [0, 2, 4, 6, 8, 10, 12, 14]
    """
    if not len(probes_s):
        return np.zeros(0, dtype=np.intp)
    slowness = _slowness(probes_s, waited)
    kept = np.flatnonzero(slowness <= TOLERANCE)
    if len(kept) < FEWEST:
        kept = np.sort(np.argsort(slowness, kind="stable")[:FEWEST])
    return kept


def num_undisturbed(probes_s: NDArray[np.float64], waited: NDArray[np.float64]) -> int:
    """Return how many such measurements there are; arguments as for ``undisturbed``."""
    return int((_slowness(probes_s, waited) <= TOLERANCE).sum())


def _slowness(
    probes_s: NDArray[np.float64], waited: NDArray[np.float64] | None
) -> NDArray[np.float64]:
    slowness: NDArray[np.float64] = (probes_s / probes_s.min(axis=0)).max(axis=1)
    return slowness if waited is None else slowness + WAITING * waited
