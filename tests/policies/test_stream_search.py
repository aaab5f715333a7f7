"""The search for what to stream goes on where the way that looked best does not fit."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from dplace.errors import MemoryLimitError
from dplace.policies import stream_search
from dplace.policies.policy import Answer, answer_for
from dplace.policies.stream_search import StreamSearch
from dplace.policies.streaming import Choice
from dplace.problem import Problem
from tests.policies.test_streaming import READS, SIZES, chain

Placement = NDArray[np.int32]
MEMORY = 60
STREAMABLE = chain(SIZES, READS, memory=MEMORY)
ALL_ON_THE_FIRST = np.zeros(4, dtype=np.int32)


def lifted(choice: Choice) -> Problem:
    """Return the problem as if weights took nothing."""
    return replace(STREAMABLE.problem, graph=STREAMABLE.without)


def decide(problem: Problem) -> Answer:
    return answer_for(problem, ALL_ON_THE_FIRST, policy="test")


def settle(problem: Problem, placement: Placement) -> Answer:
    return answer_for(problem, placement, policy="test")


SEARCH = StreamSearch(
    streamable=STREAMABLE,
    lifted=lifted,
    decide=decide,
    settle=settle,
    is_free=False,
    keep_none=True,
)


def test_the_next_best_way_is_taken_where_the_best_does_not_settle() -> None:
    def refuse_the_first(problem: Problem, placement: Placement) -> Answer:
        if (placement == ALL_ON_THE_FIRST).all():
            raise MemoryLimitError("the first does not fit")
        return settle(problem, placement)

    _, answer = replace(SEARCH, settle=refuse_the_first, is_free=True).best()
    assert set(answer.placement.tolist()) == {0, 1}
    with pytest.raises(MemoryLimitError, match="the first does not fit"):
        replace(SEARCH, settle=refuse_the_first).best()


def test_less_is_kept_until_what_sessions_take_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts come and go with what is kept: a byte too much, six times over."""
    over = iter([1, 1, 1, 1, 1, 1])
    fine = chain({"A": 31, "B": 20, "C": 47, "D": 53}, READS, memory=100)
    rooms: list[int] = []

    def peak(problem: Problem, *_: object) -> NDArray[np.int64]:
        return np.array([100 + next(over, 0), 0])

    def seen(choice: Choice) -> Problem:
        rooms.append(int(choice.taken_bytes[0]))
        return replace(fine.problem, graph=fine.without)

    monkeypatch.setattr(stream_search, "peak_with_sessions", peak)
    replace(SEARCH, streamable=fine, lifted=seen).best()
    assert rooms[:7] == [rooms[0] - less for less in range(7)]
    assert rooms[0] > rooms[6] >= 53  # D has to fit


def test_ops_are_placed_anew_with_memory_set_aside() -> None:
    """What is decided on fits nowhere until a fifth of the memory is left."""
    asked: list[int] = []

    def by_memory(problem: Problem) -> Answer:
        asked.append(problem.cluster.devices[0].memory_bytes)
        placement = ALL_ON_THE_FIRST if asked[-1] > 30 else ALL_ON_THE_FIRST + 1
        return settle(problem, placement)

    def only_the_second(problem: Problem, placement: Placement) -> Answer:
        if not placement.any():
            raise MemoryLimitError("the first device has no room")
        return settle(problem, placement)

    _, answer = replace(SEARCH, decide=by_memory, settle=only_the_second).best()
    assert answer.placement.tolist() == [1, 1, 1, 1]
    assert asked == [40, 34, 28]


def test_what_is_missing_is_told_with_the_op_that_reads_most(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stream_search, "TRIES", 1)
    monkeypatch.setattr(
        stream_search, "peak_with_sessions", lambda *_: np.array([MEMORY + 7, MEMORY])
    )
    message = (
        "graph: no way found to stream weights through the memory that values leave on test:0, "
        "7 bytes missing; most at once, 20 bytes, are read by op 'v1'"
    )
    with pytest.raises(MemoryLimitError) as raised:
        SEARCH.best()
    assert str(raised.value).removeprefix(STREAMABLE.problem.graph.name) == message[len("graph") :]
