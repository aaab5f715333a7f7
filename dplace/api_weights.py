"""Weights that do not fit: which are streamed, from where, and where ops go then.

Part of the roof.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Literal, NamedTuple, cast

from dplace.errors import InputError, MemoryLimitError, UsageError
from dplace.plan.records import HOST

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from dplace.api_model import ModelProblem
    from dplace.comm_order import Scheduled
    from dplace.lowering import Evaluator
    from dplace.policies.policy import Answer
    from dplace.policies.streaming import Choice, Streamable
    from dplace.problem import Problem

__all__ = ["Weights", "place_with_weights"]

Weights = Literal["resident", "stream", "auto"]
"""Whether weights lie on the devices that read them, are sent there for each request, or the second
only where the first does not fit."""
WAYS = ((1, False), (1, True), (4, False), (0, False), (0, True))
"""For how many ops more than the one that runs weights are to come ahead, and whether large weights
are to stay rather than those needed first."""
TRIES = 4
"""How often less is kept where more is in memory than was thought."""
STEP = 64
"""By one part in so many of the memory, where it is not known by how much."""


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
    if not streamable.may_be.any():
        if too_little is not None:
            raise too_little
        warning = "--weights stream: the model has no weight of 64 KiB or more that can be streamed"
        return _with_warning(made, warning), decide(made.problem)
    try:
        return _Streaming(made, streamable, decide, settle, is_free, weights == "stream").best()
    except MemoryLimitError as error:
        raise MemoryLimitError(f"{error} (with weights streamed)") from too_little


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


class _Way(NamedTuple):
    """A placement, and how its devices' memory is shared out; see ``policies/streaming.py``."""

    placement: NDArray[np.int32]
    ahead: int
    largest_first: bool


class _Fit(NamedTuple):
    """A way to stream and how it runs."""

    score: tuple[int, float]
    """Bytes above the devices' memory, and what the objective makes small: smaller is better."""
    way: _Way
    made: ModelProblem
    run: Answer | Scheduled


def _score(fit: _Fit) -> tuple[int, float]:
    return fit.score


@dataclasses.dataclass(slots=True)
class _Streaming:
    """The search for what to stream."""

    made: ModelProblem
    streamable: Streamable
    decide: Callable[[Problem], Answer]
    settle: Callable[[Problem, NDArray[np.int32]], Answer]
    is_free: bool
    keep_none: bool

    def best(self) -> tuple[ModelProblem, Answer]:
        """Return the model with what is streamed in the best way found, and the answer."""
        from dplace.comm_order import schedule
        from dplace.lowering import Evaluator
        from dplace.placement import size_in_words
        from dplace.policies.streaming import relaxed

        problem = relaxed(self.streamable)
        first = self.decide(problem)
        evaluator = Evaluator(problem)
        found: list[_Fit] = []
        reasons: list[MemoryLimitError] = []

        def look(way: _Way) -> None:
            try:
                found.append(
                    self._fit(evaluator, way, lambda its, at: schedule(Evaluator(its), at, "fifo"))
                )
            except MemoryLimitError as error:
                reasons.append(error)

        for placement in self._placements(problem, first.placement):
            look(_Way(placement, *WAYS[0]))
        likely = min(found, key=_score).way.placement if found else first.placement
        for ahead, largest_first in WAYS[1:]:
            look(_Way(likely, ahead, largest_first))
        if not found:
            raise reasons[0]
        best = self._fit(evaluator, min(found, key=_score).way, self.settle)
        if best.score[0]:
            raise MemoryLimitError(
                f"{problem.graph.name}: no way found to stream weights through the memory left; "
                f"{size_in_words(best.score[0])} missing"
            )
        answer = cast("Answer", best.run)
        return self._told(best.made), dataclasses.replace(
            answer,
            policy=first.policy,
            evaluations=first.evaluations,
            scores={**first.scores, first.policy: answer.objective_s},
            is_interrupted=first.is_interrupted,
        )

    def _placements(
        self, problem: Problem, first: NDArray[np.int32]
    ) -> Iterator[NDArray[np.int32]]:
        """Yield the placement that was decided on, and others if they may be tried."""
        from dplace.policies.streaming import RUNS, dealt_out

        yield first
        seen = {first.tobytes()}
        for run in RUNS if self.is_free and problem.num_devices > 1 else ():
            placement = dealt_out(self.streamable, problem, run)
            if placement.tobytes() not in seen:
                seen.add(placement.tobytes())
                yield placement

    def _fit(
        self,
        relaxed: Evaluator,
        way: _Way,
        judge: Callable[[Problem, NDArray[np.int32]], Answer | Scheduled],
    ) -> _Fit:
        """Return how a way runs, with so few weights kept that all fits, if that can be.

        Raises:
            MemoryLimitError: There is too little room for what ops read at a time.
        """
        import numpy as np

        from dplace.plan.session_memory import peak_with_sessions
        from dplace.policies.streaming import filled

        problem = self.streamable.problem
        memory = np.array([device.memory_bytes for device in problem.cluster.devices])
        _, timeline = relaxed.run(way.placement, relaxed.best_rule(way.placement)[1])
        free = memory - timeline.peak_bytes
        is_stream = problem.objective == "throughput"
        fit: _Fit | None = None
        for attempt in range(TRIES):
            choice = filled(
                self.streamable,
                way.placement,
                timeline,
                free,
                ahead=way.ahead,
                largest_first=way.largest_first,
                keep_none=self.keep_none,
            )
            made = self._lifted(choice)
            free = np.minimum(free, choice.taken_bytes)
            try:
                run = judge(made.problem, way.placement)
            except MemoryLimitError:
                if attempt == TRIES - 1 and fit is None:
                    raise
                free = free - memory // STEP
                continue
            peak = peak_with_sessions(made.problem, run.lowered, run.timeline)
            overflow = np.maximum(peak - memory, 0)
            seconds = run.timeline.bottleneck_s if is_stream else run.timeline.makespan_s
            fit = _Fit((int(overflow.sum()), seconds), way, made, run)
            if not overflow.any():
                break
            free = free - overflow
        assert fit is not None
        return fit

    def _lifted(self, choice: Choice) -> ModelProblem:
        """Return the model with the weights of a choice as values."""
        import numpy as np

        from dplace.graph_io.fed_weights import changes_bits
        from dplace.graph_io.lift import lift

        placeable = lift(self.made.placeable, np.flatnonzero(choice.streamed).tolist())
        homes = np.full(placeable.graph.num_values, -1, dtype=np.int32)
        problem = dataclasses.replace(
            self.streamable.problem, graph=placeable.graph, buffer_bytes=choice.buffer_bytes
        )
        homes[problem.streamed] = self.streamable.home
        optimised = self.made.optimised
        is_exact = optimised.exact and not changes_bits(placeable)
        return dataclasses.replace(
            self.made,
            problem=dataclasses.replace(problem, value_home=homes),
            placeable=placeable,
            optimised=dataclasses.replace(optimised, exact=is_exact),
        )

    def _told(self, made: ModelProblem) -> ModelProblem:
        """Return the model with what the user should know."""
        if made.optimised.exact or not self.made.optimised.exact:
            return made
        return _with_warning(
            made,
            "weights are streamed that onnxruntime would have packed: outputs can differ from the "
            "whole model's in last bits",
        )
