"""Who is lost, and that all ranks end for the same reason.

Every rank writes a beat to the store twice a second and reads those of the others. What a beat
holds besides are the pieces that each link was given and has delivered, so a link that carries
nothing is found as well, by whichever rank looks first. The first reason that is told is kept in
the store under one key and copied to one for each rank, which that rank waits for: so all know at
once, and a rank that has done its work can wake its own thread.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from dplace.runtime.ranks.launch import Launch
from dplace.runtime.ranks.store import Client
from dplace.runtime.ranks.verdict import Verdict

__all__ = ["Leave", "Link", "LinkClock", "Watch"]

BEAT_S = 0.5
TICK_S = 0.1
"""Between two looks at the beats that were read."""
FOREVER_S = 1e7
TELL_S = 2.0
"""How long the store may take to say whose reason was first; the store itself may be lost."""
LINGER_S = 2.0
"""How long the rank that keeps the store waits, so that the others learn why the run is over."""
ACK_S = 0.02
CLOSE_S = 1.0
"""How long threads may take to end, or the store to answer, where nothing depends on it."""
LEAVE_S = 5.0
"""How long a rank may take to come out of a part when the run is over."""

END, ACKS = "end", "acks"

Link = tuple[int, int]
"""Source and target rank."""
Leave = Callable[[Verdict, bool], None]
"""Ends the process: with which verdict, and whether it still has to be said."""


class Watch:
    """This rank's view of all others."""

    def __init__(
        self,
        launch: Launch,
        clients: Sequence[Client],
        *,
        timeout_s: float,
        leave: Leave | None = None,
    ) -> None:
        """Start to watch.

        Args:
            clients: Two of the store, for this watch alone: torch warns of every wait that is
                in vain, so one does nothing but wait.
            timeout_s: How long a rank may be silent, or a link carry nothing.
            leave: Called when the process does not end by itself after a verdict.
        """
        self.launch = launch
        self.timeout_s = timeout_s
        self.names = [f"rank {rank}" for rank in range(launch.size)]
        """What messages call each rank."""
        self.given: dict[Link, int] = {}
        """Pieces that each link out of this rank was given; its sender writes them."""
        self.delivered: dict[Link, int] = {}
        """Pieces that each link into this rank has delivered; its receiver writes them."""
        self._leave = leave
        self._lock = threading.Lock()
        self._known = threading.Event()
        self._is_over = threading.Event()
        self._verdict: Verdict | None = None
        self._callbacks: list[Callable[[], None]] = []
        self._is_seen = threading.Event()
        self._is_closed = threading.Event()
        self._is_meeting = True
        self._has_heard = threading.Event()
        self._beats: dict[int, _Beat] = {}
        self._polled_s = time.perf_counter()
        self._silent_s = 0.0
        self._client, listener = clients
        self._threads = [
            threading.Thread(target=work, name="dplace watch", daemon=True)
            for work in (self._pulse, lambda: self._listen(listener), self._judge)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def verdict(self) -> Verdict | None:
        """Return why the run is over, None while it is not."""
        return self._verdict

    def on_verdict(self, callback: Callable[[], None]) -> None:
        """Have ``callback`` called once there is a verdict; it must not block."""
        with self._lock:
            self._callbacks.append(callback)
        if self._verdict is not None:
            callback()

    def check(self) -> None:
        """Raise the verdict's error if there is one."""
        if self._verdict is not None:
            self._is_seen.set()
            raise self._verdict.error()

    def see_out(self) -> None:
        """Note that the main thread is on its way out and says why."""
        self._is_seen.set()

    def wait_for_verdict(self, seconds: float) -> Verdict | None:
        """Return the verdict, if there is one within so many seconds."""
        self._known.wait(seconds)
        return self._verdict

    def all_are_here(self, names: list[str]) -> None:
        """Watch the other ranks from here on, under these names."""
        self.names = names
        self._is_meeting = False

    def lost(self, rank: int, why: str) -> None:
        """Tell all that ``rank`` is lost."""
        self.tell(self._loss(rank, why))

    def tell(self, verdict: Verdict) -> None:
        """Make this the end of the run on all ranks, unless another came first."""
        if self._verdict is not None or self._is_closed.is_set():
            return

        def ask() -> None:
            ends = [f"{END}/{rank}" for rank in range(self.launch.size)]
            try:
                found = self._client.first(END, verdict.to_text())
                for end in ends:
                    self._client.set(end, found.decode())
            except RuntimeError:
                # Whoever else seems lost, the store has gone, and the rank that kept it with it.
                is_elsewhere = self.launch.keeps_store or self.launch.agent_has_store
                self._adopt(verdict if is_elsewhere else self._store_loss())
            else:
                self._adopt(Verdict.from_text(found))

        threading.Thread(target=ask, name="dplace tell", daemon=True).start()
        if not self._known.wait(TELL_S):
            self._adopt(verdict)

    def close(self) -> None:
        """Stop watching; what the others do from here on is theirs.

        A thread that came out of native code when the interpreter ends would end the process
        with an error, so they end here.
        """
        if self._is_closed.is_set():
            return
        self._is_closed.set()
        self._is_over.set()
        if self._verdict is None:
            self._in_background(lambda: self._client.set(f"{END}/{self.launch.rank}", ""), CLOSE_S)
            for thread in self._threads:
                thread.join(CLOSE_S)

    def linger(self) -> None:
        """Stay until all ranks can know why the run is over.

        Others tell the keeper of the store that they do, and the keeper waits for that.
        """
        verdict = self._verdict
        if verdict is None:
            return
        if not self.launch.keeps_store:
            self._has_heard.wait(CLOSE_S)
            return
        expected = self.launch.size - (verdict.lost is not None and verdict.lost > 0)
        until_s = time.perf_counter() + LINGER_S

        def wait() -> None:
            while time.perf_counter() < until_s and self._client.add(ACKS, 0) < expected:
                time.sleep(ACK_S)

        self._in_background(wait, LINGER_S)

    @staticmethod
    def _in_background(work: Callable[[], object], seconds: float) -> None:
        """Do something with the store, which may be lost, and wait for it so long at most."""

        def run() -> None:
            with suppress(RuntimeError):
                work()

        thread = threading.Thread(target=run, name="dplace store", daemon=True)
        thread.start()
        thread.join(seconds)

    def _adopt(self, verdict: Verdict) -> None:
        with self._lock:
            if self._verdict is not None or self._is_closed.is_set():
                return
            self._verdict = verdict
            callbacks = list(self._callbacks)
        self._known.set()
        self._is_over.set()
        for callback in callbacks:
            callback()

    def _loss(self, rank: int, why: str) -> Verdict:
        return Verdict(kind="DeviceLostError", message=f"lost {self.names[rank]}: {why}", lost=rank)

    def _store_loss(self) -> Verdict:
        store = f"store at {self.launch.address}:{self.launch.port}"
        if not self.launch.agent_has_store:
            return self._loss(0, f"its {store} does not answer any more")
        why = f"lost the host of {self.names[0]}: torchrun's {store} does not answer any more"
        return Verdict(kind="DeviceLostError", message=why, lost=0)

    def _pulse(self) -> None:
        """Beat and read the others' beats until the run is over."""
        others = [rank for rank in range(self.launch.size) if rank != self.launch.rank]
        number = 0
        while self._verdict is None and not self._is_closed.is_set():
            number += 1
            try:
                self._client.set(f"beat/{self.launch.rank}", self._beat(number))
                beats: dict[int, bytes] = {}
                if not self._is_meeting:
                    texts = self._client.get_all([f"beat/{rank}" for rank in others])
                    beats = dict(zip(others, texts, strict=True))
            except RuntimeError:
                self._adopt(self._store_loss())
                return
            self._read(beats)
            self._is_over.wait(BEAT_S)

    def _listen(self, client: Client) -> None:
        """Wait for the end of the run, or of this rank's part in it."""
        end = f"{END}/{self.launch.rank}"
        try:
            client.wait([end], FOREVER_S)
            found = client.get(end)
            if found:  # else it is this rank that has no more to do
                self._adopt(Verdict.from_text(found))
                client.add(ACKS, 1)
        except RuntimeError:
            self._adopt(self._store_loss())
        self._has_heard.set()

    def _beat(self, number: int) -> str:
        given = [[*link, count] for link, count in list(self.given.items())]
        delivered = [[*link, count] for link, count in list(self.delivered.items())]
        return json.dumps([number, given, delivered])

    def _read(self, beats: dict[int, bytes]) -> None:
        """Note which ranks have beaten anew."""
        now_s = time.perf_counter()
        with self._lock:
            self._polled_s, self._silent_s = now_s, 0.0
            for rank, text in beats.items():
                beat = self._beats.get(rank)
                if beat is None or beat.text != text:
                    self._beats[rank] = _Beat(text, now_s)

    def _judge(self) -> None:
        """Look again and again whether somebody is lost; see the process out when one is."""
        links = LinkClock()
        looked_s = 0.0
        while not self._known.wait(TICK_S):
            if self._is_closed.is_set():
                return
            with self._lock:
                # Counted in looks of this thread: a process that was stopped knows no better.
                self._silent_s += TICK_S
                silent_s, polled_s, beats = self._silent_s, self._polled_s, dict(self._beats)
            if silent_s > self.timeout_s:
                self._adopt(self._store_loss())
            if polled_s == looked_s:
                continue
            looked_s = polled_s
            for rank, beat in beats.items():
                if polled_s - beat.since_s > self.timeout_s:
                    self.lost(rank, f"not heard of for {self.timeout_s:g} s")
            stalled = links.stalled(self._links(beats), polled_s, self.timeout_s)
            if stalled is not None:
                source, target = stalled
                self.lost(
                    target,
                    f"the link to it from {self.names[source]} has carried nothing for "
                    f"{self.timeout_s:g} s",
                )
        if self._leave is not None and self._verdict is not None:
            is_seen = self._is_seen.wait(LEAVE_S)
            time.sleep(LEAVE_S if is_seen else 0)
            self._leave(self._verdict, not self._is_seen.is_set())

    def _links(self, beats: dict[int, _Beat]) -> dict[Link, tuple[int, int]]:
        """Return for each link the pieces that it was given and has delivered."""
        given, delivered = dict(self.given), dict(self.delivered)
        for beat in beats.values():
            _, sent, received = json.loads(beat.text)
            given.update({(source, target): count for source, target, count in sent})
            delivered.update({(source, target): count for source, target, count in received})
        return {link: (count, delivered.get(link, 0)) for link, count in given.items()}


class _Beat:
    """The last that was heard of a rank, and since when it says so."""

    __slots__ = ("since_s", "text")

    def __init__(self, text: bytes, since_s: float) -> None:
        self.text = text
        self.since_s = since_s


class LinkClock:
    """Since when each link has had something to carry without delivering any of it."""

    def __init__(self) -> None:
        self._since: dict[Link, tuple[int, float]] = {}

    def stalled(
        self, links: dict[Link, tuple[int, int]], now_s: float, timeout_s: float
    ) -> Link | None:
        """Return a link that has been at rest for too long with pieces on their way."""
        for link, (given, delivered) in links.items():
            before = self._since.get(link)
            if given <= delivered:
                self._since.pop(link, None)
            elif before is None or before[0] != delivered:
                self._since[link] = (delivered, now_s)
            elif now_s - before[1] > timeout_s:
                return link
        return None
