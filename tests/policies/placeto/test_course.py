"""A course: its stages, taking it up again bit by bit, and several processes that share it."""

import itertools
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dplace.errors import DeviceLostError, InputError, UsageError
from dplace.lowering import Evaluator
from dplace.policies.placeto.course import Course, CourseSettings, Step
from dplace.policies.placeto.kept import load_kept, save_kept
from dplace.policies.placeto.ranks import ALONE, Ranks, ranks_of_torchrun
from dplace.policies.placeto.rollout import Seats
from dplace.policies.placeto.train import Settings
from dplace.policies.placeto.world import World
from tests.policies.placeto.test_train import chains, network
from tests.policies.placeto.two_processes import SETTINGS, STAGES, course_of, together
from tests.policies.worlds import heavy_chain
from tests.runtime.ranks.processes import free_port

ROOT = Path(__file__).parents[3]


def rest_of(course: Course) -> list[Step]:
    steps = []
    while not course.is_over:
        steps.append(course.step())
    return steps


def weights_of(course: Course) -> torch.Tensor:
    return torch.cat([weight.detach().flatten() for weight in course.network.parameters()])


@pytest.fixture(scope="module")
def whole() -> tuple[list[Step], torch.Tensor]:
    course = course_of()
    return rest_of(course), weights_of(course)


def test_stages_follow_each_other_and_the_best_only_falls(
    whole: tuple[list[Step], torch.Tensor],
) -> None:
    steps, _ = whole
    assert [(step.stage, step.number, step.of) for step in steps] == [
        *(("search", number, 3) for number in range(3)),
        *(("imitation", number, 5) for number in range(5)),
        *(("trials", number, 5) for number in range(5)),
    ]
    for before, after in itertools.pairwise(steps):
        assert all(now <= then for now, then in zip(after.best_s, before.best_s, strict=True))
        assert 0 <= after.gap <= before.gap
    assert set(steps[4].figures) == {"loss", "agreement"}
    assert set(steps[-1].figures) == {"returns", "entropy", "gradient_norm"}


# In and between stages; an imitation that has walked, trials with and without a full history.
@pytest.mark.parametrize("at", [0, 1, 3, 4, 6, 8, 9, 12, 13])
def test_a_course_that_is_taken_up_again_comes_to_the_same(
    at: int, whole: tuple[list[Step], torch.Tensor], tmp_path: Path
) -> None:
    begun = course_of()
    for _ in range(at):
        begun.step()
    save_kept(tmp_path / "state", begun.state())
    again = course_of()
    torch.nn.init.zeros_(next(again.network.parameters()))
    again.restore(load_kept((tmp_path / "state").read_bytes(), "state"))
    assert again.steps_done == at
    steps, weights = whole
    assert rest_of(again) == steps[at:]
    assert torch.equal(weights_of(again), weights)


def test_taking_up_again_and_again_comes_to_the_same(
    whole: tuple[list[Step], torch.Tensor],
) -> None:
    course = course_of()
    while not course.is_over:
        course.step()
        kept, course = course.state(), course_of()
        course.restore(kept)
    assert torch.equal(weights_of(course), whole[1])


def test_trials_alone_are_the_published_training() -> None:
    course = course_of(replace(SETTINGS, imitation=None))
    steps = rest_of(course)
    assert {step.stage for step in steps} == {"trials"}
    assert len(steps) == course.num_steps == 5


def test_a_world_where_nothing_fits_is_left_out_of_imitation() -> None:
    worlds = [World(Evaluator(heavy_chain(6, 450, 1))), chains(2)]
    course = Course(network(), worlds, SETTINGS)
    assert np.isinf(rest_of(course)[-1].best_s[0])
    alone = Course(network(), worlds[:1], SETTINGS)
    steps = rest_of(alone)
    assert steps[3].figures == {}
    assert steps[-1].gap == 0.0


