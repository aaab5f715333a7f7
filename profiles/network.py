"""Measure the network between two hosts: one listens, the other one connects and times.

A message is its length, eight bytes, and as many bytes; the listener answers eight bytes when it
has all. So a message takes a round trip and the time of its bytes.
"""

import socket
import struct
import time
from collections.abc import Callable

import numpy as np

from dplace.errors import InputError, UsageError
from dplace.profiles.catalogue import DeviceKind
from dplace.profiles.line_fit import fit_line
from dplace.profiles.machine import date_now, setting_here
from dplace.profiles.probe import SpeedProbe
from dplace.profiles.store import LinkCosts

__all__ = ["answer_network", "measure_network"]

SIZES = (1, 4096, 65536, 2**18, 2**20, 2**22, 2**24)
LARGEST = 2**26
GREETING = b"dplace-1"
HEADER = struct.Struct("!Q")
LIMIT_S = 10.0
"""How long either side waits for the other one."""
ROUNDS = 20
CHUNK = 2**20


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
                _prepare(connection)
                if _receive(connection, len(GREETING)) != GREETING:
                    raise InputError(f"--listen {address}: something else than dplace connected")
                connection.sendall(GREETING)
                _answer(connection, address)
    except OSError as error:
        raise InputError(f"--listen {address}: {error.strerror or error}") from error


def _answer(connection: socket.socket, address: str) -> None:
    while True:
        (size,) = HEADER.unpack(_receive(connection, HEADER.size))
        if size == 0:
            return
        if size > LARGEST:
            raise InputError(f"--listen {address}: the other side announces {size} bytes")
        left = size
        while left:
            got = connection.recv(min(CHUNK, left))
            if not got:
                raise ConnectionError("the other side has gone")
            left -= len(got)
        connection.sendall(HEADER.pack(size))


def measure_network(address: str, kind: DeviceKind) -> tuple[LinkCosts, tuple[str, ...]]:
    """Return the costs of transfers to the machine that listens at an address.

    Raises:
        InputError: It cannot be reached, or no dplace listens there.
    """
    host, port = _address(address, "--connect")
    try:
        with socket.create_connection((host, port), timeout=LIMIT_S) as connection:
            _prepare(connection)
            connection.sendall(GREETING)
            if _receive(connection, len(GREETING)) != GREETING:
                raise InputError(f"--connect {address}: no dplace listens there")
            seconds = [_trip_s(connection, size) for size in SIZES]
            connection.sendall(HEADER.pack(0))
    except OSError as error:
        raise InputError(
            f"--connect {address}: {error.strerror or error}; run dplace profile --links "
            "--listen ADDRESS:PORT on the other machine first"
        ) from error
    # The answer comes back with the same latency as the message went with.
    back_s = seconds[0] / 2
    line = fit_line(np.array(SIZES, dtype=np.float64), np.array(seconds) - back_s)
    costs = LinkCosts(
        setting=setting_here(kind),
        date=date_now(),
        calls=(),
        latency_s=line.intercept,
        bytes_per_s=1 / line.slope,
        relative_error=line.relative_error,
        sizes_bytes=SIZES,
        between="hosts",
        probe_s=SpeedProbe().take(),
    )
    return costs, ()


def _trip_s(connection: socket.socket, size: int) -> float:
    """Return the median time from sending a message to its answer."""
    message = HEADER.pack(size) + bytes(size)
    found: list[float] = []
    for _ in range(ROUNDS):
        begun_s = time.perf_counter()
        connection.sendall(message)
        _receive(connection, HEADER.size)
        found.append(time.perf_counter() - begun_s)
    return float(np.median(found))


def _prepare(connection: socket.socket) -> None:
    connection.settimeout(LIMIT_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


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
