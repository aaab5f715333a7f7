"""What ``compare`` answers: one row for each model and policy, as JSON and as CSV."""

import csv
import io
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from dplace.report.answer import gap

__all__ = ["ComparedModel", "Comparison", "PolicyRow"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyRow:
    """What one policy came to on one model."""

    policy: str
    comm_order: str = "fifo"
    """The order of communication: what was asked for, of the best seed what was taken."""
    makespans_s: tuple[float, ...] = ()
    """What the objective makes small, in seconds, for each seed; empty where there is an error."""
    straggler_effect: float = 0.0
    """Mean over the seeds of the straggler effect as ``straggler_effect`` has it."""
    transfers: int = 0
    """Of the best seed, as are the next two."""
    transfer_bytes: int = 0
    peak_bytes: int = 0
    """Peak memory of the fullest device."""
    evaluations: float = 0.0
    """Placements that were simulated, on average over the seeds; so the next."""
    seconds: float = 0.0
    """Time that the policy took."""
    error: str | None = None
    """Why there is no placement."""
    exit_code: int = 0
    """What a command for this row alone would end with."""

    @property
    def best_s(self) -> float:
        """Return the best makespan over the seeds; ``inf`` where there is none."""
        return min(self.makespans_s, default=math.inf)

    @property
    def throughput_per_s(self) -> float:
        """Return the results a second at the best makespan; ``inf`` where it takes no time."""
        return math.inf if self.best_s <= 0 else 1.0 / self.best_s

    @property
    def mean_s(self) -> float:
        """Return the mean makespan over the seeds; ``inf`` where there is none."""
        if not self.makespans_s:
            return math.inf
        return math.fsum(self.makespans_s) / len(self.makespans_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedModel:
    """One model or cost graph, and what each policy came to on it."""

    model: str
    """As it was given."""
    format: str = "onnx"
    machine: str = "native"
    cluster: str = ""
    num_ops: int = 0
    unit: str = "ms"
    unit_s: float = 1e-3
    bound_s: float = 0.0
    """No placement is faster; 0 where no policy found one."""
    bound_argument: str = ""
    """Which argument gave the bound; empty where that is not known."""
    best_single_device_s: float = math.inf
    """``inf`` if no device holds it all."""
    rows: tuple[PolicyRow, ...] = ()
    warnings: tuple[str, ...] = ()
    error: str | None = None
    """Why there are no rows."""
    exit_code: int = 0

    @property
    def failed_with(self) -> int:
        """Return the exit code of a model that no policy has a placement for; else 0."""
        if self.error is not None:
            return self.exit_code
        if any(row.error is None for row in self.rows):
            return 0
        return max((row.exit_code for row in self.rows), default=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What policies come to on models, under one set of rules."""

    objective: str
    seeds: int
    models: tuple[ComparedModel, ...]
    is_by_order: bool = False
    """Whether each policy has a row for each order of communication."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """Return the warnings of all models, each once."""
        return tuple(dict.fromkeys(text for model in self.models for text in model.warnings))

    @property
    def exit_code(self) -> int:
        """Return 0 if each model has a placement; else the code of those that have none, or 1.

        Where they differ in why, it is 1.
        """
        codes = {model.failed_with for model in self.models} - {0}
        return codes.pop() if len(codes) == 1 else min(len(codes), 1)

    def rows(self) -> Iterator[Mapping[str, object]]:
        """Yield a flat row for each model and policy; one without a policy for a failed model."""
        for model in self.models:
            if model.error is not None:
                yield _flat(self, model, PolicyRow(policy="", error=model.error))
            for row in model.rows:
                yield _flat(self, model, row)

    def as_json(self) -> dict[str, object]:
        """Return the comparison as one JSON object."""
        return {
            "objective": self.objective,
            "seeds": self.seeds,
            "rows": list(self.rows()),
            "warnings": list(self.warnings),
        }

    def as_csv(self) -> str:
        """Return the rows as CSV with a header; what does not exist is empty."""
        text = io.StringIO()
        rows = list(self.rows())
        if rows:
            writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows({key: _cell(value) for key, value in row.items()} for row in rows)
        return text.getvalue()


def _flat(comparison: Comparison, model: ComparedModel, row: PolicyRow) -> dict[str, object]:
    found = row.error is None
    single_s = model.best_single_device_s if math.isfinite(model.best_single_device_s) else None
    return {
        "model": model.model,
        "format": model.format,
        "ops": model.num_ops,
        "cluster": model.cluster,
        "machine": model.machine,
        "objective": comparison.objective,
        "unit": model.unit,
        "unit_s": model.unit_s,
        "policy": row.policy or None,
        "comm_order": row.comm_order if found else None,
        "makespan": row.best_s / model.unit_s if found else None,
        "makespan_s": row.best_s if found else None,
        "mean_makespan_s": row.mean_s if found else None,
        "bound_s": model.bound_s,
        "bound_argument": model.bound_argument or None,
        "gap_to_bound": gap(row.best_s, model.bound_s) if found else None,
        "best_single_device_s": single_s,
        "speed_up": single_s / row.best_s
        if single_s is not None and found and row.best_s
        else None,
        "throughput_per_s": row.throughput_per_s if found and row.best_s > 0 else None,
        "straggler_effect": row.straggler_effect if found else None,
        "transfers": row.transfers if found else None,
        "transfer_bytes": row.transfer_bytes if found else None,
        "peak_bytes": row.peak_bytes if found else None,
        "evaluations": row.evaluations if found else None,
        "seconds": row.seconds if found else None,
        "error": row.error,
    }


def _cell(value: object) -> object:
    return "" if value is None or value in (math.inf, -math.inf) else value
