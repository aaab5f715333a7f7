"""Kill one of several ranks at random moments: how do the others end, and how soon?

A plan whose values go round all devices is run by one process a device, again and again, until a
random one gets SIGKILL at a random moment: while the ranks start (import, meet, connect, open
parts) or while requests run. All others have to end by themselves with exit code 4, naming the one
that is lost: at once while requests run, within the timeout while they start, which they count from
when they have started themselves. Run it as:

    python -m benchmarks.rank_kills --kills 20 --json rank_kills.json
"""

import os
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.figures import arguments, report
from dplace.plan.write import write_plan_file
from tests.runtime.plans import given, graph, make_plan, node

ADDRESS = "127.0.0.1"
PATIENCE_S = 120.0
MARGIN_S = 5.0
"""Beside the timeout: two beats, and the way out of a process on a busy machine."""
START_S = 8.0
"""What imports may take on a machine that is busy with all ranks at once."""
RUNNING_S = 3.0
"""Kills while requests run come within so many seconds of the start of the requests."""
WIDTH = 512


def write_round_plan(folder: Path, ranks: int) -> None:
    """Write a plan in which x goes once round all devices and back to the first."""
    shape = [WIDTH, WIDTH]
    order = [*range(ranks), 0]
    parts = {
        f"part{step}": (
            f"cpu:{rank}",
            graph(
                [node("MatMul", [f"x{step}", f"x{step}"], [f"x{step + 1}"])],
                [given(f"x{step}", shape=shape)],
                [given(f"x{step + 1}", shape=shape)],
            ),
        )
        for step, rank in enumerate(order)
    }
    programs: dict[str, list[str]] = {f"cpu:{rank}": [] for rank in range(ranks)}
    for step, rank in enumerate(order):
        program = programs[f"cpu:{rank}"]
        if step > 0:
            program.append(f"receive x{step} cpu:{order[step - 1]}")
        program.append(f"run part{step}")
        if step + 1 < len(order):
            program.append(f"send x{step + 1} cpu:{order[step + 1]}")
    plan = make_plan(
        folder,
        parts,
        programs,
        inputs=[given("x0", shape=shape)],
        outputs=[given(f"x{len(order)}", shape=shape)],
    )
    write_plan_file(plan, folder)


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind((ADDRESS, 0))
        return int(probe.getsockname()[1])


def start(folder: Path, ranks: int, timeout_s: float) -> list[subprocess.Popen[str]]:
    """Start all ranks, each in a session of its own."""
    launch = {"WORLD_SIZE": str(ranks), "MASTER_ADDR": ADDRESS, "MASTER_PORT": str(free_port())}
    command = [sys.executable, "-m", "dplace", "-v", "run", str(folder), "--repeat", "10000000"]
    return [
        subprocess.Popen(
            [*command, "--timeout", str(timeout_s)],
            env={**os.environ, **launch, "RANK": str(rank)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        for rank in range(ranks)
    ]


def kill_one(
    folder: Path, ranks: int, rng: random.Random, *, running: bool, start_s: float, timeout_s: float
) -> dict[str, Any]:
    """Kill a rank of a run and return how the others end.

    Args:
        running: Wait until requests run; else the moment is somewhere in the start.
        start_s: How long a start takes.
    """
    processes = start(folder, ranks, timeout_s)
    victim = rng.randrange(ranks)
    if running:
        first = processes[0].stderr
        assert first is not None
        line = ""
        while "ranks are ready" not in line:
            line = first.readline()
    after_s = rng.uniform(0.0, RUNNING_S if running else start_s)
    time.sleep(after_s)
    processes[victim].send_signal(signal.SIGKILL)
    killed_s = time.perf_counter()
    others = [process for rank, process in enumerate(processes) if rank != victim]
    ends: list[tuple[int | None, str]] = []
    for process in others:
        left_s = PATIENCE_S - (time.perf_counter() - killed_s)
        try:
            _, said = process.communicate(timeout=max(1.0, left_s))
            ends.append((process.returncode, said))
        except subprocess.TimeoutExpired:
            ends.append((None, ""))
    seconds = time.perf_counter() - killed_s
    processes[victim].communicate()
    left = sum(session_lives(process.pid) for process in processes)
    for process in processes:
        process.kill()
    lines = [last_line(said) for _, said in ends]
    return {
        "ranks": ranks,
        "killed": victim,
        "while": "running" if running else "starting",
        "after_s": after_s,
        "start_s": 0.0 if running else start_s,
        "codes": " ".join(str(code) for code, _ in ends),
        "seconds": seconds,
        "named": sum(
            re.search(rf"error: lost rank {victim}\b", line) is not None for line in lines
        ),
        "tracebacks": sum("Traceback" in said for _, said in ends),
        "left": left,
        "said": lines[0],
    }


def last_line(said: str) -> str:
    """Return the last thing that a rank said."""
    return (said.splitlines() or [""])[-1].removeprefix("dplace: ")


def session_lives(leader: int) -> bool:
    """Return whether a process of a session that ``leader`` began is left."""
    try:
        os.killpg(leader, 0)
    except ProcessLookupError:
        return False
    return True


def main() -> None:
    """Kill; leave with 1 if a rank did not end as it has to."""
    options = arguments(__doc__ or "", kills=20, ranks=(2, 3), timeout=10.0, seed=0, starting=0.25)
    rng = random.Random(options.seed)
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as scratch:
        folders = {ranks: Path(scratch) / str(ranks) for ranks in options.ranks}
        for ranks, folder in folders.items():
            write_round_plan(folder, ranks)
        for number in range(options.kills):
            ranks = options.ranks[number % len(options.ranks)]
            rows.append(
                kill_one(
                    folders[ranks],
                    ranks,
                    rng,
                    running=rng.random() >= options.starting,
                    start_s=START_S,
                    timeout_s=options.timeout,
                )
            )
    bad = [
        row
        for row in rows
        if row["codes"] != " ".join(["4"] * (row["ranks"] - 1))
        or row["seconds"] > options.timeout + MARGIN_S + row["start_s"]
        or row["named"] != row["ranks"] - 1
        or row["tracebacks"]
        or row["left"]
    ]
    shown = [{name: row[name] for name in row if name not in ("said", "start_s")} for row in rows]
    running = [row["seconds"] for row in rows if row["while"] == "running"]
    summary = {
        "timeout_s": options.timeout,
        "longest, running": max(running, default=None),
        "longest": max(row["seconds"] for row in rows),
        "not as they have to": len(bad),
    }
    report("One rank killed", shown, summary, options.json, details=rows)
    raise SystemExit(1 if bad else 0)


if __name__ == "__main__":
    main()
