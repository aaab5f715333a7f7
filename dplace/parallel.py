"""One process for each piece of work, several at once, each started anew.

Processes are spawned, for libraries with threads of their own do not survive a fork. A piece that
takes its process along with it costs only itself.
"""

import multiprocessing
import signal
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Generic, TypeVar, cast

__all__ = ["Lost", "run_each"]

Piece = TypeVar("Piece")
Result = TypeVar("Result")


class Lost(Generic[Piece]):
    """Stands for the result of a piece of work whose process ended before it was done."""

    def __init__(self, piece: Piece, exit_code: int | None) -> None:
        self.piece = piece
        self.exit_code = exit_code
        """What the process ended with: minus the number of a signal that ended it."""

    @property
    def reason(self) -> str:
        """Return how the process ended, in words."""
        if self.exit_code is not None and self.exit_code < 0:
            return f"its process was ended by signal {-self.exit_code}"
        return f"its process ended with code {self.exit_code}"


def run_each(
    work: Callable[[Piece, Callable[[str], None]], Result],
    pieces: Sequence[Piece],
    *,
    processes: int,
    step: Callable[[str], None],
) -> list[Result | Lost[Piece]]:
    """Return the result of each piece of work, in the order of the pieces.

    Args:
        work: A function of a module: takes a piece, and a function to call at each step.
        pieces: What to do.
        processes: How many at once.
        step: Called in this process with what the work calls its function with.

    Raises:
        RuntimeError: ``work`` raised, which is a bug; with the traceback from its process.
    """
    results: list[Result | Lost[Piece]] = [Lost(piece, None) for piece in pieces]
    running: dict[Connection, tuple[int, SpawnProcess]] = {}
    waiting = list(enumerate(pieces))[::-1]
    try:
        while running or waiting:
            while waiting and len(running) < max(1, processes):
                at, piece = waiting.pop()
                connection, process = _start(work, piece)
                running[connection] = at, process
            for ready in wait(list(running)):
                connection = cast(Connection, ready)
                at, process = running[connection]
                try:
                    kind, content = connection.recv()
                except EOFError:
                    del running[connection]
                    connection.close()
                    process.join()
                    left = results[at]
                    if isinstance(left, Lost):
                        left.exit_code = process.exitcode
                    continue
                if kind == "step":
                    step(content)
                elif kind == "result":
                    results[at] = content
                else:
                    raise RuntimeError(f"in the process of {pieces[at]!r}:\n{content}")
    finally:
        for connection, (_, process) in running.items():
            process.terminate()
            process.join()
            connection.close()
    return results


def _start(
    work: Callable[[Piece, Callable[[str], None]], Result], piece: Piece
) -> tuple[Connection, SpawnProcess]:
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=_serve, args=(there, work, piece), daemon=True)
    with _interrupts_ignored():
        process.start()
    there.close()
    return here, process


@contextmanager
def _interrupts_ignored() -> Iterator[None]:
    """Let a process that is started meanwhile inherit that Ctrl-C is none of its business."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _serve(
    connection: Connection, work: Callable[[Piece, Callable[[str], None]], Result], piece: Piece
) -> None:
    """Do one piece of work in a process of its own."""
    with connection, suppress(BrokenPipeError):  # nobody waits for it any more
        try:
            result = work(piece, lambda text: connection.send(("step", text)))
        except BrokenPipeError:
            raise
        except Exception:  # whatever it is, run_each raises it with this traceback
            connection.send(("bug", traceback.format_exc()))
        else:
            connection.send(("result", result))
