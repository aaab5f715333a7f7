"""The families by name, and the stream of their members."""

from __future__ import annotations

import difflib
import math
import zlib
from collections.abc import Iterator
from typing import Protocol

import numpy as np
import onnx

from dplace.errors import InputError
from dplace.graph_io.families.inception import inception
from dplace.graph_io.families.lstm import lstm
from dplace.graph_io.families.transformer import transformer
from dplace.graph_io.families.two_tower import two_tower

__all__ = ["FAMILIES", "Family", "generate"]


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
}


def generate(
    family: str, *, count: int, seed: int, size: float = 1.0
) -> Iterator[tuple[str, onnx.ModelProto]]:
    """Yield ``count`` members of a family, each with its name, such as ``two-tower-000``.

    Member ``i`` depends on the family, the seed, the size and ``i``, and on nothing else: asking
    for more members leaves the first ones as they were, byte for byte.

    Args:
        family: one of ``FAMILIES``.
        count: number of members; at least 1.
        seed: at least 0.
        size: 1 for models of 5 to 80 ms on one CPU core and at most 40 MB. Widths grow with it
            (so weights and work grow with its square) and depths with its fourth root.

    Raises:
        InputError: for an unknown family, and for a count, seed or size out of range. Raised by
            the call itself, before the first member is asked for.
    """
    if family not in FAMILIES:
        near = difflib.get_close_matches(family, FAMILIES, cutoff=0.4) or list(FAMILIES)
        raise InputError(f'unknown family "{family}"; near names: {", ".join(near)}')
    if count < 1:
        raise InputError(f"count must be at least 1, got {count}")
    if seed < 0:
        raise InputError(f"seed must be at least 0, got {seed}")
    if not (math.isfinite(size) and size > 0):
        raise InputError(f"size must be above 0 and finite, got {size}")
    return _members(family, count, seed, size)


def _members(
    family: str, count: int, seed: int, size: float
) -> Iterator[tuple[str, onnx.ModelProto]]:
    for i in range(count):
        rng = np.random.default_rng([seed, zlib.crc32(family.encode()), i])
        yield f"{family}-{i:03}", FAMILIES[family](rng, size=size)
