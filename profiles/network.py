"""Measure the network between two hosts: one listens, the other one connects.

They meet over a plain connection, which says where the two become ranks, and then time the messages
that ranks send each other (``runtime/ranks/message_times.py``), in both directions.
"""

import socket
import struct
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from dplace.errors import DeviceLostError, InputError, UsageError
from dplace.profiles.catalogue import DeviceKind
from dplace.profiles.line_fit import Line, fit_line
from dplace.profiles.machine import date_now, setting_here
from dplace.profiles.probe import SpeedProbe
from dplace.profiles.store import LinkCosts

if TYPE_CHECKING:
    from dplace.runtime.ranks.gathering import Gathering

__all__ = ["answer_network", "measure_network", "unlike"]

Times = Sequence[tuple[int, float]]
"""Sizes of messages in bytes, and their seconds."""

MARK = b"dplace-"
GREETING = MARK + b"2"
PORT = struct.Struct("!H")
LIMIT_S = 20.0
"""How long either side waits for the other one."""
ALIKE = 1.2
"""How much the rates of the two directions may differ without a word."""
NAMES = ["the machine that listens", "the machine that connects"]


def answer_network(
    address: str,
    *,
    wait_s: float | None = None,
    progress: Callable[[str], None] | None = None,
) -> None:
    """Answer at ``ADDRESS:PORT`` until the one machine that connects has measured.

    Args:
        wait_s: How long to wait for it; None for ever.
        progress: Told where it waits, once another machine can connect.

    Raises:
        InputError: The address cannot be listened at, or the other side says something else.
        DeviceLostError: The other machine is gone.
    """
    host, port = _address(address, "--listen")
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        with socket.create_server((host, port), family=family) as server:
            server.settimeout(wait_s)
            if progress is not None:
                # The port is another one than asked for where that was 0.
                place = f"{address.rpartition(':')[0]}:{server.getsockname()[1]}"
                progress(f"waiting at {place} for dplace profile --links --connect {place}")
            connection, _ = server.accept()
        with connection:
            connection.settimeout(LIMIT_S)
            if _receive(connection, len(GREETING)) != GREETING:
                connection.sendall(GREETING)  # so that another version can say what it met
                raise InputError(f"--listen {address}: something else than dplace connected")
            # As the other machine reached it: the address that was asked for may be 0.0.0.0.
            own = connection.getsockname()[0]
            meeting_port = _free_port(own, family)
            connection.sendall(GREETING + PORT.pack(meeting_port))
        _message_times(0, own, meeting_port)
    except OSError as error:
        raise InputError(f"--listen {address}: {error.strerror or error}") from error


def measure_network(address: str, kind: DeviceKind) -> tuple[LinkCosts, tuple[str, ...]]:
    """Return the costs of messages between this machine and the one that listens, and warnings.

    Raises:
        InputError: It cannot be reached, or no dplace listens there.
        DeviceLostError: It is gone, or ranks cannot reach each other.
    """
    host, port = _address(address, "--connect")
    try:
        with socket.create_connection((host, port), timeout=LIMIT_S) as connection:
            connection.sendall(GREETING)
            answer = _receive(connection, len(GREETING))
            if answer != GREETING:
                other = "another version of dplace" if answer.startswith(MARK) else "no dplace"
                raise InputError(f"--connect {address}: {other} listens there")
            (meeting_port,) = PORT.unpack(_receive(connection, PORT.size))
            there = connection.getpeername()[0]
        from_here, to_here = _message_times(1, there, meeting_port)
    except OSError as error:
        raise InputError(
            f"--connect {address}: {error.strerror or error}; run dplace profile --links "
            "--listen ADDRESS:PORT on the other machine first"
        ) from error
    lines = [_line(from_here), _line(to_here)]
    costs = LinkCosts(
        setting=setting_here(kind),
        date=date_now(),
        calls=(),
        # One figure is stored for both directions.
        latency_s=sum(line.intercept for line in lines) / 2,
        bytes_per_s=2 / sum(line.slope for line in lines),
        relative_error=max(line.relative_error for line in lines),
        sizes_bytes=tuple(sorted({size for size, _ in (*from_here, *to_here)})),
        between="hosts",
        probe_s=SpeedProbe().take(),
    )
    return costs, unlike(*lines)


def _message_times(rank: int, store_address: str, store_port: int) -> tuple[Times, Times]:
    """Return the times of messages from rank 1 to rank 0, and back."""
    from dplace.runtime.ranks.gathering import Gathering
    from dplace.runtime.ranks.launch import Launch
    from dplace.runtime.ranks.message_times import message_times

    launch = Launch(rank=rank, size=2, address=store_address, port=store_port)
    with Gathering(launch, timeout_s=LIMIT_S) as gathering:
        try:
            gathering.do(lambda: _meet(gathering))
        except RuntimeError as error:  # as torch says that nobody came
            raise DeviceLostError(
                f"lost {NAMES[1 - rank]}: it did not come within {LIMIT_S:g} s"
            ) from error
        gathering.watch.all_are_here(NAMES)
        try:
            found = gathering.do(lambda: message_times(gathering))
        except RuntimeError as error:  # as torch says that a connection broke
            raise DeviceLostError(f"lost {NAMES[1 - rank]}: its connection broke") from error
    return found[1, 0], found[0, 1]


def _meet(gathering: "Gathering") -> bool:
    """Return when both sides are at the store; until then neither listens for the other's beat."""
    rank = gathering.launch.rank
    gathering.store.set(f"here/{rank}", "")
    gathering.store.wait([f"here/{1 - rank}"], LIMIT_S)
    return True


def _free_port(host: str, family: socket.AddressFamily) -> int:
    with socket.create_server((host, 0), family=family) as server:
        port: int = server.getsockname()[1]
        return port


def _line(times: Times) -> Line:
    sizes, seconds = zip(*times, strict=True)
    return fit_line(np.array(sizes, dtype=np.float64), np.array(seconds))


def unlike(from_here: Line, to_here: Line) -> tuple[str, ...]:
    """Return what to say of directions that are not alike."""
    ratio = from_here.slope / to_here.slope
    if 1 / ALIKE < ratio < ALIKE:
        return ()
    rates = [f"{1e-6 / line.slope:,.0f} MB/s" for line in (from_here, to_here)]
    text = "messages from here go at {} and to here at {}; what is stored lies between the two"
    return ("--connect: " + text.format(*rates),)


def _receive(connection: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        got = connection.recv(size - len(found))
        if not got:
            raise ConnectionError("the other side has gone")
        found += got
    return found


def _address(text: str, option: str) -> tuple[str, int]:
    """Return host and port of ``ADDRESS:PORT``; an IPv6 address may stand in brackets."""
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    try:
        host.encode("idna")  # as a socket does, which says no more than that
        is_address = bool(host) and port.isdecimal() and int(port) <= 65535
    except ValueError:
        is_address = False
    if not is_address:
        raise UsageError(f"{option} {text}: expected ADDRESS:PORT, as in 10.0.0.2:5000")
    return host, int(port)
