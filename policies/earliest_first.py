"""Which op can start first, and where: the queue of the policies that ask this after each op."""

import math
from heapq import heappop, heappush

from dplace.policies.list_schedule import ListSchedule

__all__ = ["EarliestFirst"]

TRIES = 64
"""Entries that are looked at anew for one choice. Where all wait for one channel, each choice
delays all others; the best of so many is taken then, or time grows with the square of the ops."""


class EarliestFirst:
    """Groups that can run, by when they can start on each device they may go to.

    A start found earlier can only have moved back since, but for a value that was meanwhile sent
    for another group. So an entry that is looked at anew and still comes first is the first of
    all.
    """

    def __init__(self, schedule: ListSchedule, ranks: list[float]) -> None:
        """Take in the groups that read from no other; ``ranks`` break ties, the highest first."""
        self._schedule = schedule
        self._urgency = [-rank for rank in ranks]
        self.free_s = list(schedule.overhead_s)
        """When each device has run all that is committed to it."""
        self._coming: list[list[tuple[float, float, int]]] = [[] for _ in self.free_s]
        """Of each device, (start, urgency, group) of those that start after it is free."""
        self._waiting: list[list[tuple[float, int]]] = [[] for _ in self.free_s]
        """Of each device, (urgency, group) of those that could start before it is free."""
        self._kept: list[tuple[int, float] | None] = [None] * len(self.free_s)
        """The group that each device is kept for, and until when."""
        self._entries = [0] * schedule.num_groups
        self._missing = [len(makers) for makers in schedule.producers]
        for index, missing in enumerate(self._missing):
            if not missing:
                self._offer(index)

    def pop(self) -> tuple[float, int, int] | None:
        """Return start, group and device of what can start first; None when all have run.

        Raises:
            MemoryLimitError: A group fits nowhere in what others have left.
        """
        best: tuple[float, float, int, int] | None = None
        until_s = [0.0] * len(self.free_s)
        tries = 0
        while best is None or tries < TRIES:
            first = self._first(until_s)
            if first is None or (best is not None and best <= first):
                break
            start, urgency, index, device = first
            if self._schedule.device[index] >= 0:
                self._remove_first(device)
                continue
            tries += 1
            kept = self._kept[device]
            if kept is not None and start < kept[1] and self._can_wait(index, device):
                until_s[device] = kept[1]
                continue
            self._remove_first(device)
            if device not in self._schedule.choices(index):
                if not self._entries[index]:
                    self._offer(index)
                continue
            start = max(self.start_s(index, device), until_s[device])
            found = (start, urgency, index, device)
            if best is None:
                best = found
                continue
            best, other = min(best, found), max(best, found)
            self._add(other[0], other[2], other[3])
        return None if best is None else (best[0], best[2], best[3])

    def start_s(self, index: int, device: int) -> float:
        """Return when a group can start on ``device``."""
        return max(self.free_s[device], self._schedule.ready_s(index, device))

    def committed(
        self, index: int, device: int, favourite: tuple[int, float] | None = None
    ) -> None:
        """Take note that a group was put on ``device``; offer what waited for it alone.

        Args:
            index: The group.
            device: Where it is.
            favourite: A group that the device is kept for, and until when: others wait, unless no
                other device can start them so soon. It ends when the favourite, or another group
                on the device, is committed.
        """
        self.free_s[device] = max(self.free_s[device], self._schedule.end_s[index])
        self._kept[device] = favourite
        for other, kept in enumerate(self._kept):
            if kept is not None and self._schedule.device[kept[0]] >= 0:
                self._kept[other] = None
        for reader in self._schedule.successors[index]:
            self._missing[reader] -= 1
            if not self._missing[reader]:
                self._offer(reader)

    def _can_wait(self, index: int, device: int) -> bool:
        """Return whether a group waits until ``device`` is no longer kept for another."""
        kept = self._kept[device]
        if kept is None or kept[0] == index:
            return False
        others = [other for other in self._schedule.choices(index) if other != device]
        return any(self.start_s(index, other) < kept[1] for other in others)

    def _offer(self, index: int) -> None:
        devices = self._schedule.choices(index)
        if not devices:
            raise self._schedule.no_room(index)
        for device in devices:
            self._add(self.start_s(index, device), index, device)

    def _add(self, start_s: float, index: int, device: int) -> None:
        kept = self._kept[device]
        is_kept_for = kept is not None and kept[0] == index
        urgency = -math.inf if is_kept_for else self._urgency[index]
        heappush(self._coming[device], (start_s, urgency, index))
        self._entries[index] += 1

    def _first(self, until_s: list[float]) -> tuple[float, float, int, int] | None:
        """Return the entry with the first start as it was found, as (start, urgency, ...).

        Args:
            until_s: Of each device, when it may start anything.
        """
        best: tuple[float, float, int, int] | None = None
        for device, free in enumerate(self.free_s):
            coming, waiting = self._coming[device], self._waiting[device]
            while coming and coming[0][0] <= free:
                _, urgency, index = heappop(coming)
                heappush(waiting, (urgency, index))
            if waiting:
                entry = (max(free, until_s[device]), *waiting[0], device)
            elif coming:
                start, urgency, index = coming[0]
                entry = (max(start, until_s[device]), urgency, index, device)
            else:
                continue
            if best is None or entry < best:
                best = entry
        return best

    def _remove_first(self, device: int) -> None:
        waiting = self._waiting[device]
        index = heappop(waiting)[1] if waiting else heappop(self._coming[device])[2]
        self._entries[index] -= 1
