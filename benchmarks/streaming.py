"""Weights streamed from one host to a worker on another, in every order, over real shaped links.

One device runs all ops, the other is the home of all weights that can be streamed, as a parameter
server; each request sends them anew. Two network namespaces stand for the hosts. Rates are given in
bits per second, or as ``C:T``, the rate at which compute and transfer times stand so.

- ``compute`` is the time that a core takes for the ops of a model whose weights are streamed from
  the host's own memory, without the reading; ``busy`` what the ops took amid the messages of
  ``tac``. The speed of a core of a virtual machine changes from second to second, so orders take
  turns, ``tac`` after every other of the random ones, and what is said of an order is said at the
  speed that its own run had;
- ``bound``: no order is faster. A part, cut as for ``tac``, starts when all weights have come that
  it and the parts before it read, and all parts after it are still to run; the largest such sum
  over all parts, at the measured bandwidth and with ``busy``, is at least the whole transfer and
  the whole compute time. ``over bound`` is the median over iterations, each with what was busy in
  its run;
- ``random`` is the mean over seeds, ``gain`` the throughput that ``tac`` gains over it;
- ``predicted`` is what the plan says, with ops as they were profiled; ``error`` is that of the plan
  with its parts at the speed of the run, the median over all runs of all orders;
- ``spread`` is the standard deviation of ``over bound``, over the mean: of workers with random
  orders of their own, one for each seed, and of iterations with ``tac``; ``raw spread`` that of
  times.

Needs root. With --merge, rows of other models and rates are taken over from FILE. Run it as:

    python -m benchmarks.streaming --models resnet50 --rates 1:1 --json streaming.json
"""

import gc
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import mean, median, pstdev
from typing import Any

import numpy as np

from benchmarks.figures import arguments, report, tell
from benchmarks.namespaces import Hosts
from benchmarks.streaming_models import MODELS, write_model
from dplace import api
from dplace.plan.planned_times import planned_times
from dplace.plan.records import Plan

RATES = ("1e9", "1e8", "2:1", "1:1", "1:2")
ORDERS = ("fifo", "tic", "tac", "critical-path")
PORT = 29600
SLOW_BITS_PER_S = 2e8
"""Below it, iterations take so long that fewer are run."""


def main() -> None:
    """Measure every model at every rate."""
    options = arguments(
        __doc__ or "",
        models=tuple(MODELS),
        rates=RATES,
        seeds=10,
        slow_seeds=3,
        profile_s=10.0,
        home="",
        merge=False,
    )
    rows: list[dict[str, Any]] = []
    if options.merge and options.json is not None and options.json.exists():
        known = json.loads(options.json.read_text())["rows"]
        rows = [
            row
            for row in known
            if row["model"] not in options.models or row["rate"] not in options.rates
        ]
    with tempfile.TemporaryDirectory(prefix="dplace-") as scratch, Hosts(2, 1e9) as hosts:
        os.environ["DPLACE_HOME"] = options.home or scratch
        for name in options.models:
            for row in rows_of(name, hosts, options, Path(scratch)):
                rows.append(row)
                tell(dict(shown(row)))
                if options.json is not None:  # what has been measured is kept
                    options.json.write_text(json.dumps({"rows": rows}))
    rows.sort(key=lambda row: (list(MODELS).index(row["model"]), -row["mbit/s"]))
    title = "Streamed weights, iteration times in ms"
    report(title, [dict(shown(row)) for row in rows], summary(rows), options.json, details=rows)


