"""Measured hand-overs: the line through them, and real ones between two threads."""

import queue
import re
import socket
import threading

import numpy as np
import pytest

from dplace.errors import InputError, UsageError
from dplace.profiles import device_kind
from dplace.profiles.line_fit import fit_line
from dplace.profiles.links import measure_links
from dplace.profiles.network import answer_network, measure_network
from dplace.runtime.devices import usable_cores

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


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]"])
def test_the_network_between_two_addresses(host: str) -> None:
    if host == "[::1]" and not has_ipv6():
        pytest.skip("needs IPv6")
    said: queue.Queue[str] = queue.Queue()
    other = threading.Thread(
        target=answer_network,
        args=(f"{host}:0",),
        kwargs={"wait_s": 10.0, "progress": said.put},
    )
    other.start()
    waiting = re.fullmatch(
        r"waiting at (.+) for dplace profile --links --connect (.+)", said.get(timeout=10)
    )
    assert waiting is not None
    assert waiting[1] == waiting[2] != f"{host}:0"
    found, _ = measure_network(waiting[1], device_kind("CPU"))
    other.join(timeout=10)
    assert not other.is_alive()
    assert found.between == "hosts"
    assert 0 < found.latency_s < 0.01
    assert found.bytes_per_s > 1e7


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
