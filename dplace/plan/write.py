"""A Plan record as ``plan.yaml``."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray

from dplace.plan.folder import PLAN_FILE
from dplace.plan.records import FORMAT_VERSION, Plan
from dplace.problem import Problem

__all__ = ["write_placement", "write_plan_file"]

_HEADER = """\
# A dplace plan: which device runs which part, and in which order. See docs/plan-format.md.
"""


def write_plan_file(plan: Plan, folder: Path) -> None:
    """Write ``plan.yaml`` into ``folder``."""
    fields: dict[str, Any] = {"format_version": FORMAT_VERSION}
    fields.update(_plain(dataclasses.asdict(plan)))
    for device in fields["devices"]:
        device["program"] = [_step_line(step) for step in device["program"]]
    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    text = yaml.dump(fields, Dumper=dumper, sort_keys=False, width=100, allow_unicode=True)
    (folder / PLAN_FILE).write_text(_HEADER + text, encoding="utf-8")


def write_placement(problem: Problem, placement: NDArray[np.int32], folder: Path) -> None:
    """Write ``placement.json``: the device of each op, by the op's first output."""
    names = [device.name for device in problem.cluster.devices]
    by_op = {
        op: names[device]
        for op, device in zip(problem.graph.op_names, placement.tolist(), strict=True)
    }
    write_json_file(by_op, folder / "placement.json", indent=0)


def write_json_file(content: object, path: Path, *, indent: int | None = None) -> None:
    """Write ``content`` as one JSON document."""
    text = json.dumps(content, indent=indent, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8")


def _plain(value: Any) -> Any:
    """Return ``value`` with lists for tuples, for YAML's safe loader knows no tuples."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def _step_line(step: dict[str, Any]) -> dict[str, Any]:
    """Return a step in the words of the format: ``run: PART``, ``send: VALUE, to: DEVICE``."""
    if step["action"] == "run":
        return {"run": step["subject"]}
    return {
        step["action"]: step["subject"],
        "to" if step["action"] == "send" else "from": step["peer"],
        "bytes": step["size_bytes"],
        "priority": step["priority"],
    }
