"""The search for what to stream: ways to share out the devices' memory, and the best that fits.

Each way is a placement with a rule of what stays (``streaming.filled``). It is run, and keeps less
until all fits that is in memory then: with other weights as values other parts are formed, and what
onnxruntime takes for those is known only afterwards. Where no way fits, ops are placed once more
with memory set aside.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dplace.comm_order import Scheduled, schedule
from dplace.errors import MemoryLimitError
from dplace.lowering import Evaluator
from dplace.plan.session_memory import peak_with_sessions
from dplace.policies.policy import Answer
from dplace.policies.streaming import RUNS, Choice, Streamable, dealt_out, filled, relaxed
from dplace.problem import Problem
from dplace.simulator.timeline import Timeline
from dplace.sizes import size_in_words

__all__ = ["StreamSearch"]

Placement = NDArray[np.int32]
Bytes = NDArray[np.int64]

SHARES = ((1, False), (1, True), (4, False), (0, False), (0, True))
"""For how many ops more than the one that runs weights are to come ahead, and whether large weights
are to stay rather than those needed first."""
TRIES = 8
"""How often less is kept where more is in memory than was thought."""
STEP = 64
"""By one part in so many of the memory, where it is not known by how much."""
SLACK = 512
"""By one part in so many more at each try: what sessions take goes up and down with the parts."""
RESERVES = (0.0, 0.1, 0.2, 0.35, 0.5)
"""Shares of the memory to set aside when ops are placed, until a way fits."""


class _Way(NamedTuple):
    """A placement, and how its devices' memory is shared out; see ``streaming.py``."""

    placement: Placement
    timeline: Timeline
    """Of the placement if weights that may be streamed take time and no memory."""
    ahead: int
    largest_first: bool


class _Fit(NamedTuple):
    """A way to stream and how it runs."""

    seconds: float
    """What the objective makes small."""
    way: _Way
    free_bytes: Bytes
    """What it was filled to, shape ``(num_devices,)``."""
    choice: Choice
    run: Answer | Scheduled


def _seconds(fit: _Fit) -> float:
    return fit.seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamSearch:
    """A problem and what is asked about it."""

    streamable: Streamable
    lifted: Callable[[Choice], Problem]
    """Makes the problem in which the weights of a choice are values."""
    decide: Callable[[Problem], Answer]
    """Places a problem."""
    settle: Callable[[Problem, Placement], Answer]
    """Makes an answer of a placement."""
    is_free: bool
    """Whether other placements than those of ``decide`` may be tried."""
    keep_none: bool
    """Whether no weight may stay but on its home."""

    def best(self) -> tuple[Choice, Answer]:
        """Return what is streamed in the best way found, and the answer.

        Raises:
            MemoryLimitError: Nothing fits; the message is of the first way that was tried.
        """
        refusal: MemoryLimitError | None = None
        seen: set[bytes] = set()
        for share in RESERVES:
            try:
                problem = relaxed(self.streamable, share)
                first = self.decide(problem)
                if first.placement.tobytes() in seen:
                    continue
                seen.add(first.placement.tobytes())
                return self._among(problem, first)
            except MemoryLimitError as error:
                refusal = refusal or error
                if not seen or first.is_interrupted:
                    break
        assert refusal is not None
        raise refusal

    def _among(self, problem: Problem, first: Answer) -> tuple[Choice, Answer]:
        """Return the best way to stream with a placement, or with others if they may be tried."""
        evaluator = Evaluator(problem)
        found: list[_Fit] = []
        refusal: MemoryLimitError | None = None

        def look(way: _Way) -> None:
            nonlocal refusal
            free = self._memory_bytes() - way.timeline.peak_bytes
            try:
                found.append(
                    self._fit(way, free, lambda its, at: schedule(Evaluator(its), at, "fifo"))
                )
            except MemoryLimitError as error:
                refusal = refusal or error

        ways: list[_Way] = []
        for placement in self._placements(problem, first.placement):
            _, timeline = evaluator.run(placement, evaluator.best_rule(placement)[1])
            ways.append(_Way(placement, timeline, *SHARES[0]))
            look(ways[-1])
        likely = min(found, key=_seconds).way if found else ways[0]
        for ahead, largest_first in SHARES[1:]:
            look(likely._replace(ahead=ahead, largest_first=largest_first))
        # Under another order of transfers parts are others, so even what fitted may not.
        for fit in sorted(found, key=_seconds):
            try:
                best = self._fit(fit.way, fit.free_bytes, self.settle)
            except MemoryLimitError as error:
                refusal = refusal or error
                continue
            assert isinstance(best.run, Answer)
            return best.choice, replace(
                best.run,
                policy=first.policy,
                evaluations=first.evaluations,
                scores={**first.scores, first.policy: best.run.objective_s},
                is_interrupted=first.is_interrupted,
            )
        assert refusal is not None
        raise refusal

    def _placements(self, problem: Problem, first: Placement) -> Iterator[Placement]:
        """Yield the placement that was decided on, and others if they may be tried."""
        yield first
        seen = {first.tobytes()}
        for run in RUNS if self.is_free and problem.num_devices > 1 else ():
            placement = dealt_out(self.streamable, problem, run)
            if placement.tobytes() not in seen:
                seen.add(placement.tobytes())
                yield placement

    def _memory_bytes(self) -> Bytes:
        devices = self.streamable.problem.cluster.devices
        return np.array([device.memory_bytes for device in devices], dtype=np.int64)

    def _fit(
        self,
        way: _Way,
        free_bytes: Bytes,
        judge: Callable[[Problem, Placement], Answer | Scheduled],
    ) -> _Fit:
        """Return how a way runs, with so few weights kept that all fits.

        Raises:
            MemoryLimitError: There is too little room for what ops read at a time.
        """
        memory, free = self._memory_bytes(), free_bytes
        refusal: MemoryLimitError | None = None
        for attempt in range(TRIES):
            choice = filled(
                self.streamable,
                way.placement,
                way.timeline,
                free,
                ahead=way.ahead,
                largest_first=way.largest_first,
                keep_none=self.keep_none,
            )
            problem, filled_to = self.lifted(choice), free
            free = np.minimum(free, choice.taken_bytes)
            try:
                run = judge(problem, way.placement)
            except MemoryLimitError as error:
                refusal = error
                free = free - memory // STEP
                continue
            overflow = peak_with_sessions(problem, run.lowered, run.timeline) - memory
            if (overflow <= 0).all():
                is_stream = problem.objective == "throughput"
                seconds = run.timeline.bottleneck_s if is_stream else run.timeline.makespan_s
                return _Fit(seconds, way, filled_to, choice, run)
            refusal = self._refusal(overflow)
            free = free - np.where(overflow > 0, overflow + attempt * memory // SLACK, 0)
        assert refusal is not None
        raise refusal

    def _refusal(self, overflow: Bytes) -> MemoryLimitError:
        """Return the error if the devices' memory is exceeded by so much."""
        problem, device = self.streamable.problem, int(overflow.argmax())
        op_bytes = self.streamable.op_bytes()
        op = int(op_bytes.argmax())
        return MemoryLimitError(
            f"{problem.graph.name}: no way found to stream weights through the memory that values "
            f"leave on {problem.cluster.devices[device].name}, "
            f"{size_in_words(int(overflow[device]))} missing; most at once, "
            f"{size_in_words(int(op_bytes[op]))}, are read by op {problem.graph.op_names[op]!r}"
        )
