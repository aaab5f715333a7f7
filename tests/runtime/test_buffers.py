"""Room for weights: never more than there is, never refused while there is enough."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dplace.runtime.buffers import PAGE, Buffers, Piece


def test_pieces_are_as_large_as_asked_and_room_is_counted_in_bytes() -> None:
    buffers = Buffers(100, [60, 40, 1])
    first, second = buffers.take(60), buffers.take(40)
    assert first is not None
    assert second is not None
    assert (len(first.memory), len(second.memory)) == (60, 40)
    assert buffers.take(1) is None
    buffers.give_back(first)
    assert buffers.held_bytes == 40
    assert buffers.take(1) is not None
    assert buffers.most_bytes == 100


def test_what_can_never_fit_is_a_fault() -> None:
    with pytest.raises(ValueError, match="101 bytes do not fit into 100"):
        Buffers(100, [100]).take(101)


def test_a_piece_larger_than_every_gap_gets_pages_of_its_own() -> None:
    buffers = Buffers(4 * PAGE, [PAGE, 2 * PAGE])
    pieces = [buffers.take(PAGE) for _ in range(4)]
    assert all(pieces)
    for piece in (pieces[0], pieces[2]):
        assert piece is not None
        buffers.give_back(piece)
    wide = buffers.take(2 * PAGE)
    assert wide is not None
    assert wide.own is not None
    assert len(wide.spans) == 2
    wide.memory[:] = bytes([7]) * 2 * PAGE
    buffers.give_back(wide)
    again = buffers.take(PAGE)
    assert again is not None
    assert again.own is None


@settings(max_examples=100, deadline=None)
@given(
    room=st.integers(1, 40),
    sizes=st.lists(st.integers(1, 12), min_size=1, max_size=6),
    moves=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 9)), max_size=60),
    odd=st.integers(0, PAGE - 1),
)
def test_pieces_never_share_bytes_and_fit_whenever_the_count_says_so(
    room: int, sizes: list[int], moves: list[tuple[int, int]], odd: int
) -> None:
    size_bytes = room * PAGE + odd
    asked = [min(size * PAGE - odd % 100, size_bytes) for size in sizes]
    buffers = Buffers(size_bytes, asked)
    held: list[tuple[Piece, int]] = []
    for mark, (choice, victim) in enumerate(moves):
        size = asked[choice % len(asked)]
        piece = buffers.take(size)
        assert (piece is not None) == (sum(len(one.memory) for one, _ in held) + size <= size_bytes)
        if piece is not None:
            piece.memory[:] = bytes([mark]) * size
            held.append((piece, mark))
        elif held:
            back, old = held.pop(victim % len(held))
            assert bytes(back.memory) == bytes([old]) * len(back.memory)
            buffers.give_back(back)
        assert buffers.held_bytes == sum(len(one.memory) for one, _ in held) <= size_bytes
    for piece, mark in held:
        assert bytes(piece.memory) == bytes([mark]) * len(piece.memory)
        buffers.give_back(piece)
    assert buffers.held_bytes == 0


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE


def test_memory_stays_within_the_room_however_sizes_follow_one_another() -> None:
    megabyte, room = 2**20, 32 * 2**20
    sizes = [3 * megabyte, 5 * megabyte, 7 * megabyte + 100, 11 * megabyte, room]
    before = resident_bytes()
    buffers = Buffers(room, sizes)
    rng = np.random.default_rng(0)
    held: list[Piece] = []
    scattered, most = 0, 0
    for _ in range(150):
        piece = buffers.take(int(rng.choice(sizes)))
        while piece is None:
            buffers.give_back(held.pop(int(rng.integers(len(held)))))
            piece = buffers.take(int(rng.choice(sizes)))
        scattered += piece.own is not None
        np.frombuffer(piece.memory, dtype=np.uint8)[:] = 1
        held.append(piece)
        most = max(most, resident_bytes() - before)
    assert scattered > 5
    assert 0.8 * room < most < room + 2 * megabyte
