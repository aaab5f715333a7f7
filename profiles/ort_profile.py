"""Node times out of the file that onnxruntime's profiler writes.

The file is a list of events in Chrome's trace format, and its fields come and go with versions:
only ``name``, ``dur``, ``args.op_name`` and ``args.provider`` have stayed, and numbers may be
text. The nodes of an If, Loop or Scan have events of their own, written before that of the node
around them, whose time they are part of: their time must not count twice, but each of them adds
what an event costs.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dplace.errors import InputError

__all__ = ["INNER", "NodeEvents", "read_node_events"]

SUFFIX = "_kernel_time"
INNER = "/"
"""Stands in the name of a node within another one's subgraph, and in no other."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NodeEvents:
    """Every event of one node, run by run."""

    seconds: NDArray[np.float64]
    """Shape ``(num_runs,)``: what the profiler measured, its own work included."""
    inner: NDArray[np.float64]
    """Shape ``(num_runs,)``: how many events of inner nodes lie within."""
    provider: str


def read_node_events(path: Path, names: Mapping[str, object]) -> dict[str, NodeEvents]:
    """Return the events of each node in ``names``, by name; a node that never ran is absent.

    A node that onnxruntime has added, such as a Cast, counts to the node that runs next.

    Raises:
        InputError: The file is cut short, or no profile, or of an onnxruntime that named no ops.
    """
    seconds: dict[str, list[float]] = {}
    inner: dict[str, list[float]] = {}
    providers: dict[str, str] = {}
    added_s, inner_count = 0.0, 0
    for name, op_name, provider, duration_s in _kernel_events(path):
        if name in names:
            seconds.setdefault(name, []).append(duration_s + added_s)
            inner.setdefault(name, []).append(inner_count)
            providers[name] = provider
            added_s, inner_count = 0.0, 0
        elif INNER in name:
            inner_count += 1
        elif op_name:
            added_s += duration_s
    if not seconds:
        raise InputError(f"{path}: the profile has no event of any node of the model")
    return {
        name: NodeEvents(
            seconds=np.array(found), inner=np.array(inner[name]), provider=providers[name]
        )
        for name, found in seconds.items()
    }


def _kernel_events(path: Path) -> Iterator[tuple[str, str, str, float]]:
    """Yield node name, op type, provider and seconds of each execution of a node, in order."""
    named = 0
    kernels = 0
    for event in _events(path):
        if not isinstance(event, dict) or event.get("cat", "Node") != "Node":
            continue
        name = event.get("name")
        if not isinstance(name, str) or not name.endswith(SUFFIX):
            continue
        kernels += 1
        arguments = event.get("args")
        arguments = arguments if isinstance(arguments, dict) else {}
        op_name = str(arguments.get("op_name", ""))
        named += bool(op_name)
        try:
            duration_s = float(event["dur"]) * 1e-6
        except (KeyError, TypeError, ValueError):
            continue
        yield name.removesuffix(SUFFIX), op_name, str(arguments.get("provider", "")), duration_s
    if not kernels:
        raise InputError(f"{path}: expected a profile of onnxruntime, found no times of nodes")
    if not named:
        raise InputError(
            f"{path}: the profile names no op types, as those of onnxruntime before 1.4; "
            "use a newer onnxruntime"
        )


def _events(path: Path) -> list[object]:
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from error
    try:
        events = json.loads(text, strict=False)
    except ValueError as error:
        raise InputError(f"{path}: the profile is cut short or broken: {error}") from error
    if not isinstance(events, list):
        raise InputError(
            f"{path}: expected a profile of onnxruntime, a list of events, got "
            f"{type(events).__name__}"
        )
    return events
