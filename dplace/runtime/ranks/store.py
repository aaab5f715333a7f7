"""The key-value store that all ranks know: torch's TCPStore, at the address of the environment.

A call hangs for as long as the server's process is stopped: whoever calls does so on a thread that
nobody has to wait for.
"""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any

import torch.distributed as dist
from torch.distributed.distributed_c10d import PrefixStore, Store

from dplace.errors import DeviceLostError, InputError
from dplace.runtime.ranks.launch import Launch
from dplace.runtime.reason import reason

__all__ = ["Client", "no_answer", "open_store"]


class Client:
    """A connection with the store of its own, for one thread at a time.

    Every call raises RuntimeError when the connection breaks, and hangs while the server is
    stopped.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        """As ``torch.distributed`` takes it."""

    def set(self, key: str, text: str) -> None:
        self.store.set(key, text)

    def get(self, key: str) -> bytes:
        """Return what a key that is there has."""
        found: Any = self.store.get(key)
        return bytes(found)

    def get_all(self, keys: list[str]) -> list[bytes]:
        return self.store.multi_get(keys)

    def first(self, key: str, text: str) -> bytes:
        """Give a key its value unless it has one; return what it has then."""
        return self.store.compare_set(key, "", text)

    def add(self, key: str, number: int) -> int:
        """Return a counter after adding to it."""
        return self.store.add(key, number)

    def has(self, keys: list[str]) -> bool:
        """Return whether all keys are there."""
        return self.store.check(keys)

    def wait(self, keys: list[str], seconds: float) -> None:
        """Wait until all keys are there; raise RuntimeError if they are not after so long."""
        self.store.wait(keys, timedelta(seconds=seconds))


def open_store(launch: Launch, timeout_s: float, *, clients: int) -> list[Client]:
    """Return clients of the run's store; the rank that keeps the store starts it.

    Raises:
        InputError: The port is not free.
        DeviceLostError: Nobody answers at the address.
    """
    found = [_open(launch, timeout_s, is_server=True)] if launch.keeps_store else []
    errors: list[BaseException] = []

    def add() -> None:
        try:
            found.append(_open(launch, timeout_s, is_server=False))
        except BaseException as error:
            errors.append(error)

    # At once, for torch asks for the address's name with every connection; where no name server
    # answers, that takes as long as the system is patient with one. On plain threads, for a pool's
    # would have to end before the process can.
    threads = [threading.Thread(target=add, daemon=True) for _ in range(clients - len(found))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return found


def no_answer(launch: Launch, timeout_s: float) -> DeviceLostError:
    """Return the error for an address where there is no store."""
    return DeviceLostError(
        f"lost rank 0: nobody answers at {launch.address}:{launch.port} within {timeout_s:g} s; is "
        "rank 0 started, and can this host reach it?"
    )


def _open(launch: Launch, timeout_s: float, *, is_server: bool) -> Client:
    place = f"{launch.address}:{launch.port}"
    try:
        store = dist.TCPStore(  # type: ignore[attr-defined]  # torch exports it without a word
            launch.address,
            launch.port,
            None,
            is_server,
            timedelta(seconds=timeout_s),
            wait_for_workers=False,
            multi_tenant=is_server,
        )
    except (RuntimeError, ValueError) as error:
        text = reason(error)
        if is_server and "in use" in text:
            raise InputError(
                f"MASTER_PORT: {place} is in use by another program; give another port"
            ) from error
        raise no_answer(launch, timeout_s) from error
    # A name, so that what is left of an attempt that failed is not taken for this one's.
    return Client(PrefixStore(f"dplace/{launch.attempt}", store))
