"""Room of a fixed size for weights on their way: taken once, given out and back in pieces.

The memory is mapped once, so no page of it is ever faulted in twice, and pieces are one stretch of
it where there is one. If all that is free is in stretches too small, a piece gets pages of its own
and as many of the free ones go back to the system until it ends: what is held never exceeds the
room, however sizes follow one another. Pieces take whole pages, so the memory is that much larger
where sizes are none.
"""

import mmap
from collections.abc import Collection
from contextlib import suppress
from typing import NamedTuple

__all__ = ["Buffers", "Piece"]

PAGE = mmap.PAGESIZE
PRIVATE = getattr(mmap, "MAP_PRIVATE", 0) | getattr(mmap, "MAP_ANONYMOUS", 0)


class Piece(NamedTuple):
    """Room for one weight."""

    memory: memoryview
    """As many bytes as were asked for."""
    spans: tuple[tuple[int, int], ...]
    """Which bytes of the whole it takes, first and end."""
    own: mmap.mmap | None
    """Pages of its own, in place of those, which are lent to the system meanwhile."""


class Buffers:
    """The room; whoever shares it between threads has to hold a lock."""

    def __init__(self, size_bytes: int, sizes: Collection[int]) -> None:
        """Take the memory.

        Args:
            size_bytes: What all pieces together may have.
            sizes: Those that will be asked for.
        """
        self.size_bytes = size_bytes
        self.held_bytes = 0
        """What the pieces that are out have."""
        self.most_bytes = 0
        """The most that they ever had."""
        waste = max(_pages(size) - size for size in sizes)
        length = _pages(size_bytes + waste * (size_bytes // max(1, min(sizes))))
        self._memory = _mapped(length)
        self._free: list[tuple[int, int]] = [(0, length)]

    def take(self, size_bytes: int) -> Piece | None:
        """Return a piece, or None while there is no room for it.

        Raises:
            ValueError: There never will be.
        """
        if size_bytes > self.size_bytes:
            raise ValueError(f"{size_bytes} bytes do not fit into {self.size_bytes}")
        if self.held_bytes + size_bytes > self.size_bytes:
            return None
        self.held_bytes += size_bytes
        self.most_bytes = max(self.most_bytes, self.held_bytes)
        length = _pages(size_bytes)
        for index, (first, end) in enumerate(self._free):
            if end - first >= length:
                self._free[index : index + 1] = [(first + length, end)] * (first + length < end)
                memory = memoryview(self._memory)[first : first + size_bytes]
                return Piece(memory, ((first, first + length),), None)
        spans: list[tuple[int, int]] = []
        while length:
            first, end = self._free.pop()
            used = min(length, end - first)
            if first < end - used:
                self._free.append((first, end - used))
            spans.append((end - used, end))
            self._memory.madvise(mmap.MADV_DONTNEED, end - used, used)
            length -= used
        own = _mapped(_pages(size_bytes))
        return Piece(memoryview(own)[:size_bytes], tuple(spans), own)

    def give_back(self, piece: Piece) -> None:
        """Take a piece back; nobody may read it any more."""
        self.held_bytes -= len(piece.memory)
        if piece.own is not None:
            # The mapping goes with the last reference to it; its pages go at once.
            piece.own.madvise(mmap.MADV_DONTNEED)
        merged: list[tuple[int, int]] = []
        for first, end in sorted((*self._free, *piece.spans)):
            if merged and merged[-1][1] == first:
                merged[-1] = (merged[-1][0], end)
            else:
                merged.append((first, end))
        self._free = merged


def _mapped(length: int) -> mmap.mmap:
    """Return memory of its own for whole pages."""
    memory = mmap.mmap(-1, length, flags=PRIVATE)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        # 64 MB of small pages take as long to be had as to be read into: 20 ms each.
        with suppress(OSError):  # a kernel without them
            memory.madvise(mmap.MADV_HUGEPAGE)
    return memory


def _pages(size_bytes: int) -> int:
    return -(-size_bytes // PAGE) * PAGE
