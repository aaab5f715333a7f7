"""What judges placements under one machine model: the protocol, and the choice of the engine."""

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dplace.problem import Problem
from dplace.rules import Rule, Score
from dplace.simulator.tables import Tables
from dplace.simulator.timeline import Lowered, Timeline

__all__ = ["Engine", "capacity", "engine_for", "holds_all_the_time", "takes_ops_one_by_one"]

Placement = NDArray[np.int32]

NO_LIMIT = 2**62


class Engine(Protocol):
    """A simulator of placements of one problem.

    All passes share one set of arrays, so an engine is for one thread at a time.
    """

    rules: tuple[Rule, ...]
    """What there is to try on each placement, the most promising first."""
    compiled: tuple[Any, ...]
    """What it has numba compile at its first use on a machine."""
    capacity: NDArray[np.int64]
    """Bytes that each device can hold, shape ``(num_devices,)``."""
    is_memory_tight: bool
    """Whether some placement may overflow; if not, memory is never looked at."""

    def score(self, placement: Placement, rule: Rule, order: Placement) -> Score:
        """Return the score of a placement, with the ops by priority."""
        ...

    def records(
        self, placement: Placement, rule: Rule, order: Placement
    ) -> tuple[Lowered, Timeline]:
        """Return what a placement runs as, and its timeline."""
        ...

    def peak_bound(self, placement: Placement) -> NDArray[np.int64]:
        """Return bytes that no schedule of a placement exceeds, shape ``(num_devices,)``."""
        ...

    def peak_bytes(self, placement: Placement, rule: Rule, order: Placement) -> NDArray[np.int64]:
        """Return the bytes at the worst moment on each device, shape ``(num_devices,)``."""
        ...

    def search_state(self, rule: Rule, order: Placement) -> Any:
        """Return what the compiled search judges by, or None if only ``score`` can judge."""
        ...


def capacity(problem: Problem) -> NDArray[np.int64]:
    """Return the bytes that each device can hold, shape ``(num_devices,)``.

    Under ``dnn-partitioning`` a CPU stands for host memory, which has no limit.
    """
    limits = np.array([device.memory_bytes for device in problem.cluster.devices], dtype=np.int64)
    return np.where(problem.is_host, NO_LIMIT, limits)


def holds_all_the_time(problem: Problem, is_memory_tight: bool) -> bool:
    """Return whether what an op holds does not depend on when it runs, where memory matters.

    The compiled search counts weights, and nothing that comes and goes.
    """
    return not is_memory_tight or problem.machine in ("moirai", "dnn-partitioning")


def takes_ops_one_by_one(problem: Problem) -> bool:
    """Return whether ops are no longer joined to parts.

    So it is under the rules of others, and where neither calls nor copies to and from the host cost
    anything.
    """
    cluster = problem.cluster
    if problem.machine != "native":
        return True
    graph = problem.graph
    is_fed = len(graph.graph_inputs) + len(graph.graph_outputs) > 0
    copies = is_fed and bool(
        cluster.host_latency_s.any() or np.isfinite(cluster.host_bytes_per_s).any()
    )
    return not copies and not any(device.call_overhead_s for device in cluster.devices)


def engine_for(problem: Problem, tables: Tables) -> Engine:
    """Return the engine for a problem's machine and objective."""
    if problem.machine == "dnn-partitioning" and problem.objective == "latency":
        from dplace.simulator.block_engine import BlockEngine

        return BlockEngine(problem, tables)
    if takes_ops_one_by_one(problem):
        if problem.objective == "throughput":
            from dplace.simulator.load_engine import LoadEngine

            return LoadEngine(problem, tables)
        from dplace.simulator.op_engine import OpEngine

        return OpEngine(problem, tables)
    from dplace.simulator.part_engine import PartEngine

    return PartEngine(problem, tables)
