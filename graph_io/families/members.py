"""The families by name, the stream of their members, and which of them are for testing."""

from __future__ import annotations

import difflib
import math
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
import onnx

from dplace.errors import InputError
from dplace.graph_io.families.cifar10 import cifar10
from dplace.graph_io.families.inception import inception
from dplace.graph_io.families.lstm import lstm
from dplace.graph_io.families.nmt import nmt
from dplace.graph_io.families.ptb import ptb
from dplace.graph_io.families.transformer import transformer
from dplace.graph_io.families.two_tower import two_tower

__all__ = ["FAMILIES", "Family", "Split", "SplitName", "generate", "split_members"]


class Family(Protocol):
    """A function that draws one model of a family."""

    def __call__(self, rng: np.random.Generator, *, size: float = 1.0) -> onnx.ModelProto:
        """Return a model whose architecture and weights are drawn from ``rng``."""
        ...


FAMILIES: dict[str, Family] = {
    "inception": inception,
    "two-tower": two_tower,
    "transformer": transformer,
    "lstm": lstm,
    "cifar10": cifar10,
    "ptb": ptb,
    "nmt": nmt,
}


NUM_MEMBERS = 32
"""The members that a split divides: those numbered 0 to 31, as in Placeto."""

NUM_TEST = 8

LARGEST_SIZE = 1000.0
"""Weights grow with the square of the size, so here no member fits in an ONNX file any more."""

SplitName = Literal["train", "test", "all"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """The first 32 members of a family, in order, divided."""

    train: tuple[str, ...]
    """24 names, for learning a policy."""
    test: tuple[str, ...]
    """8 names, which no policy has learned from."""


def split_members(family: str, seed: int = 0) -> Split:
    """Return which of the first 32 members of a family are for training, which for testing.

    It depends on the family and the seed alone: not on the size, nor on how many are generated.

    Args:
        family: one of ``FAMILIES``.
        seed: that of ``generate``, at least 0.

    Raises:
        InputError: for an unknown family, and for a seed out of range.
    """
    _check(family, seed)
    train, test = (_indices(family, seed, half) for half in ("train", "test"))
    return Split(
        train=tuple(_name(family, i) for i in train), test=tuple(_name(family, i) for i in test)
    )


def generate(
    family: str,
    *,
    count: int | None = None,
    seed: int,
    size: float = 1.0,
    split: SplitName | None = None,
) -> Iterator[tuple[str, onnx.ModelProto]]:
    """Yield members of a family, each with its name, such as ``two-tower-000``.

    Member ``i`` depends on the family, the seed, the size and ``i``, and on nothing else: asking
    for more members, or for those of a split, leaves each as it was, byte for byte.

    Args:
        family: one of ``FAMILIES``.
        count: number of members, at least 1; without it 1, or all of the split.
        seed: at least 0.
        size: 1 for models of 5 to 100 ms on one CPU core and at most 40 MB (``cifar10``, ``ptb``
            and ``nmt``: 20 MB). Widths grow with it (so weights and work grow with its square)
            and depths with its fourth root.
        split: only members of this part of ``split_members``; ``all`` for both parts.

    Raises:
        InputError: for an unknown family or split, and for a count, seed or size out of range.
            Raised by the call itself, before the first member is asked for.
    """
    _check(family, seed)
    if count is not None and count < 1:
        raise InputError(f"count must be at least 1, got {count}")
    if not (math.isfinite(size) and size > 0):
        raise InputError(f"size must be above 0 and finite, got {size}")
    if size > LARGEST_SIZE:
        raise InputError(f"size must be at most {LARGEST_SIZE:g}, got {size:g}; use a smaller size")
    if split is None:
        return _members(family, range(1 if count is None else count), seed, size)
    indices = _indices(family, seed, split)
    if count is not None and count > len(indices):
        raise InputError(
            f"count must be at most {len(indices)}, the members of the split {split}, got {count}"
        )
    return _members(family, indices[:count], seed, size)


def _check(family: str, seed: int) -> None:
    if family not in FAMILIES:
        near = difflib.get_close_matches(family, FAMILIES, cutoff=0.4) or list(FAMILIES)
        raise InputError(f'unknown family "{family}"; near names: {", ".join(near)}')
    if seed < 0:
        raise InputError(f"seed must be at least 0, got {seed}")


def _indices(family: str, seed: int, split: str) -> list[int]:
    """Return the numbers of the members of a split, in order."""
    rng = np.random.default_rng([seed, zlib.crc32(b"split"), zlib.crc32(family.encode())])
    order = [int(i) for i in rng.permutation(NUM_MEMBERS)]
    match split:
        case "train":
            return sorted(order[NUM_TEST:])
        case "test":
            return sorted(order[:NUM_TEST])
        case "all":
            return sorted(order)
    raise InputError(f'unknown split "{split}"; use train, test or all')


def _name(family: str, index: int) -> str:
    return f"{family}-{index:03}"


def _members(
    family: str, indices: Sequence[int], seed: int, size: float
) -> Iterator[tuple[str, onnx.ModelProto]]:
    for i in indices:
        rng = np.random.default_rng([seed, zlib.crc32(family.encode()), i])
        yield _name(family, i), FAMILIES[family](rng, size=size)
