"""The folder of an answer that is no plan: a placement, and the timeline predicted for it."""

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dplace.errors import InputError
from dplace.op_graph import OpGraph
from dplace.plan.folder import PLACEMENT_FILE, TIMELINE_FILE, new_folder
from dplace.plan.write import write_json_file

__all__ = ["read_placement", "write_answer"]

_SHOWN = 3


def write_answer(out: Path, placement: Mapping[str, int], timeline: Mapping[str, object]) -> None:
    """Write the device index of each op, by its id, and a Chrome trace; all or nothing.

    Raises:
        PlanError: The folder cannot be written.
    """
    with new_folder(out) as work:
        write_json_file(placement, work / PLACEMENT_FILE, indent=0)
        write_json_file(timeline, work / TIMELINE_FILE)


def read_placement(path: Path, graph: OpGraph) -> NDArray[np.int32]:
    """Return the device of each op, shape ``(num_ops,)``, from a file or an answer's folder.

    Raises:
        InputError: It is not JSON, ops are missing or unknown, or a device is no index.
    """
    file = path / PLACEMENT_FILE if path.is_dir() else path
    try:
        content = json.loads(file.read_bytes())
    except FileNotFoundError as error:
        raise InputError(f"{file}: there is no such file") from error
    except OSError as error:
        raise InputError(f"{file}: cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{file}: not JSON, or truncated") from error
    if not isinstance(content, dict):
        raise InputError(f"{file}: expected an object with the device index of each op id")
    known = set(graph.op_names)
    for words, ids in (
        ("has no device for", [op for op in graph.op_names if op not in content]),
        ("names ops that the graph has not:", [op for op in content if op not in known]),
    ):
        if ids:
            more = f" and {len(ids) - _SHOWN} more" if len(ids) > _SHOWN else ""
            raise InputError(f"{file}: {words} {', '.join(ids[:_SHOWN])}{more}")
    for op, device in content.items():
        if isinstance(device, bool) or not isinstance(device, int) or not 0 <= device < 2**31:
            raise InputError(f"{file}: op {op}: expected a device index, got {device!r}")
    return np.array([content[op] for op in graph.op_names], dtype=np.int32)
