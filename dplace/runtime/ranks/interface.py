"""Which network interface gloo listens on: the one that leads to the store's address.

Left alone, gloo takes the one that the host's own name belongs to, which is often the loopback's.
"""

import os
import socket
import struct

__all__ = ["choose_interface", "interface_to"]

VARIABLES = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")
SIOCGIFADDR = 0x8915
IFREQ = struct.Struct("256s")
ADDRESS = slice(20, 24)
IF_INET6 = "/proc/net/if_inet6"


def choose_interface(address: str) -> None:
    """Name the interface to ``address`` in the environment, where the user names none."""
    name = interface_to(address)
    if name is not None:
        for variable in VARIABLES:
            os.environ.setdefault(variable, name)


def interface_to(address: str) -> str | None:
    """Return the interface that packets to a host leave by, None where it cannot be told.

    >>> interface_to("127.0.0.1")
    'lo'
    """
    try:
        family, kind, _, _, place = socket.getaddrinfo(address, 9, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind) as probe:
            probe.connect(place)  # sends nothing
            own = probe.getsockname()[0]
            names = [name for _, name in socket.if_nameindex()]
            if family == socket.AF_INET6:
                return _of_inet6(own)
            return next((name for name in names if _address(probe, name) == own), None)
    except OSError:
        return None  # gloo finds its own way, or says why not


def _address(probe: socket.socket, name: str) -> str | None:
    import fcntl

    try:
        answer = fcntl.ioctl(probe.fileno(), SIOCGIFADDR, IFREQ.pack(name.encode()[:15]))
    except OSError:
        return None  # it has no address
    return socket.inet_ntoa(answer[ADDRESS])


def _of_inet6(own: str) -> str | None:
    packed = socket.inet_pton(socket.AF_INET6, own.partition("%")[0]).hex()
    with open(IF_INET6) as table:  # noqa: PTH123
        rows = [line.split() for line in table]
    return next((row[-1] for row in rows if row[0] == packed), None)
