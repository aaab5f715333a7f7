"""What the unrolled models of language share: a word at a step, and how likely the next one is.

Their input is ``tokens``, int64, ``(batch, steps + 1)``: the words read are all but the last, the
words to be predicted all but the first. Each step fetches its own columns, so no op joins the steps
until their scores, one number each, are put side by side.
"""

from __future__ import annotations

from collections.abc import Sequence

from dplace.graph_io.families.builder import GraphBuilder
from dplace.graph_io.families.scale import wide

__all__ = ["drawn_vocabulary", "score_output", "word", "word_score"]

TOKENS = 1024
"""Ids below this are words of every member's vocabulary."""


def drawn_vocabulary(graph: GraphBuilder, size: float) -> int:
    """Return a length of vocabulary between 1,024 and 4,096 at size 1, never below 1,024."""
    return max(TOKENS, wide(int(graph.rng.integers(8, 33)) * 128, size, multiple=128))


def word(graph: GraphBuilder, table: str, tokens: str, step: int) -> str:
    """Add the embedding of one column of the tokens.

    Args:
        graph: the graph to add to.
        table: shape ``(vocabulary, width)``.
        tokens: shape ``(batch, time)``.
        step: the column.

    Returns:
        A value of shape ``(batch, width)``.
    """
    return graph.add("Gather", table, graph.add("Gather", tokens, graph.integer(step), axis=1))


def word_score(
    graph: GraphBuilder, value: str, weights: tuple[str, str], tokens: str, step: int
) -> str:
    """Add a softmax over the vocabulary, and the log of what it gives to the next word.

    Args:
        graph: the graph to add to.
        value: shape ``(batch, width)``.
        weights: of shapes ``(vocabulary, width)`` and ``(vocabulary,)``.
        tokens: shape ``(batch, time)``.
        step: the column that is being predicted.

    Returns:
        A value of shape ``(batch, 1)``.
    """
    chances = graph.add("LogSoftmax", graph.add("Gemm", value, *weights, transB=1), axis=1)
    column = graph.add("Gather", tokens, graph.integers(step), axis=1)
    return graph.add("GatherElements", chances, column, axis=1)


def score_output(graph: GraphBuilder, scores: Sequence[str]) -> None:
    """Declare the output ``log_likelihood``, ``(batch, steps)``, from each step's score."""
    joined = graph.add("Concat", *scores, axis=1)
    graph.output("log_likelihood", joined, ["batch", len(scores)])
