"""What ``place`` and ``simulate`` answer, and its JSON form."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from dplace.plan.records import Plan, PlannedDevice

__all__ = ["PlaceAnswer", "SimulateAnswer", "streamed_bytes"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceAnswer:
    """A placement that was found, as the plan that would run it, and how it was found."""

    plan: Plan
    out: Path | None
    """The folder that the plan was written to; None when it was not written."""
    transfers: int
    """Number of copies of a value from one device to another."""
    transfer_bytes: int
    """What they carry in all."""
    scores: Mapping[str, float]
    """Makespan in seconds of each policy in the race, by its name; ``inf`` for none that fits."""
    evaluations: int
    """Placements that were simulated."""
    order_scores: Mapping[str, float] = field(default_factory=dict)
    """What the objective makes small, in seconds, under each order of transfers that was tried."""
    bound_argument: str = ""
    """Which argument gave the bound; empty where that is not known."""
    measured_share: float = 0.0
    """Fraction of the predicted time on one device that is measured; the rest is modelled."""
    warnings: tuple[str, ...] = ()
    """Sentences on what was assumed, one for each thing."""
    is_interrupted: bool = False
    """Whether the search was broken off: this is the best that it had found."""

    @property
    def gap_to_bound(self) -> float | None:
        """Return how far above the lower bound the objective is: 0.031 for 3.1 %."""
        return gap(self.plan.objective_s, self.plan.bound_s)

    def as_json(self) -> dict[str, object]:
        """Return the answer as one JSON object."""
        plan = self.plan
        return {
            "model": plan.model,
            "cluster": plan.cluster,
            "objective": plan.objective,
            "policy": plan.policy,
            "optimize": plan.optimize,
            "opt_level": plan.opt_level,
            "exact": plan.exact,
            "dims": dict(plan.dims),
            "makespan_s": plan.makespan_s,
            "bottleneck_s": plan.bottleneck_s,
            "bound_s": plan.bound_s,
            "bound_argument": self.bound_argument or None,
            "gap_to_bound": self.gap_to_bound,
            "best_single_device_s": plan.best_single_device_s,
            "devices": [device_json(device, plan) for device in plan.devices],
            "transfers": {"count": self.transfers, "bytes": self.transfer_bytes},
            "streamed": streamed_json(plan),
            "comm_order": plan.comm_order,
            "comm_orders": dict(self.order_scores),
            "parts": len(plan.parts),
            "scores": dict(self.scores),
            "evaluations": self.evaluations,
            "measured_share": self.measured_share,
            "warnings": list(self.warnings),
            "plan": None if self.out is None else str(self.out),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulateAnswer:
    """What a plan folder is predicted to take, simulated anew."""

    folder: Path
    plan: Plan
    """The plan as it was read, with the figures of when it was made."""
    makespan_s: float
    """The makespan as simulated now."""
    bottleneck_s: float
    """The time between two results of a stream, as simulated now."""
    devices: tuple[PlannedDevice, ...]
    """The plan's devices, with ``busy_s`` and ``peak_bytes`` as simulated now."""
    transfers: int
    """Number of copies of a value from one device to another."""
    transfer_bytes: int
    """What they carry in all."""
    warnings: tuple[str, ...] = ()
    """Sentences on what was assumed, one for each thing."""

    @property
    def gap_to_bound(self) -> float | None:
        """Return how far above the plan's lower bound the objective is: 0.031 for 3.1 %."""
        return gap(self.objective_s, self.plan.bound_s)

    @property
    def objective_s(self) -> float:
        """Return what the plan's objective makes small."""
        return self.bottleneck_s if self.plan.objective == "throughput" else self.makespan_s

    def as_json(self) -> dict[str, object]:
        """Return the answer as one JSON object."""
        plan = self.plan
        return {
            "model": plan.model,
            "cluster": plan.cluster,
            "objective": plan.objective,
            "policy": plan.policy,
            "optimize": plan.optimize,
            "opt_level": plan.opt_level,
            "exact": plan.exact,
            "dims": dict(plan.dims),
            "makespan_s": self.makespan_s,
            "bottleneck_s": self.bottleneck_s,
            "planned_makespan_s": plan.makespan_s,
            "bound_s": plan.bound_s,
            "gap_to_bound": self.gap_to_bound,
            "best_single_device_s": plan.best_single_device_s,
            "devices": [device_json(device, plan) for device in self.devices],
            "transfers": {"count": self.transfers, "bytes": self.transfer_bytes},
            "streamed": streamed_json(plan),
            "comm_order": plan.comm_order,
            "parts": len(plan.parts),
            "warnings": list(self.warnings),
            "plan": str(self.folder),
        }


def device_json(device: PlannedDevice, plan: Plan | None = None) -> dict[str, object]:
    """Return what a device has to do, as a JSON object; of a plan also what is streamed to it."""
    content: dict[str, object] = {
        "name": device.name,
        "kind": device.kind,
        "ops": device.num_ops,
        "weight_bytes": device.weight_bytes,
        "peak_bytes": device.peak_bytes,
        "busy_s": device.busy_s,
    }
    if plan is not None:
        content["streamed_bytes"] = streamed_bytes(device, plan)
        content["buffer_bytes"] = device.buffer_bytes
    return content


def streamed_json(plan: Plan) -> dict[str, object]:
    """Return how much is streamed and from where, as a JSON object."""
    homes = dict.fromkeys(weight.home for weight in plan.streamed)
    return {
        "count": len(plan.streamed),
        "bytes": sum(weight.size_bytes for weight in plan.streamed),
        "homes": list(homes),
    }


def streamed_bytes(device: PlannedDevice, plan: Plan) -> int:
    """Return the bytes of weights that are sent to a device for each request."""
    sizes = {weight.name: weight.size_bytes for weight in plan.streamed}
    return sum(sizes.get(step.subject, 0) for step in device.program if step.action == "receive")


def gap(objective_s: float, bound_s: float) -> float | None:
    """Return by what fraction a time exceeds its bound; None when the bound is 0."""
    return objective_s / bound_s - 1 if bound_s > 0 else None
