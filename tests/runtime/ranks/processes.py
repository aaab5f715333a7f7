"""Ranks of a run: as processes that a launcher would start, or as threads of this one."""

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from dplace.plan.records import Plan
from dplace.plan.write import write_plan_file
from dplace.runtime.ranks.gathering import Gathering
from dplace.runtime.ranks.launch import Launch
from dplace.runtime.ranks.session import RankSession
from tests.command_line import Ended

__all__ = [
    "ended",
    "errors",
    "free_port",
    "in_threads",
    "launches",
    "on_rank_0",
    "ranks",
    "wait_for_store",
    "written",
]

ADDRESS = "127.0.0.1"
# torch asks for the name of each address that it connects to; a name server may be slow to answer.
os.environ.setdefault("RES_OPTIONS", "timeout:1 attempts:1")
PATIENCE_S = 60.0

Answer = TypeVar("Answer")


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind((ADDRESS, 0))
        return int(probe.getsockname()[1])


def launches(size: int) -> list[Launch]:
    """Return what each rank of a run is told."""
    port = free_port()
    return [Launch(rank=rank, size=size, address=ADDRESS, port=port) for rank in range(size)]


def in_threads(
    work: Callable[[Gathering], Answer], size: int, *, timeout_s: float = 20.0
) -> list[Answer | BaseException]:
    """Return what ``work`` returns or raises on each rank, all of them threads of this process.

    As in a run, none that has done its work leaves before all have, unless one fails: the store
    goes with rank 0.
    """
    all_are_done = threading.Barrier(size)

    def run(launch: Launch) -> Answer | BaseException:
        try:
            with Gathering(launch, timeout_s=timeout_s) as gathering:
                answer = work(gathering)
                with suppress(threading.BrokenBarrierError):
                    all_are_done.wait(PATIENCE_S)
                return answer
        except BaseException as error:
            all_are_done.abort()
            return error

    with ThreadPoolExecutor(size) as threads:
        return list(threads.map(run, launches(size)))


def wait_for_store(launch: Launch) -> None:
    """Return when rank 0 has come as far as to listen."""
    until_s = time.perf_counter() + PATIENCE_S
    while True:
        with socket.socket() as probe:
            if not probe.connect_ex((launch.address, launch.port)):
                return
        assert time.perf_counter() < until_s, "rank 0 does not listen"
        time.sleep(0.02)


@contextmanager
def ranks(
    folders: Sequence[Path], launched: Sequence[Launch], *options: str
) -> Iterator[list[subprocess.Popen[str]]]:
    """Yield processes that run ``dplace -v run`` as ranks, each with its own copy of the plan."""
    with ExitStack() as stack:
        processes = []
        for folder, launch in zip(folders, launched, strict=True):
            process = subprocess.Popen(
                [sys.executable, "-m", "dplace", "-v", "run", str(folder), *options],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env={
                    **os.environ,
                    "RANK": str(launch.rank),
                    "WORLD_SIZE": str(launch.size),
                    "MASTER_ADDR": launch.address,
                    "MASTER_PORT": str(launch.port),
                },
            )
            stack.callback(process.communicate)
            stack.callback(process.kill)  # called before that; does nothing once it has ended
            processes.append(process)
        yield processes


def on_rank_0(
    launch: Launch, folder: Path, work: Callable[[RankSession], None], *, timeout_s: float = 20.0
) -> None:
    """Do something with the session of rank 0, which is this thread."""
    with (
        Gathering(launch, timeout_s=timeout_s) as gathering,
        RankSession(folder, gathering) as session,
    ):
        work(session)


def errors(end: Ended) -> list[str]:
    """Return the lines of a rank that are no progress."""
    return [line for line in end.err.splitlines() if not line.startswith("dplace: info: ")]


def ended(process: subprocess.Popen[str]) -> Ended:
    """Return how a rank ends, which it has to do by itself."""
    out, err = process.communicate(timeout=PATIENCE_S)
    return Ended(code=process.returncode, out=out, err=err)


def written(plan: Plan, folder: Path) -> Path:
    """Return the folder of a plan, whole."""
    write_plan_file(plan, folder)
    return folder
