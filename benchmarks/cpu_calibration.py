"""Compare the roofline model of the CPU device with onnxruntime's profiler.

    python benchmarks/cpu_calibration.py
    python benchmarks/cpu_calibration.py --runs 40 --json calibration.json model.onnx

Prints, per kernel class and per model, what was measured and what the model of
``profiles/data/devices.yaml`` says; then what calls and hand-overs cost. One thread, pinned to a
core, by its CPU time. Other jobs on the machine only add to it, so the shortest of all runs
counts; ``--rounds`` spreads them over a longer while.
"""

import argparse
import json
import os
from pathlib import Path

import numpy as np
import onnx
from calibration_calls import call_s, hand_over_s
from calibration_measure import ModelTimes, graph_of, measure
from calibration_models import micro_models
from numpy.typing import NDArray

from dplace.profiles import modelled_seconds, read_cluster

NOISE_S = 20e-6
"""Nodes below this say more of the profiler, at 3 to 8 us a node, than of the kernel."""


def main() -> None:
    """Measure, compare, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", type=Path, help="further models to measure")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=1, help="measure all models so often")
    parser.add_argument("--dim", action="append", default=[], metavar="NAME=SIZE")
    parser.add_argument("--core", type=int, default=1, help="the core to run on")
    parser.add_argument("--json", type=Path, help="where to write all figures")
    options = parser.parse_args()

    every_core = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {options.core})
    light = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
    models = [(model, model.graph.name) for model in micro_models()]
    models += [(path, path.stem) for path in (*sorted(light.glob("*.onnx")), *options.models)]
    dims = {name: int(size) for name, _, size in (dim.partition("=") for dim in options.dim)}
    times = [measure(model, name, runs=options.runs, dims=dims) for model, name in models]
    for _ in range(1, options.rounds):
        again = [measure(model, name, runs=options.runs, dims=dims) for model, name in models]
        times = [shorter(old, new) for old, new in zip(times, again, strict=True)]
    predicted = [predict(model) for model in times]
    by_class = class_rows(times, predicted)
    by_model = model_rows(times, predicted)
    by_op = op_rows(times, predicted)
    print_rows("kernel class", by_class)
    print_rows("model", by_model)

    os.sched_setaffinity(0, every_core)
    calls: dict[str, float] = {}
    if len(every_core) >= 2:
        cores = tuple(sorted(every_core))[:2]
        trip_s, call = call_s((cores[0], cores[1]))
        calls = {
            "hand_over_s": hand_over_s((cores[0], cores[1])),
            "part_round_trip_s": trip_s,
            "session_call_s": call,
        }
        for name, seconds in calls.items():
            print(f"{name:24s} {seconds * 1e6:8.1f} us")
    if options.json:
        figures = {
            "classes": by_class,
            "models": by_model,
            "op_types": by_op,
            "calls": calls,
        }
        options.json.write_text(json.dumps(figures, indent=1))


def shorter(old: ModelTimes, new: ModelTimes) -> ModelTimes:
    """Return the shorter of two measurements of the same model, node by node."""
    found = {node.output: node for node in new.nodes}
    nodes = tuple(
        min(node, found.get(node.output, node), key=lambda n: n.seconds) for node in old.nodes
    )
    return ModelTimes(name=old.name, wall_s=min(old.wall_s, new.wall_s), nodes=nodes)


def predict(model: ModelTimes) -> NDArray[np.float64]:
    """Return the modelled time of every node, in seconds."""
    graph = graph_of([node.work for node in model.nodes])
    seconds: NDArray[np.float64] = modelled_seconds(graph, read_cluster("CPU"))[:, 0]
    return seconds


def _row(measured: list[float], modelled: list[float]) -> dict[str, float]:
    ratios = [m / t for t, m in zip(measured, modelled, strict=True) if t >= NOISE_S]
    return {
        "nodes": len(measured),
        "measured_s": sum(measured),
        "modelled_s": sum(modelled),
        "median_ratio": float(np.median(ratios)) if ratios else float("nan"),
        "p10_ratio": float(np.quantile(ratios, 0.1)) if ratios else float("nan"),
        "p90_ratio": float(np.quantile(ratios, 0.9)) if ratios else float("nan"),
    }


def _grouped(
    times: list[ModelTimes], predicted: list[NDArray[np.float64]], keys: list[list[str]]
) -> dict[str, dict[str, float]]:
    groups: dict[str, tuple[list[float], list[float]]] = {}
    for model, modelled, names in zip(times, predicted, keys, strict=True):
        for node, seconds, name in zip(model.nodes, modelled, names, strict=True):
            measured_, modelled_ = groups.setdefault(name, ([], []))
            measured_.append(node.seconds)
            modelled_.append(float(seconds))
    return {name: _row(*groups[name]) for name in sorted(groups)}


def class_rows(
    times: list[ModelTimes], predicted: list[NDArray[np.float64]]
) -> dict[str, dict[str, float]]:
    """Return the figures of every kernel class."""
    keys = [[node.work.kernel_class for node in model.nodes] for model in times]
    return _grouped(times, predicted, keys)


def op_rows(
    times: list[ModelTimes], predicted: list[NDArray[np.float64]]
) -> dict[str, dict[str, float]]:
    """Return the figures of every op type."""
    return _grouped(times, predicted, [[node.op_type for node in model.nodes] for model in times])


def model_rows(
    times: list[ModelTimes], predicted: list[NDArray[np.float64]]
) -> dict[str, dict[str, float]]:
    """Return the figures of every model; what is measured is a whole run without the profiler."""
    rows = {}
    for model, modelled in zip(times, predicted, strict=True):
        row = _row([node.seconds for node in model.nodes], modelled.tolist())
        rows[model.name] = row | {"measured_s": model.wall_s}
    return rows


def print_rows(title: str, rows: dict[str, dict[str, float]]) -> None:
    """Print one table: totals in milliseconds, ratios as modelled over measured."""
    print(
        f"{title:24s} {'nodes':>5s} {'measured ms':>12s} {'modelled ms':>12s} {'ratio':>6s}"
        f" {'median':>7s} {'p10':>5s} {'p90':>5s}"
    )
    for name, row in rows.items():
        ratio = row["modelled_s"] / row["measured_s"] if row["measured_s"] else float("nan")
        print(
            f"{name:24s} {row['nodes']:5.0f} {row['measured_s'] * 1e3:12.3f}"
            f" {row['modelled_s'] * 1e3:12.3f} {ratio:6.2f} {row['median_ratio']:7.2f}"
            f" {row['p10_ratio']:5.2f} {row['p90_ratio']:5.2f}"
        )
    print()


if __name__ == "__main__":
    main()
