"""Weights that do not fit are streamed: what is asked for is checked, and how is decided.

Part of the roof; the search is in ``policies/stream_search.py``.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

from dplace.api_model import CPU
from dplace.errors import InputError, MemoryLimitError, UsageError
from dplace.plan.records import HOST

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from dplace.api_model import ModelProblem
    from dplace.policies.policy import Answer
    from dplace.policies.streaming import Choice, Streamable
    from dplace.problem import Problem

__all__ = ["Weights", "place_with_weights"]

Weights = Literal["resident", "stream", "auto"]
"""Whether weights lie on the devices that read them, are sent there for each request, or the second
only where the first does not fit."""


def place_with_weights(
    made: ModelProblem,
    decide: Callable[[Problem], Answer],
    settle: Callable[[Problem, NDArray[np.int32]], Answer],
    *,
    weights: str = "auto",
    home: str = HOST,
    is_free: bool = True,
) -> tuple[ModelProblem, Answer]:
    """Return a model, with the weights that are streamed as values, and its placement.

    Args:
        made: The model and what its ops cost.
        decide: Places a problem.
        settle: Makes an answer of a placement.
        weights: ``resident``, ``stream`` or ``auto``: as ``stream`` if ``decide`` finds nothing
            that fits, else as ``resident``.
        home: Where streamed weights lie: a device, or ``host``.
        is_free: Whether other placements than that of ``decide`` may be tried.

    Raises:
        UsageError: Options that do not go together.
        InputError: There is no such home.
        MemoryLimitError: Nothing fits.
    """
    from dplace.graph_io.fed_weights import repacked_bytes
    from dplace.policies.stream_search import StreamSearch

    _check(made.problem, weights, home)
    too_little: MemoryLimitError | None = None
    if weights != "stream":
        try:
            return made, decide(made.problem)
        except MemoryLimitError as error:
            if weights == "resident" or made.problem.machine != "native":
                raise
            too_little = error
    streamable = _streamable(made, home)
    repacked = repacked_bytes(made.placeable)
    if not streamable.may_be.any():
        if too_little is not None:
            raise too_little
        warning = "--weights stream: the model has no weight of 64 KiB or more that can be streamed"
        return _with_warning(made, warning), decide(made.problem)
    try:
        choice, answer = StreamSearch(
            streamable=streamable,
            lifted=lambda choice: _lifted(made, streamable, choice, repacked).problem,
            decide=decide,
            settle=settle,
            is_free=is_free,
            keep_none=weights == "stream",
        ).best()
    except MemoryLimitError as error:
        raise MemoryLimitError(f"{error} (with weights streamed)") from too_little
    return _told(_lifted(made, streamable, choice, repacked), answer), answer


def _check(problem: Problem, weights: str, home: str) -> None:
    """Refuse options that cannot be or do not go together."""
    if weights not in ("resident", "stream", "auto"):
        raise UsageError(f"--weights {weights}: expected resident, stream or auto")
    if weights == "resident" and home != HOST:
        raise UsageError(f"--weight-home {home}: resident weights lie where they are read")
    if problem.machine != "native" and (weights == "stream" or home != HOST):
        option = "--weights stream" if weights == "stream" else f"--weight-home {home}"
        raise UsageError(f"{option}: needs --machine native, got {problem.machine}")
    names = [device.name for device in problem.cluster.devices]
    if home not in (HOST, *names):
        raise InputError(
            f"--weight-home {home}: no such device; {problem.cluster.spec} has "
            f"{', '.join(names)}, and {HOST} for its memory"
        )


def _streamable(made: ModelProblem, home: str) -> Streamable:
    """Return what of a model may be streamed."""
    import numpy as np

    from dplace.graph_io.lift import lift, liftable
    from dplace.policies.streaming import AT_HOST, Streamable
    from dplace.profiles.streaming import streaming_cluster

    problem, level = made.problem, made.optimised.opt_level
    names = [device.name for device in problem.cluster.devices]
    found = liftable(made.placeable, level="none" if made.optimised.mode == "native" else level)
    return Streamable(
        problem=dataclasses.replace(problem, cluster=streaming_cluster(problem.cluster)),
        without=lift(made.placeable, np.flatnonzero(found.may_be), leave_out=True).graph,
        may_be=found.may_be,
        home=AT_HOST if home == HOST else names.index(home),
    )


def _with_warning(made: ModelProblem, warning: str) -> ModelProblem:
    return dataclasses.replace(made, warnings=(*made.warnings, warning))


def _lifted(
    made: ModelProblem, streamable: Streamable, choice: Choice, repacked: NDArray[np.float64]
) -> ModelProblem:
    """Return the model with the weights of a choice as values.

    Args:
        repacked: As ``repacked_bytes`` gives them.
    """
    import numpy as np

    from dplace.graph_io.lift import lift
    from dplace.profiles.streaming import with_repacking

    graph = made.placeable.graph
    placeable = lift(made.placeable, np.flatnonzero(choice.streamed).tolist())
    ops = np.repeat(np.arange(graph.num_ops), np.diff(graph.weight_offsets))
    of_ops = np.zeros((graph.num_ops, 2))
    np.add.at(of_ops, ops, repacked * choice.streamed[graph.op_weights, None])
    problem = dataclasses.replace(
        streamable.problem,
        graph=placeable.graph,
        seconds=with_repacking(streamable.problem.seconds, of_ops, streamable.problem.cluster),
        buffer_bytes=choice.buffer_bytes,
    )
    homes = np.full(placeable.graph.num_values, -1, dtype=np.int32)
    homes[problem.streamed] = streamable.home
    return dataclasses.replace(
        made, problem=dataclasses.replace(problem, value_home=homes), placeable=placeable
    )


def _told(made: ModelProblem, answer: Answer) -> ModelProblem:
    """Return the model with what the user should know of its streamed weights."""
    from dplace.graph_io.fed_weights import changes_bits
    from dplace.simulator.streamed import homes_of

    problem = made.problem
    if not len(problem.streamed):
        return made
    if made.optimised.exact and changes_bits(made.placeable):
        made = _with_warning(
            dataclasses.replace(made, optimised=dataclasses.replace(made.optimised, exact=False)),
            "weights are streamed that onnxruntime would have packed: outputs can differ from the "
            "whole model's in last bits",
        )
    is_cpu = [device.provider == CPU for device in problem.cluster.devices]
    if any(is_cpu):
        made = _with_warning(
            made,
            "on CPUs streamed weights take longer than predicted where files are not in the "
            "system's cache or cores have other work (docs/machine-models.md)",
        )
    if made.optimised.mode == "native" and (homes_of(problem)[problem.streamed] < 0).any():
        has = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        taken = int(answer.timeline.peak_bytes[is_cpu].sum())
        total = int(problem.graph.value_bytes[problem.streamed].sum())
        if total > has - taken:
            made = _with_warning(made, _too_much_for_host(total, has, taken))
    return made


def _too_much_for_host(total_bytes: int, has_bytes: int, taken_bytes: int) -> str:
    from dplace.sizes import size_in_words

    left = size_in_words(max(0, has_bytes - taken_bytes))
    return (
        f"weights of {size_in_words(total_bytes)} are streamed from the host, which has {left} of "
        f"its {size_in_words(has_bytes)} of memory left beside the devices: they are read from "
        "disk for each request, which is slower than predicted"
    )