def shown(row: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield what of a row goes into the table."""
    return ((name, value) for name, value in row.items() if name != "runs")


def rows_of(name: str, hosts: Hosts, options: Any, scratch: Path) -> Iterator[dict[str, Any]]:
    """Yield what each order comes to at each rate."""
    path = scratch / f"{name}.onnx"
    write_model(name, path)
    dims = MODELS[name].dims
    api.profile([path], dims=dims, limit_s=options.profile_s)
    alone = scratch / f"{name}-alone"
    api.place(path, cluster="1xCPU", policy="single", weights="stream", dims=dims, out=alone)
    for rate in options.rates:
        yield row_of(name, rate, hosts, options, scratch)


def row_of(name: str, rate: str, hosts: Hosts, options: Any, scratch: Path) -> dict[str, Any]:
    """Return what each order comes to at one rate."""
    compute_s = compute_once_s(scratch / f"{name}-alone")
    sized = placed(name, scratch, "size", (1e-4, 1e9), "fifo", 0)
    num_bytes = sum(weight.size_bytes for weight in sized.streamed)
    bits_per_s = rate_of(rate, num_bytes, compute_s)
    link = measured_link(hosts, bits_per_s)
    if ":" in rate:  # is that of what messages carry, which is less than what the link does
        bits_per_s *= bits_per_s / (8 * link[1])
        link = measured_link(hosts, bits_per_s)
    is_slow = bits_per_s < SLOW_BITS_PER_S
    seeds = min(options.seeds, options.slow_seeds) if is_slow else options.seeds
    plans = {
        (order, seed): placed(name, scratch, f"{order}-{seed}", link, order, seed)
        for order, seed in [
            *((order, 0) for order in ORDERS),
            *(("random", s) for s in range(seeds)),
        ]
    }
    others = [(order, 0) for order in ORDERS if order != "tac"]
    turns = others + [turn for s in range(seeds) for turn in (("random", s), ("tac", 0))]
    folders = [scratch / f"{name}-{order}-{seed}" for order, seed in turns]
    told = runs(hosts, folders, 1, warmup=0 if is_slow else 1)
    compute_s = (compute_s + compute_once_s(scratch / f"{name}-alone")) / 2
    found: dict[str, list[float]] = {}
    errors: list[float] = []
    over: dict[str, list[float]] = {}
    busy: list[float] = []
    for turn, each in zip(turns, told, strict=True):
        plan, (latency_s,) = plans[turn], each["latencies_s"]
        found.setdefault(turn[0], []).append(latency_s)
        busy_s = each["devices"][0]["busy_s"]
        expected_s = planned_times(at_speed(plan, {"worker": busy_s})).makespan_s
        errors.append(abs(expected_s / latency_s - 1))
        over.setdefault(turn[0], []).append(latency_s / bound_of(plans["tac", 0], busy_s, link[1]))
        if turn[0] == "tac":
            busy.append(busy_s)
    row: dict[str, Any] = {
        "model": name,
        "rate": rate,
        "mbit/s": bits_per_s / 1e6,
        "latency_us": link[0] * 1e6,
        "link_mbit/s": link[1] * 8e-6,
        "weights_mb": num_bytes / 1e6,
        "compute": compute_s * 1e3,
        "busy": median(busy) * 1e3,
        "transfer": num_bytes / link[1] * 1e3,
        "bound": bound_of(plans["tac", 0], median(busy), link[1]) * 1e3,
        "random": mean(found["random"]) * 1e3,
    }
    for order in ORDERS:
        row[order] = median(found[order]) * 1e3
    row["tac predicted"] = plans["tac", 0].makespan_s * 1e3
    row["random predicted"] = mean(plans["random", s].makespan_s for s in range(seeds)) * 1e3
    row["error"] = median(errors)
    for order, ratios in over.items():
        row[f"{order} over bound"] = mean(ratios) if order == "random" else median(ratios)
    row["gain"] = mean(found["random"]) / median(found["tac"]) - 1
    for order in ("random", "tac"):
        row[f"{order} spread"] = pstdev(over[order]) / mean(over[order])
        row[f"{order} raw spread"] = pstdev(found[order]) / mean(found[order])
    row["runs"] = [
        {
            "order": order,
            "seed": seed,
            "s": each["latencies_s"][0],
            "busy_s": each["devices"][0]["busy_s"],
        }
        for (order, seed), each in zip(turns, told, strict=True)
    ]
    return row


def at_speed(plan: Plan, busy_s: Mapping[str, float]) -> Plan:
    """Return a plan whose parts take so long together on each device."""
    took_s = dict.fromkeys(busy_s, 0.0)
    for part in plan.parts:
        took_s[part.device] += part.predicted_s
    parts = (
        replace(part, predicted_s=part.predicted_s * busy_s[part.device] / took_s[part.device])
        for part in plan.parts
    )
    return replace(plan, parts=tuple(parts))


def compute_once_s(folder: Path) -> float:
    """Return what the ops take with nothing else going on."""
    return api.run(folder, repeat=3).measurement.devices[0].busy_s


def rate_of(rate: str, num_bytes: int, compute_s: float) -> float:
    """Return bits per second: as given, or where compute and transfer times stand ``C:T``."""
    if ":" not in rate:
        return float(rate)
    compute, transfer = (float(part) for part in rate.split(":"))
    return 8 * num_bytes / (compute_s * transfer / compute)


def placed(
    name: str, scratch: Path, label: str, link: tuple[float, float], order: str, seed: int
) -> Plan:
    """Return the plan with all ops on the first host and all weights on the second."""
    gc.collect()  # models are circles of objects, and large ones would add up
    latency_s, bytes_per_s = link
    folder = scratch / f"{name}-{label}"
    cluster = folder.with_suffix(".yaml")
    cluster.write_text(
        "devices:\n  - {kind: CPU, host: 0, name: worker}\n  - {kind: CPU, host: 1, name: server}\n"
        f"links:\n  between_hosts: {{latency_s: {latency_s:.9f}, bytes_per_s: {bytes_per_s:.1f}}}\n"
        "  within_host: host\n"
    )
    return api.place(
        scratch / f"{name}.onnx",
        cluster=str(cluster),
        policy="single",
        pins=["*=worker"],
        weights="stream",
        weight_home="server",
        comm_order=order,
        seed=seed,
        dims=MODELS[name].dims,
        out=folder,
    ).plan


def bound_of(plan: Plan, compute_s: float, bytes_per_s: float) -> float:
    """Return the seconds that no order of transfers or of parts is below; see the module.

    Args:
        compute_s: Of all parts together; how it divides over them is as predicted.
    """
    size = {weight.name: weight.size_bytes for weight in plan.streamed}
    weights = {name: at for at, name in enumerate(size)}
    makers = {value: at for at, part in enumerate(plan.parts) for value in part.outputs}
    part_s = np.array([part.predicted_s for part in plan.parts])
    part_s *= compute_s / part_s.sum()
    count = len(plan.parts)
    needs = np.zeros((count, len(size)), dtype=bool)
    follows = np.eye(count, dtype=bool)
    """Which parts wait for a part, by way of others too; parts are in the order of the model."""
    for at, part in enumerate(plan.parts):
        for value in part.inputs:
            if value in weights:
                needs[at, weights[value]] = True
            elif value in makers:
                before = makers[value]
                assert before < at
                needs[at] |= needs[before]
                follows[:, at] |= follows[:, before]
    arrivals_s = needs @ np.array(list(size.values())) / bytes_per_s
    chains_s = arrivals_s + follows @ part_s
    return float(max(chains_s.max(), sum(size.values()) / bytes_per_s, compute_s))


def measured_link(hosts: Hosts, bits_per_s: float) -> tuple[float, float]:
    """Limit the link; return latency in seconds and bytes per second of messages over it."""
    hosts.set_rate(bits_per_s)
    lines = started(hosts, ["-m", "benchmarks.link_probe"])
    latency_s, bytes_per_s = (float(word) for word in lines[-1].split())
    return latency_s, bytes_per_s


def runs(
    hosts: Hosts, folders: Sequence[Path], repeat: int, *, warmup: int = 1, shared: bool = True
) -> list[dict[str, Any]]:
    """Return the report of each plan; ``shared`` as for ``started``."""
    plans = [f"{repeat}:{folder}" for folder in folders]
    words = ["-m", "benchmarks.rank_runs", str(warmup), *plans]
    return [json.loads(line) for line in started(hosts, words, shared=shared)]


def started(hosts: Hosts, words: Sequence[str], *, shared: bool = True) -> list[str]:
    """Run Python on each host as a rank, and return the lines of the first.

    Args:
        shared: The first host computes on core 0, and all that is about messages has the other to
            itself; else each host has one core for all.
    """
    processes = []
    for rank in range(hosts.count):
        environment = {
            **os.environ,
            "RANK": str(rank),
            "WORLD_SIZE": str(hosts.count),
            "LOCAL_RANK": str(rank),
            "MASTER_ADDR": hosts.address(0),
            "MASTER_PORT": str(PORT),
            "GLOO_SOCKET_IFNAME": "eth0",
        }
        pinned = ["taskset", "-c", str(rank)] if rank or not shared else []
        command = hosts.command(rank, [*pinned, sys.executable, *words])
        processes.append(
            subprocess.Popen(
                command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )
        )
    outputs = [process.communicate() for process in processes]
    for process, (_, errors) in zip(processes, outputs, strict=True):
        if process.returncode:
            raise SystemExit(f"a rank left with {process.returncode}: {errors[-2000:]}")
    return outputs[0][0].splitlines()


def summary(rows: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Return the figures that are asked for."""
    even = [row["gain"] for row in rows if row["rate"] == "1:1"]
    return {
        "tac over the bound, worst (1.05 asked)": max(row["tac over bound"] for row in rows),
        "gain over random at 1:1, best model (0.6 asked, 0.82 the mark)": max(even, default=0.0),
        "least gain over random": min(row["gain"] for row in rows),
        "tic over tac, worst (1.1 asked)": max(
            row["tic over bound"] / row["tac over bound"] for row in rows
        ),
        "spread of random over that of tac, median (2.8 asked)": median(
            row["random spread"] / row["tac spread"] for row in rows
        ),
        "median error of predictions (0.12 asked)": median(row["error"] for row in rows),
        "busy over compute, median": median(row["busy"] / row["compute"] for row in rows),
    }


if __name__ == "__main__":
    main()
