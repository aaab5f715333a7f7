"""One small graph in each format: a makes x for b and c, which make y and z for d.

::

    a --x--> b --y--> d
      \\----> c --z--/

a takes 1 ms, b 2 ms, c 3 ms and d 4 ms on an accelerator, or 10, 20, 30 and 40 ms on a CPU.
"""

import json
import struct
from collections.abc import Sequence
from typing import Any

__all__ = ["diamond", "doppler", "excel", "moirai_rows", "own", "pipedream", "text"]


def diamond(**changes: Any) -> dict[str, Any]:
    """Return the graph in the JSON of dnn-partitioning: two accelerators and one CPU."""
    ids = {"a": 1, "b": 2, "c": 3, "d": 4}
    made: dict[str, Any] = {
        "maxSizePerFPGA": 1000.0,
        "maxFPGAs": 2,
        "maxCPUs": 1,
        "nodes": [
            {
                "id": ids[name],
                "name": name,
                "supportedOnFpga": True,
                "fpgaLatency": float(ids[name]),
                "cpuLatency": 10.0 * ids[name],
                "isBackwardNode": False,
                "colorClass": 7 if name in "bc" else ids[name],
                "size": 100.0 * ids[name],
            }
            for name in "dcba"
        ],
        "edges": [
            {"sourceId": 1, "destId": 2, "cost": 0.5, "size": 64.0},
            {"sourceId": 1, "destId": 3, "cost": 0.5, "size": 64.0},
            {"sourceId": 2, "destId": 4, "cost": 0.25, "size": 32.0},
            {"sourceId": 3, "destId": 4, "cost": 0.125, "size": 16.0},
        ],
    }
    return made | changes


def pipedream() -> str:
    """Return the graph in PipeDream's text; backward takes as long again and 1 ms more."""
    lines = []
    for name, ms, sizes, weights in (
        ("a", 1, "[60.0; 4.0]", 100.0),
        ("b", 2, "32.0", 200.0),
        ("c", 3, "16.0", 300.0),
        ("d", 4, "8.0", 400.0),
    ):
        lines.append(
            f"node{name} -- Linear(4, 4) -- forward_compute_time={ms:.3f}, "
            f"backward_compute_time={ms + 1:.3f}, activation_size={sizes}, "
            f"parameter_size={weights}"
        )
    lines += [f"\tnode{source} -- node{target}" for source, target in ("ab", "ac", "bd", "cd")]
    return "\n".join(lines) + "\n"


def doppler() -> str:
    """Return the graph in Doppler's text, two inputs besides; 1e10 is 1 ms."""
    costs = "\n".join(f"{ms}0000000000,{ms}000000000" for ms in (1, 2, 3, 4))
    return f"6\n4, 5, \n0, 0, 1, 2, \n1, 2, 3, 3,\n{costs}"


def own(**changes: Any) -> dict[str, Any]:
    """Return the graph in dplace's own JSON, with two devices of one kind and one of another."""
    made: dict[str, Any] = {
        "format": "dplace-cost-graph",
        "version": 1,
        "kinds": ["fast", "slow"],
        "ops": [
            {"id": "a", "name": "MatMul", "seconds": [0.001, 0.010], "memory_bytes": 100},
            {"id": "b", "seconds": [0.002, 0.020], "colocation": "pair"},
            {"id": "c", "seconds": [0.003, None], "colocation": "pair"},
            {"id": "d", "seconds": 0.004},
        ],
        "values": [
            {"name": "x", "from": "a", "to": ["b", "c"], "bytes": 64},
            {"name": "y", "from": "b", "to": "d", "bytes": 32},
            {"name": "z", "from": "c", "to": ["d"], "bytes": 16},
        ],
        "devices": [
            {"kind": "fast", "memory_bytes": 1000},
            {"kind": "fast", "name": "other", "memory_bytes": 2000},
            {"kind": "slow"},
        ],
        "links": {"latency_s": 1e-5, "bytes_per_s": 1e9, "contention": "port"},
    }
    return made | changes


def moirai_rows() -> list[list[float | str]]:
    """Return the graph as Moirai's sheet for two devices, with a virtual source and a note."""
    header = [
        "task",
        "c_task",
        "dir_succ",
        "dir_succ_add",
        "p0",
        "p1",
        "pc00",
        "pc01",
        "pc10",
        "pc11",
        "mi",
        "m0",
        "m1",
    ]
    return [
        [*header],
        [0, "", 1, 1, 0, 0, "", "", "", "", 0, 5000, 6000],
        [1, "2,3", "4,5", "2,3,4,5", 1, 10, "0,0", "0.5,0.75", "0.25,0.375", "0,0", 100, "", ""],
        [4, 6, 8, "6,8", 2, 20, 0, 0.5, 0.25, 0, 200, "", ""],
        [5, 7, 8, "7,8", 3, 30, "0.0", "0.5", "0.25", "0.0", 300, "", ""],
        [8, "", "", "", 4, 40, "", "", "", "", 400, "", ""],
        [""] * 13,
        ["times need a unit", *[""] * 12],
    ]


def excel(rows: Sequence[Sequence[float | str]]) -> bytes:
    """Return a sheet as an Excel 2 stream, which is little more than its cells."""
    records = [(0x0009, struct.pack("<HH", 0x0002, 0x0010))]
    for row, cells in enumerate(rows):
        for column, cell in enumerate(cells):
            place = struct.pack("<HHxxx", row, column)
            if isinstance(cell, str):
                if cell:
                    text = cell.encode("latin-1")
                    records.append((0x0004, place + struct.pack("<B", len(text)) + text))
            else:
                records.append((0x0003, place + struct.pack("<d", cell)))
    records.append((0x000A, b""))
    return b"".join(struct.pack("<HH", kind, len(body)) + body for kind, body in records)


def text(content: object) -> str:
    """Return JSON as a file has it."""
    return json.dumps(content)