def test_a_damaged_state_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "state"
    save_kept(path, course_of().state())
    content = path.read_bytes()
    for wrong in (b"", b"nothing", content[: len(content) // 2], content[:-1]):
        with pytest.raises(InputError, match="state: not the state of a training"):
            load_kept(wrong, "state")
    changed = bytearray(content)
    changed[-3] ^= 1
    with pytest.raises(InputError, match="state: the state of the training is damaged"):
        load_kept(bytes(changed), "state")


def test_shares_of_processes_are_all_rows_once() -> None:
    for size in (1, 2, 3, 7):
        for num in (0, 1, 4, 8):
            rows = [row for rank in range(size) for row in range(num)[Ranks(rank, size).share(num)]]
            assert rows == list(range(num))


def test_draws_of_a_process_are_those_of_one_that_draws_all() -> None:
    shares = torch.rand(5, 3, generator=torch.Generator().manual_seed(1)).double().softmax(1)
    one = torch.Generator().manual_seed(2)
    drawn = [torch.multinomial(shares, 1, generator=one).squeeze(1) for _ in range(50)]
    for own in (slice(0, 2), slice(2, 5), slice(0, 0)):
        other, seats = torch.Generator().manual_seed(2), Seats(own, 5, 3, 50)
        mine = [(shares[own] / seats.noise(other)).argmax(1) for _ in range(50)]
        assert all(torch.equal(a[own], b) for a, b in zip(drawn, mine, strict=True))
        assert torch.equal(one.get_state(), other.get_state())


def two_processes(*outs: Path) -> list[dict[str, Any]]:
    """Return what two processes come to, again for each file."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.policies.placeto.two_processes", *outs],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(out.read_text()) for out in outs]


@pytest.mark.slow
def test_two_processes_come_to_what_one_does(tmp_path: Path) -> None:
    answer, again = two_processes(tmp_path / "two.json", tmp_path / "again.json")
    assert answer["size"] == answer["shared"] == 2
    for name in STAGES:
        found, expected = answer[name], json.loads(json.dumps(together(name, ALONE)))
        assert found["processes_apart"] == 0.0
        one, other = np.array(found["gradients"]), np.array(expected["gradients"])
        assert np.abs(one - other).max() / np.abs(other).max() < 1e-3
        assert found["best_s"] == expected["best_s"]
        assert len(found["figures"]) == 5
        for figures, those in zip(found["figures"], expected["figures"], strict=True):
            assert figures == pytest.approx(those, rel=1e-3)
    assert again == answer


def test_what_a_launcher_sets_has_to_be_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in (("RANK", "0"), ("MASTER_ADDR", "x"), ("MASTER_PORT", "29500")):
        monkeypatch.setenv(name, text)
    for text in ("two", "9" * 5000):
        monkeypatch.setenv("WORLD_SIZE", text)
        with (
            pytest.raises(UsageError, match="in the environment: expected a number from 1"),
            ranks_of_torchrun("cpu"),
        ):
            pass
    monkeypatch.setenv("WORLD_SIZE", "1")
    with ranks_of_torchrun("cpu") as (ranks, _):
        assert ranks.size == 1


def test_a_process_that_does_not_come_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dplace.policies.placeto.ranks.COME_S", 1.0)
    launched = {"RANK": "0", "WORLD_SIZE": "3", "MASTER_ADDR": "127.0.0.1"}
    for name, text in {**launched, "MASTER_PORT": str(free_port())}.items():
        monkeypatch.setenv(name, text)
    with (
        pytest.raises(DeviceLostError, match=r"^lost rank 1 of 3: it did not come within 1 s$"),
        ranks_of_torchrun("cpu"),
    ):
        pass
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("MASTER_PORT", str(free_port()))
    with (
        pytest.raises(DeviceLostError, match=r"^lost rank 0: nobody answers at 127\.0\.0\.1:"),
        ranks_of_torchrun("cpu"),
    ):
        pass


@pytest.mark.slow
def test_a_process_that_dies_ends_the_other_with_a_line(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "dplace", "-v", "pretrain", "ptb"]
    command += ["--members", "1", "--updates", "1000", "-o", str(tmp_path / "mine")]
    launched = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    processes = [
        subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **launched, "RANK": str(rank)},
        )
        for rank in range(2)
    ]
    first, second = processes
    try:
        assert first.stderr is not None
        while "step 2 of" not in first.stderr.readline():
            assert first.poll() is None
        second.kill()
        out, err = first.communicate(timeout=60)
    finally:
        for process in processes:
            process.kill()
            process.communicate()
    assert (first.returncode, out) == (4, "")
    (told,) = (line for line in err.splitlines() if line.startswith("dplace: error: "))
    assert told.startswith("dplace: error: lost another process of the training: its connection")
    assert "Traceback" not in err


def test_a_course_of_other_settings_is_another(whole: tuple[list[Step], torch.Tensor]) -> None:
    trials = Settings(updates=2)
    course = course_of(CourseSettings(trials=trials, seed=9))
    rest_of(course)
    assert not torch.equal(weights_of(course), whole[1])
