"""Which models a policy is trained on, and how they become worlds: part of the roof."""

from __future__ import annotations

import glob
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dplace.api_graph import graph_problem
from dplace.api_model import model_problem
from dplace.errors import InputError, MemoryLimitError, UsageError

if TYPE_CHECKING:
    import onnx

    from dplace.cluster import Cluster
    from dplace.policies.placeto.world import World
    from dplace.problem import Problem

__all__ = ["FAMILY_DIMS", "Source", "family_sources", "model_files", "read_worlds"]

FAMILY_DIMS: dict[str, dict[str, int]] = {
    "cifar10": {"batch": 128},
    "ptb": {"batch": 1024},
    "nmt": {"batch": 1024},
    "transformer": {"batch": 64, "sequence": 128},
    "inception": {"batch": 64},
    "two-tower": {"batch": 64},
    "lstm": {"batch": 64, "time": 128},
}
"""Sizes at which several devices may be faster than one; at others there is nothing to learn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One model on one cluster, not read yet."""

    name: str
    model: Path | onnx.ModelProto
    cluster: str | Cluster
    sizes: Mapping[str, int]
    """Of dynamic dimensions; those that the model lacks do not matter."""


def model_files(words: Sequence[str]) -> list[Path]:
    """Return the files that words mean: files, folders of ONNX models, or patterns.

    ``-`` reads such words from standard input, one a line.

    Raises:
        InputError: A word means nothing that is there.
        UsageError: There are no words.
    """
    found: dict[Path, None] = {}
    for word in _words(words):
        path = Path(word)
        if path.is_dir():
            inside = sorted(path.glob("*.onnx"))
            if not inside:
                raise InputError(f"{word}: the folder has no files *.onnx")
        elif path.exists():
            inside = [path]
        else:
            inside = sorted(Path(name) for name in glob.glob(word, recursive=True))  # noqa: PTH207
            inside = [name for name in inside if name.is_file()]
            if not inside:
                words_for = "no file matches" if glob.has_magic(word) else "there is no such file"
                raise InputError(f"{word}: {words_for}")
        found.update(dict.fromkeys(inside))
    if not found:
        raise UsageError("expected at least one model, got none")
    return list(found)


def _words(words: Sequence[str]) -> Iterator[str]:
    for word in words:
        if word != "-":
            yield word
            continue
        lines = [] if sys.stdin is None else sys.stdin.read().splitlines()
        listed = [line.strip() for line in lines if line.strip()]
        if not listed:
            raise InputError("-: standard input has no list of models; write one path a line")
        yield from listed


def family_sources(
    words: Sequence[str],
    clusters: Sequence[str | Cluster],
    *,
    members: int | None,
    dims: Mapping[str, int],
) -> Iterator[Source]:
    """Yield each model on each cluster; of families, the training members.

    Args:
        words: Names of families, and what ``model_files`` takes.
        clusters: On each of which every model is placed.
        members: How many of each family; None for all.
        dims: Sizes of dynamic dimensions in place of the family's own.

    Raises:
        InputError: A word means nothing that is there.
    """
    from dplace.graph_io.families import FAMILIES, generate

    others = [word for word in words if word not in FAMILIES]
    for word in others:
        if not Path(word).exists() and not glob.has_magic(word) and word != "-":
            raise InputError(
                f"{word}: no family and no folder of that name; families are {', '.join(FAMILIES)}"
            )
    files = model_files(others) if others else []
    for family in dict.fromkeys(word for word in words if word in FAMILIES):
        sizes = {**FAMILY_DIMS[family], **dims}
        for name, model in generate(family, count=members, seed=0, split="train"):
            for cluster in clusters:
                yield Source(name=name, model=model, cluster=cluster, sizes=sizes)
    for path in files:
        for cluster in clusters:
            yield Source(name=str(path), model=path, cluster=cluster, sizes=dims)


def read_worlds(
    sources: Iterable[Source],
    dims: Mapping[str, int],
    doing: Callable[[int, str], None],
) -> tuple[list[str], list[World], tuple[str, ...]]:
    """Return the names of models, each on its cluster, ready to be played, and what was assumed.

    Args:
        sources: What to read.
        dims: Sizes that were asked for: some model has to have each.
        doing: Is told how many are read and which is next.

    Raises:
        InputError: A model or a cluster cannot be used, or no model has one of the dimensions.
        MemoryLimitError: The weights of a model do not fit.
    """
    from dplace.lowering import Evaluator
    from dplace.placement import counted_bytes
    from dplace.policies.memory import no_room
    from dplace.policies.placeto.world import World

    names: list[str] = []
    worlds: list[World] = []
    warnings: dict[str, None] = {}
    unknown = set(dims)
    for source in sources:
        doing(len(worlds), source.name)
        problem = _problem(source, unknown, warnings)
        if problem.num_ops == 0:
            raise InputError(f"{source.name}: there is nothing to place in it")
        evaluator = Evaluator(problem)
        if int(counted_bytes(problem).weights.sum()) > sum(evaluator.engine.capacity.tolist()):
            raise MemoryLimitError(f"{source.name}: {no_room(problem, None, None)}")
        names.append(source.name)
        worlds.append(World(evaluator))
    for name in sorted(unknown):
        raise InputError(f"--dim {name}: no model has such a dimension")
    return names, worlds, tuple(warnings)


def _problem(source: Source, unknown: set[str], warnings: dict[str, None]) -> Problem:
    """Return a model's problem; take its dimensions out of those that are unknown so far."""
    from dplace.graph_io.cost_graphs import is_cost_graph, read_cost_graph
    from dplace.graph_io.read import read_model
    from dplace.graph_io.skeleton import dynamic_dims

    if isinstance(source.model, Path) and is_cost_graph(source.model):
        graph = read_cost_graph(source.model, None)
        warnings.update(dict.fromkeys(graph.warnings))
        return graph_problem(graph, source.cluster, machine=None, objective="latency")
    known = set(dynamic_dims(read_model(source.model)))
    unknown -= known
    sizes = {name: size for name, size in source.sizes.items() if name in known}
    with model_problem(
        source.model, cluster=source.cluster, dims=sizes, pins=(), optimize="auto", opt_level="all"
    ) as made:
        warnings.update(dict.fromkeys(made.warnings))
        return made.problem
