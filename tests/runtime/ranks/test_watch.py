"""Who is lost, and that all ranks hear of one reason; ranks are threads with a real store."""

import threading
import time

import pytest

from dplace.errors import DeviceLostError, DplaceError, MemoryLimitError
from dplace.runtime.ranks.gathering import Gathering
from dplace.runtime.ranks.verdict import Verdict, verdict_of
from dplace.runtime.ranks.watch import LinkClock
from tests.runtime.ranks.processes import in_threads

NAMES = ["rank 0 (a)", "rank 1 (b)", "rank 2 (c)"]
LONG_S = 30.0


def wait_for_the_end(gathering: Gathering) -> None:
    """Do nothing until the run is over; raise why."""
    gathering.watch.wait_for_verdict(LONG_S)
    gathering.watch.check()


def test_a_silent_rank_is_lost_to_all_others() -> None:
    others_know = threading.Event()

    def work(gathering: Gathering) -> float:
        gathering.watch.all_are_here(NAMES)
        started_s = time.perf_counter()
        if gathering.launch.rank == 2:
            time.sleep(0.5)  # so that some beat is later than the start, also on a busy machine
            gathering.watch.close()  # no beat from here on
            others_know.wait(LONG_S)
        else:
            try:
                wait_for_the_end(gathering)
            finally:
                others_know.set()
        return time.perf_counter() - started_s

    first, second, third = in_threads(work, 3, timeout_s=1.0)
    assert isinstance(third, float)
    assert 1.0 < third < LONG_S
    for result in (first, second):
        assert isinstance(result, DeviceLostError)
        assert str(result) == "lost rank 2 (c): not heard of for 1 s"


def test_a_link_that_carries_nothing_is_named() -> None:
    def work(gathering: Gathering) -> None:
        watch, rank = gathering.watch, gathering.launch.rank
        watch.all_are_here(NAMES)
        if rank == 0:
            watch.given[0, 1] = 5
        elif rank == 1:
            watch.delivered[0, 1] = 4
            watch.given[1, 2] = 7
        else:
            watch.delivered[1, 2] = 7  # all is there; it may rest for as long as it likes
        wait_for_the_end(gathering)

    for result in in_threads(work, 3, timeout_s=1.0):
        assert isinstance(result, DeviceLostError)
        assert str(result) == (
            "lost rank 1 (b): the link to it from rank 0 (a) has carried nothing for 1 s"
        )


def test_a_link_is_given_time_anew_with_every_piece() -> None:
    clock = LinkClock()

    def look(given: int, delivered: int, now_s: float) -> object:
        return clock.stalled({(0, 1): (given, delivered)}, now_s, 10.0)

    assert look(0, 0, 0.0) is None
    assert look(3, 0, 100.0) is None  # may have been given just now
    assert look(3, 0, 109.0) is None
    assert look(3, 1, 111.0) is None
    assert look(3, 1, 121.0) is None
    assert look(3, 1, 121.5) == (0, 1)
    assert look(3, 3, 122.0) is None
    assert look(4, 3, 200.0) is None
    assert look(4, 3, 211.0) == (0, 1)


def test_the_first_reason_counts_on_all_ranks() -> None:
    barrier = threading.Barrier(3)

    def work(gathering: Gathering) -> None:
        gathering.watch.all_are_here(NAMES)
        barrier.wait(LONG_S)
        raise MemoryLimitError(f"rank {gathering.launch.rank} is full")

    results = in_threads(work, 3)
    assert {type(result) for result in results} == {MemoryLimitError}
    assert len({str(result) for result in results}) == 1


def test_a_verdict_wakes_those_who_asked_for_it() -> None:
    barrier = threading.Barrier(2)

    def work(gathering: Gathering) -> list[str]:
        called: list[str] = []
        gathering.watch.on_verdict(lambda: called.append("before"))
        barrier.wait(LONG_S)
        if gathering.launch.rank == 0:
            gathering.watch.tell(verdict_of(DplaceError("enough"), 0))
        gathering.watch.wait_for_verdict(LONG_S)
        gathering.watch.on_verdict(lambda: called.append("after"))
        barrier.wait(LONG_S)  # the store is where rank 0 is
        return called

    assert in_threads(work, 2) == [["before", "after"]] * 2


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (MemoryLimitError("full"), 3, "full"),
        (DeviceLostError("gone"), 4, "gone"),
        (KeyboardInterrupt(), 130, "interrupted on rank 2"),
        (ZeroDivisionError("by\n zero"), 1, "rank 2 failed: ZeroDivisionError: by zero"),
    ],
)
def test_an_error_ends_the_other_ranks_with_its_code(
    error: BaseException, code: int, message: str
) -> None:
    verdict = Verdict.from_text(verdict_of(error, 2).to_text().encode())
    assert (verdict.exit_code, str(verdict.error())) == (code, message)
    expected = DplaceError if isinstance(error, ZeroDivisionError) else type(error)
    assert type(verdict.error()) is expected
