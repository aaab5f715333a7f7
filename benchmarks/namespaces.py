"""Hosts on one machine: network namespaces on one switch, each with a shaped link.

Needs root, ``ip`` and ``tc`` (iproute2). Every namespace stands for a host with a network card of
its own: what it sends and what it is sent are each limited by a token bucket (``tbf``), as full
duplex Ethernet is. They are removed in any case, also those that an earlier run left behind.
"""

import os
import subprocess
from collections.abc import Sequence
from types import TracebackType
from typing import Self

__all__ = ["Hosts"]

PREFIX = "dplace-"
SWITCH = f"{PREFIX}switch"
BURST_BYTES = 64 * 1024
"""What a link may send at once; a tenth of a millisecond at 5 Gbit/s, far below a message."""
QUEUE_S = 0.2
"""How long a packet may wait for the bucket: TCP is told by the window, not by losses."""


class Hosts:
    """Some namespaces, from ``with`` to its end; addresses are 10.77.0.1, 10.77.0.2, ..."""

    def __init__(self, count: int, bits_per_s: float) -> None:
        """Take their number, and the rate of each link in each direction."""
        self.count = count
        self.bits_per_s = bits_per_s

    def __enter__(self) -> Self:
        if os.geteuid() != 0:
            raise SystemExit("namespaces need root; run this benchmark as root")
        _remove()
        try:
            ip("netns", "add", SWITCH)
            ip("-n", SWITCH, "link", "add", "bridge", "type", "bridge")
            ip("-n", SWITCH, "link", "set", "bridge", "up")
            for host in range(self.count):
                self._add(host)
        except BaseException:
            _remove()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        _remove()

    def _add(self, host: int) -> None:
        name, port = self.name(host), f"port{host}"
        ip("netns", "add", name)
        ip("link", "add", "eth0", "netns", name, "type", "veth", "peer", port, "netns", SWITCH)
        ip("-n", SWITCH, "link", "set", port, "master", "bridge", "up")
        ip("-n", name, "addr", "add", f"{self.address(host)}/24", "dev", "eth0")
        ip("-n", name, "link", "set", "eth0", "up")
        ip("-n", name, "link", "set", "lo", "up")
        for space, device in ((name, "eth0"), (SWITCH, port)):
            # Segments above the bucket's size would never pass.
            subprocess.run(
                ["ip", "-n", space, "link", "set", device, "gso_max_size", str(BURST_BYTES // 2)],
                check=False,
                capture_output=True,
            )
            _shape("add", space, device, self.bits_per_s)

    def set_rate(self, bits_per_s: float) -> None:
        """Give all links another rate."""
        self.bits_per_s = bits_per_s
        for host in range(self.count):
            _shape("change", self.name(host), "eth0", bits_per_s)
            _shape("change", SWITCH, f"port{host}", bits_per_s)

    def name(self, host: int) -> str:
        """Return the name of a namespace."""
        return f"{PREFIX}{host}"

    def address(self, host: int) -> str:
        """Return the address of a host."""
        return f"10.77.0.{host + 1}"

    def command(self, host: int, command: Sequence[str]) -> list[str]:
        """Return a command that runs another on a host."""
        return ["ip", "netns", "exec", self.name(host), *command]


def ip(*words: str) -> None:
    """Run ``ip``; its error ends the benchmark."""
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"ip {' '.join(words)}: {done.stderr.strip()}")


def _shape(verb: str, space: str, device: str, bits_per_s: float) -> None:
    words = ["tc", "-n", space, "qdisc", verb, "dev", device, "root", "tbf"]
    words += ["rate", f"{bits_per_s:.0f}bit", "burst", str(BURST_BYTES)]
    words += ["limit", str(max(4 * BURST_BYTES, int(QUEUE_S * bits_per_s / 8)))]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)}: {done.stderr.strip()}")


def _remove() -> None:
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True)
    for line in listed.stdout.splitlines():
        name = line.split()[0]
        if name.startswith(PREFIX):
            subprocess.run(["ip", "netns", "del", name], check=False)
