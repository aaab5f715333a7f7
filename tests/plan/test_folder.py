"""A plan folder appears whole or not at all."""

from pathlib import Path

import pytest

from dplace.errors import PlanError
from dplace.plan.folder import (
    PLACEMENT_FILE,
    PLAN_FILE,
    TIMELINE_FILE,
    check_target,
    new_folder,
)


def listing(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


def fill(out: Path, text: str) -> None:
    with new_folder(out) as work:
        (work / PLAN_FILE).write_text(text)


def fill_half(out: Path, error: BaseException) -> None:
    with new_folder(out) as work:
        (work / "half").touch()
        raise error


def test_a_folder_is_made_with_its_parents(tmp_path: Path) -> None:
    fill(tmp_path / "a" / "b", "one")
    assert listing(tmp_path) == ["a", "a/b", "a/b/plan.yaml"]


def test_an_old_plan_is_replaced_whole(tmp_path: Path) -> None:
    fill(tmp_path / "plan", "one")
    (tmp_path / "plan" / "old-part").touch()
    fill(tmp_path / "plan", "two")
    assert listing(tmp_path) == ["plan", "plan/plan.yaml"]
    assert (tmp_path / "plan" / PLAN_FILE).read_text() == "two"


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, OSError])
def test_a_failure_leaves_nothing_and_keeps_the_old(
    tmp_path: Path, error: type[BaseException]
) -> None:
    fill(tmp_path / "plan", "one")
    expected = PlanError if error is OSError else error
    for out in (tmp_path / "plan", tmp_path / "new" / "deep"):
        with pytest.raises(expected):
            fill_half(out, error("stop"))
    assert listing(tmp_path) == ["plan", "plan/plan.yaml"]


def test_what_is_no_plan_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "photo").touch()
    with pytest.raises(PlanError, match="exists and is not a plan"):
        check_target(tmp_path)
    with pytest.raises(PlanError, match="got a file"):
        check_target(tmp_path / "photo")
    with pytest.raises(PlanError, match="is not a folder"):
        check_target(tmp_path / "photo" / "plan")
    assert listing(tmp_path) == ["photo"]


def test_an_empty_folder_may_become_a_plan(tmp_path: Path) -> None:
    (tmp_path / "plan").mkdir()
    fill(tmp_path / "plan", "one")
    assert listing(tmp_path) == ["plan", "plan/plan.yaml"]


def test_a_link_to_a_plan_stays_a_link(tmp_path: Path) -> None:
    fill(tmp_path / "real", "one")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    fill(tmp_path / "link", "two")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real" / PLAN_FILE).read_text() == "two"


def test_the_answer_for_a_cost_graph_may_be_replaced(tmp_path: Path) -> None:
    for name in (PLACEMENT_FILE, TIMELINE_FILE):
        (tmp_path / name).touch()
    check_target(tmp_path)
    (tmp_path / "photo").touch()
    with pytest.raises(PlanError, match="exists and is not a plan"):
        check_target(tmp_path)
