"""What ``place`` and ``simulate`` answer where nothing is split: a placement and its figures."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from dplace.plan.records import PlannedDevice
from dplace.report.answer import device_json, gap

__all__ = ["GraphAnswer"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphAnswer:
    """A placement of a graph with given costs, or of a model by the rules of another system."""

    graph: str
    """Name of the graph."""
    format: str
    """How it was written: a format of cost graphs, or ``onnx``."""
    machine: str
    """The machine model that the figures are by."""
    objective: str
    cluster: str
    policy: str
    """Who decided; ``given`` for a placement from a file."""
    unit: str
    """What figures are printed in: ``ms``, or ``file units`` where the file states no unit."""
    unit_s: float
    """Seconds that one such unit is taken as."""
    makespan_s: float
    """What the objective makes small, in seconds."""
    bound_s: float
    best_single_device_s: float
    """``inf`` if no device holds it all."""
    placement: Mapping[str, int]
    """Index of the device of each op, by the op's id."""
    devices: tuple[PlannedDevice, ...]
    """In the order that ``placement`` counts; their programs are empty."""
    transfers: int
    transfer_bytes: int
    """0 where the file has times of transfers only."""
    scores: Mapping[str, float]
    """Makespan in seconds of each policy in the race, by its name; ``inf`` for none that fits."""
    evaluations: int
    """Placements that were simulated."""
    comm_order: str = "fifo"
    """The order of transfers that was taken."""
    order_scores: Mapping[str, float] = field(default_factory=dict)
    """What the objective makes small, in seconds, under each order of transfers that was tried."""
    bound_argument: str = ""
    """Which argument gave the bound; empty where that is not known."""
    out: Path | None = None
    """The folder that the answer was written to; None when it was not written."""
    warnings: tuple[str, ...] = ()
    """Sentences on what was assumed, one for each thing."""
    is_interrupted: bool = False
    """Whether the search was broken off: this is the best that it had found."""

    @property
    def gap_to_bound(self) -> float | None:
        """Return how far above the lower bound the makespan is: 0.031 for 3.1 %."""
        return gap(self.makespan_s, self.bound_s)

    def as_json(self) -> dict[str, object]:
        """Return the answer as one JSON object; the placement itself is in the folder."""
        return {
            "model": self.graph,
            "format": self.format,
            "machine": self.machine,
            "cluster": self.cluster,
            "objective": self.objective,
            "policy": self.policy,
            "unit": self.unit,
            "unit_s": self.unit_s,
            "makespan": self.makespan_s / self.unit_s,
            "makespan_s": self.makespan_s,
            "bound_s": self.bound_s,
            "bound_argument": self.bound_argument or None,
            "gap_to_bound": self.gap_to_bound,
            "best_single_device_s": self.best_single_device_s,
            "devices": [device_json(device) for device in self.devices],
            "transfers": {"count": self.transfers, "bytes": self.transfer_bytes},
            "comm_order": self.comm_order,
            "comm_orders": dict(self.order_scores),
            "scores": dict(self.scores),
            "evaluations": self.evaluations,
            "warnings": list(self.warnings),
            "answer": None if self.out is None else str(self.out),
        }
