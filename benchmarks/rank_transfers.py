"""A value from rank to rank against a plain send and receive of gloo's, by size.

Ours is from the moment that the sender takes the value to the moment that it lies, whole, in the
memory of an OrtValue on the other rank; theirs is from before ``dist.send`` to after ``dist.recv``,
into a tensor that is there already, and into a new one, as ours has to be: the system hands out its
pages while they are written to. Both over the loopback interface, between two processes. Run it as:

    python -m benchmarks.rank_transfers --json rank_transfers.json
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from benchmarks.figures import arguments, report
from benchmarks.rank_kills import ADDRESS, free_port
from dplace.plan.write import write_plan_file
from dplace.runtime.ranks.gathering import Gathering
from dplace.runtime.ranks.launch import Launch
from dplace.runtime.ranks.session import RankSession
from tests.runtime.plans import given, graph, make_plan, node

PLAIN = "--plain"
TIMEOUT_S = 60.0


def write_shape_plan(folder: Path) -> None:
    """Write a plan in which cpu:1 reads x and returns its shape."""
    shape = graph([node("Shape", ["x"], ["s"])], [given("x")], [given("s", 7)])
    plan = make_plan(
        folder,
        {"shape": ("cpu:1", shape)},
        {"cpu:0": [], "cpu:1": ["run shape"]},
        inputs=[given("x")],
        outputs=[given("s", 7)],
    )
    write_plan_file(plan, folder)


def ours(sizes: list[int], rounds: int) -> dict[int, float]:
    """Return the median seconds by size."""
    launch = Launch(rank=0, size=2, address=ADDRESS, port=free_port())
    found: dict[int, float] = {}
    with tempfile.TemporaryDirectory() as scratch:
        write_shape_plan(Path(scratch))
        environment = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": ADDRESS}
        other = subprocess.Popen(
            [sys.executable, "-m", "dplace", "run", scratch],
            env={**os.environ, **environment, "MASTER_PORT": str(launch.port)},
        )
        with (
            Gathering(launch, timeout_s=TIMEOUT_S) as gathering,
            RankSession(Path(scratch), gathering) as session,
        ):
            session.start_recording()
            for size in sizes:
                x = np.zeros(size // 4, dtype=np.float32)
                seconds: list[float] = []
                for _ in range(rounds + 1):
                    session.run(None, {"x": x})
                    events = {(e.kind, e.subject): e for e in session.take_events()}
                    seconds.append(events["receive", "x"].end_s - events["send", "x"].start_s)
                found[size] = statistics.median(seconds[1:])
        other.wait()
    return found


def plain(sizes: list[int], rounds: int, rank: int, port: int, *, new: bool) -> dict[int, float]:
    """Return the median seconds by size on rank 1, from both ranks' clock, which is one.

    Args:
        new: Receive into a new tensor each time.
    """
    dist.init_process_group(
        "gloo",
        init_method=f"tcp://{ADDRESS}:{port}",
        rank=rank,
        world_size=2,
        timeout=timedelta(seconds=TIMEOUT_S),
    )
    found: dict[int, float] = {}
    for size in sizes:
        seconds: list[float] = []
        tensor = torch.zeros(size, dtype=torch.uint8)
        started = torch.zeros(1, dtype=torch.float64)
        for _ in range(rounds + 1):
            dist.barrier()
            if rank == 0:
                started[0] = time.perf_counter()
                dist.send(tensor, 1)
                dist.send(started, 1)
            else:
                if new:
                    tensor = torch.empty(size, dtype=torch.uint8)
                dist.recv(tensor, 0)
                ended_s = time.perf_counter()
                dist.recv(started, 0)
                seconds.append(ended_s - float(started[0]))
        if seconds:
            found[size] = statistics.median(seconds[1:])
    dist.destroy_process_group()
    return found


def plain_apart(sizes: list[int], rounds: int, *, new: bool) -> dict[int, float]:
    """Return what ``plain`` does, in two processes of its own."""
    port = str(free_port())
    ranks = [
        subprocess.Popen(
            [
                *(sys.executable, "-m", "benchmarks.rank_transfers", PLAIN, str(rank), port),
                *(str(int(new)), str(rounds), *map(str, sizes)),
            ],
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    _, said = (process.communicate()[0] for process in ranks)
    return {size: float(text) for size, text in zip(sizes, said.split(), strict=True)}


def main() -> None:
    """Time both."""
    if sys.argv[1:2] == [PLAIN]:
        rank, port, new, rounds, *of = map(int, sys.argv[2:])
        print(*plain(of, rounds, rank, port, new=bool(new)).values())
        return
    options = arguments(__doc__ or "", rounds=15, sizes=(400, 40_000, 4_000_000, 100_000_000))
    there = plain_apart(options.sizes, options.rounds, new=False)
    new = plain_apart(options.sizes, options.rounds, new=True)
    own = ours(options.sizes, options.rounds)
    rows: list[dict[str, Any]] = [
        {
            "bytes": size,
            "ours_ms": own[size] * 1e3,
            "gloo_ms": there[size] * 1e3,
            "gloo_new_ms": new[size] * 1e3,
            "ratio_to_new": own[size] / new[size],
            "ours_gb_per_s": size / own[size] / 1e9,
        }
        for size in options.sizes
    ]
    report("From rank to rank", rows, {"rounds": options.rounds}, options.json)


if __name__ == "__main__":
    main()
