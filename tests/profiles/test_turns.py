"""Calls that take turns: which rounds count, and what they are brought to."""

import itertools

import numpy as np

from dplace.profiles.timing import SETTLE_RUNS
from dplace.profiles.turns import FEWEST, Rounds, Turns, even_rounds, num_even


def test_rounds_of_two_speeds_are_left_out() -> None:
    probes = np.tile([1.0, 1.0, 1.0], (20, 1))
    probes[3, 1] = 1.6
    probes[7] = 1.6  # slow, but evenly so
    assert even_rounds(probes).tolist() == [number for number in range(20) if number != 3]


def test_rounds_in_which_another_process_had_a_core_are_left_out() -> None:
    waited = np.full(20, 0.03)  # their own doing
    waited[5] = 0.3
    probes = np.ones((20, 2))
    assert even_rounds(probes, waited).tolist() == [number for number in range(20) if number != 5]
    assert num_even(probes, waited) == 19


def test_the_most_even_rounds_are_kept_if_none_is_even() -> None:
    probes = np.array([[1.0, 1.2 + number / 100] for number in range(30)])
    assert even_rounds(probes).tolist() == list(range(FEWEST))


def test_slow_rounds_are_brought_to_the_best_speed() -> None:
    probes = np.ones((20, 4))
    probes[10:] = 2.0
    rounds = Rounds(
        seconds={"a": np.where(probes[:, 0] > 1, 6.0, 3.0)}, probes_s=probes, waited=np.zeros(20)
    )
    assert rounds.at_speed(1.0)["a"].tolist() == [3.0] * 20


def test_each_call_comes_to_rest_before_it_counts() -> None:
    made: list[str] = []

    def call(name: str, seconds: float) -> float:
        made.append(name)
        return seconds

    turns = Turns()
    rounds = turns.take(
        {"a": lambda: call("a", 1.0), "b": lambda: call("b", 2.0)}, limit_s=0.0, least=3
    )
    # On a busy machine even these may take so long that they come to rest sooner.
    assert [name for name, _ in itertools.groupby(made)] == ["a", "b"] * 3
    assert 2 * 6 <= len(made) <= (SETTLE_RUNS + 1) * 6
    assert rounds.seconds["b"].tolist() == [2.0] * 3
    assert rounds.probes_s.shape[0] == 3
    assert turns.was_disturbed == (num_even(rounds.probes_s, rounds.waited) < 3)
    assert ((rounds.waited >= 0) & (rounds.waited < 4)).all()
    assert rounds.probes_s.min() <= turns.best_s <= rounds.probes_s.max()
