"""Files appear whole or not at all, and devices and pipes are not files."""

import os
import stat
import threading
from pathlib import Path

import pytest

from dplace.new_file import new_file


def test_a_file_is_replaced_when_the_new_one_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("old")
    with new_file(path) as file:
        file.write(b"new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert [file.name for file in tmp_path.iterdir()] == ["a"]


def test_nothing_is_left_of_a_file_that_fails(tmp_path: Path) -> None:
    path = tmp_path / "a"

    def fail() -> None:
        with new_file(path) as file:
            file.write(b"half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert list(tmp_path.iterdir()) == []


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")
    with new_file(tmp_path / "link") as file:
        file.write(b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"


def test_a_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    # As root, renaming over /dev/null would put an end to it for the whole machine.
    path = tmp_path / "pipe"
    os.mkfifo(path)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(path.read_bytes()))
    reader.start()
    with new_file(path) as file:
        file.write(b"new")
    reader.join(timeout=30)
    assert read == [b"new"]
    assert stat.S_ISFIFO(path.stat().st_mode)


@pytest.mark.parametrize("umask", [0o022, 0o077])
def test_a_new_file_has_the_permissions_of_any_new_file(tmp_path: Path, umask: int) -> None:
    old = os.umask(umask)
    try:
        with new_file(tmp_path / "a") as file:
            file.write(b"")
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o666 & ~umask
