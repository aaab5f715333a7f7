"""Predicted against measured iteration time of models placed on two hosts, over real shaped links.

Two network namespaces stand for hosts with one core each, on which the ops and all that is about
messages run; weights are resident, so what crosses are activations. Ops are timed beforehand on one
core, the link by messages of the runtime. Rates are given in bits per second, or as ``C:T``, the
rate at which the compute time of the model and the transfer time of what crosses under the first
policy stand so. ``measured`` is the median of all iterations, ``predicted`` what the plan says with
ops as they were profiled, ``at speed`` the same with the parts of each device at the speed of the
run, for the speed of a core of a virtual machine changes from second to second. Plans that are one
device's are not run, equal ones once. Needs root. Run it as:

    python -m benchmarks.two_hosts --models bert --rates 1e9 --json two_hosts.json
"""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.figures import arguments, report, tell
from benchmarks.namespaces import Hosts
from benchmarks.streaming import RATES, at_speed, measured_link, rate_of, runs
from benchmarks.streaming_models import MODELS, write_model
from dplace import api
from dplace.plan.planned_times import planned_times
from dplace.report.answer import PlaceAnswer

POLICIES = ("m-topo", "metis", "heft", "m-etf")


def main() -> None:
    """Measure every model at every rate."""
    options = arguments(
        __doc__ or "",
        models=tuple(MODELS),
        rates=RATES,
        policies=POLICIES,
        repeat=3,
        profile_s=10.0,
        home="",
    )
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="dplace-") as scratch, Hosts(2, 1e9) as hosts:
        os.environ["DPLACE_HOME"] = options.home or scratch
        for name in options.models:
            for row in rows_of(name, hosts, options, Path(scratch)):
                rows.append(row)
                tell(row)
    told = {
        f"{which} error {how}": of([abs(row[column] / row["measured"] - 1) for row in rows])
        for how, column in (
            ("at speed (median: 0.12 asked)", "at speed"),
            ("as profiled", "predicted"),
        )
        for which, of in (("median", median), ("worst", max))
    }
    report("Placed on two hosts, iteration times in ms", rows, told, options.json)


def rows_of(name: str, hosts: Hosts, options: Any, scratch: Path) -> Iterator[dict[str, Any]]:
    """Yield what each policy's plan comes to at each rate."""
    path = scratch / f"{name}.onnx"
    write_model(name, path)
    api.profile([path], dims=MODELS[name].dims, limit_s=options.profile_s)
    first = placed(path, scratch / f"{name}-first", (1e-4, 1.25e8), options.policies[0])
    for rate in options.rates:
        bits_per_s = rate_of(rate, first.transfer_bytes, first.plan.best_single_device_s)
        link = measured_link(hosts, bits_per_s)
        folders: list[Path] = []
        answers: list[PlaceAnswer] = []
        for policy in options.policies:
            folder = scratch / f"{name}-{rate}-{policy}".replace(":", "-")
            answer = placed(path, folder, link, policy)
            known = [other.plan.makespan_s for other in answers]
            if answer.transfers and answer.plan.makespan_s not in known:
                folders.append(folder)
                answers.append(answer)
        reports = runs(hosts, folders, options.repeat, shared=False) if folders else []
        for answer, told in zip(answers, reports, strict=True):
            plan, measured_s = answer.plan, median(told["latencies_s"])
            busy = {device["name"]: device["busy_s"] for device in told["devices"]}
            yield {
                "model": name,
                "rate": rate,
                "mbit/s": bits_per_s / 1e6,
                "policy": plan.policy,
                "parts": len(plan.parts),
                "transfers": answer.transfers,
                "crossing_mb": answer.transfer_bytes / 1e6,
                "one device": plan.best_single_device_s * 1e3,
                "predicted": plan.makespan_s * 1e3,
                "at speed": planned_times(at_speed(plan, busy)).makespan_s * 1e3,
                "measured": measured_s * 1e3,
            }


def placed(path: Path, folder: Path, link: tuple[float, float], policy: str) -> PlaceAnswer:
    """Return the answer of a policy for two hosts with one core each."""
    latency_s, bytes_per_s = link
    cluster = folder.with_suffix(".yaml")
    cluster.write_text(
        "devices:\n  - {kind: CPU, host: 0}\n  - {kind: CPU, host: 1}\n"
        f"links:\n  between_hosts: {{latency_s: {latency_s:.9f}, bytes_per_s: {bytes_per_s:.1f}}}\n"
        "  within_host: host\n"
    )
    return api.place(
        path,
        cluster=str(cluster),
        policy=policy,
        weights="resident",
        dims=MODELS[path.stem].dims,
        out=folder,
    )


if __name__ == "__main__":
    main()
