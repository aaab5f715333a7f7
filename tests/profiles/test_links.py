"""Measured hand-overs: the line through them, and real ones between threads and processes."""

import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from dplace.errors import DeviceLostError, InputError, UsageError
from dplace.profiles import device_kind, network
from dplace.profiles.line_fit import Line, fit_line
from dplace.profiles.links import measure_links
from dplace.profiles.network import answer_network, measure_network
from dplace.runtime.devices import usable_cores
from dplace.runtime.ranks.interface import VARIABLES
from dplace.runtime.ranks.message_times import SIZES as MESSAGE_SIZES

SIZES = np.array([1e4, 1e5, 2e5, 4e5, 8e5, 1.6e6])


def test_a_line_is_found() -> None:
    line = fit_line(SIZES, 3e-5 + SIZES / 8e9)
    assert line.intercept == pytest.approx(3e-5, rel=0.01)
    assert 1 / line.slope == pytest.approx(8e9, rel=0.01)
    assert line.relative_error < 0.001


def test_a_spoilt_figure_does_not_move_it() -> None:
    seconds = 3e-5 + SIZES / 8e9
    seconds[3] *= 10
    line = fit_line(SIZES, seconds)
    assert line.intercept == pytest.approx(3e-5, rel=0.05)
    assert 1 / line.slope == pytest.approx(8e9, rel=0.05)


@pytest.mark.parametrize(
    "seconds", [[5e-5] * 6, [9e-5, 8e-5, 7e-5, 6e-5, 5e-5, 4e-5], [-1e-5, 0, 1e-5, 1, 2, 3]]
)
def test_costs_are_never_negative(seconds: list[float]) -> None:
    line = fit_line(SIZES, np.array(seconds))
    assert line.intercept >= 0
    assert line.slope > 0


@pytest.mark.skipif(len(usable_cores()) < 2, reason="needs two cores")
def test_calls_and_hand_overs_take_what_such_things_take() -> None:
    found, warnings = measure_links(device_kind("CPU"), limit_s=0.5)
    assert all("measure again when nothing else runs" in text for text in warnings)
    sizes = [calls.working_set_bytes for calls in found.calls]
    assert sizes == sorted(sizes)
    for calls in found.calls:
        assert 0 < calls.single_call_overhead_s < 0.01
        assert 0 <= calls.call_overhead_s < 0.01
        assert 0 <= calls.request_s < 0.05
    assert 0 <= found.latency_s < 0.05
    assert found.bytes_per_s > 1e7
    assert found.between == "devices"


def test_only_hand_overs_between_cpus_are_measured() -> None:
    with pytest.raises(InputError, match="only hand-overs between CPU devices are measured"):
        measure_links(device_kind("V100"))


def free_port() -> int:
    """Return a port that nobody listens at."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


@contextmanager
def listening(host: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Yield a process that listens, and where."""
    process = subprocess.Popen(
        [sys.executable, "-m", "dplace", "profile", "--links", "--listen", f"{host}:0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        waiting = re.fullmatch(
            r"dplace: waiting at (.+) for dplace profile --links --connect (.+)\n", line
        )
        assert waiting is not None, line
        assert waiting[1] == waiting[2] != f"{host}:0"
        yield process, waiting[1]
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]"])
def test_the_network_between_two_addresses(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if host == "[::1]" and not has_ipv6():
        pytest.skip("needs IPv6")
    for name in VARIABLES:  # chosen for this address, and not for what runs after it
        monkeypatch.setenv(name, "lo")
    with listening(host) as (process, place):
        found, warnings = measure_network(place, device_kind("CPU"))
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (0, "", "")
    assert found.between == "hosts"
    assert set(found.sizes_bytes) <= set(MESSAGE_SIZES)
    assert len(found.sizes_bytes) >= 2
    assert 0 < found.latency_s < 0.1
    assert found.bytes_per_s > 1e6
    assert all("messages from here go at" in text for text in warnings)


@contextmanager
def answering(answer: bytes) -> Iterator[str]:
    """Yield where somebody listens who has one answer, then goes."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def greet() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(100)
                connection.sendall(answer)

        thread = threading.Thread(target=greet)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        thread.join()


def test_a_machine_without_a_store_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.setenv(name, "lo")
    with answering(b"dplace-2" + free_port().to_bytes(2, "big")) as place:
        monkeypatch.setattr(network, "LIMIT_S", 1.0)
        with pytest.raises(DeviceLostError, match=r"lost rank 0: nobody answers at 127\.0\.0\.1:"):
            measure_network(place, device_kind("CPU"))


@pytest.mark.parametrize("greeting", [b"dplace-2", b"dplace-3"])
def test_what_connects_and_goes_is_told(greeting: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.setenv(name, "lo")
    monkeypatch.setattr(network, "LIMIT_S", 1.0)
    heard: list[bytes] = []
    threads: list[threading.Thread] = []

    def connect(said: str) -> None:
        host, _, port = said.rpartition(" ")[2].rpartition(":")
        with socket.create_connection((host, int(port)), timeout=10) as connection:
            connection.sendall(greeting)
            heard.append(connection.recv(8))

    def start(said: str) -> None:
        threads.append(threading.Thread(target=connect, args=(said,)))
        threads[0].start()

    known = greeting == b"dplace-2"
    says = "lost the machine that connects: it did not come" if known else "something else than"
    with pytest.raises(DeviceLostError if known else InputError, match=says):
        answer_network("127.0.0.1:0", wait_s=10.0, progress=start)
    threads[0].join()
    assert heard == [b"dplace-2"]


@pytest.mark.parametrize(
    ("answer", "says"),
    [(b"dplace-1", "another version of dplace"), (b"HTTP/1.1 400 Bad", "no dplace")],
)
def test_what_listens_is_told(answer: bytes, says: str) -> None:
    with answering(answer) as place, pytest.raises(InputError) as raised:
        measure_network(place, device_kind("CPU"))
    assert str(raised.value) == f"--connect {place}: {says} listens there"


@pytest.mark.parametrize(("back", "expected"), [(1.1, 0), (0.5, 1), (3.0, 1)])
def test_directions_that_are_not_alike_are_told(back: float, expected: int) -> None:
    here, there = (Line(intercept=1e-4, slope=s, relative_error=0.0) for s in (1e-8, back * 1e-8))
    assert len(network.unlike(here, there)) == expected


def has_ipv6() -> bool:
    """Return whether this machine can talk to itself by IPv6."""
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


def test_an_address_where_nobody_listens_is_named() -> None:
    address = f"127.0.0.1:{free_port()}"
    with pytest.raises(InputError, match=f"--connect {address}: Connection refused; run dplace"):
        measure_network(address, device_kind("CPU"))


def test_an_address_that_cannot_be_listened_at_is_named() -> None:
    with pytest.raises(InputError, match=r"--listen 203\.0\.113\.1:5000: "):
        answer_network("203.0.113.1:5000")


@pytest.mark.parametrize(
    "address",
    ["", "here", "10.0.0.2", "10.0.0.2:", ":5000", "[]:5000", "a:70000", "a:x", "..:5000"],
)
def test_an_address_needs_a_host_and_a_port(address: str) -> None:
    with pytest.raises(UsageError, match=re.escape(f"--connect {address}: expected ADDRESS:PORT")):
        measure_network(address, device_kind("CPU"))
