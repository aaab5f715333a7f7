"""Files stay small, packages say what they are, and ARCHITECTURE.md names what exists."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("dplace", "commands", "graph_io", "policies", "profiles")
MAX_LINES = 400

SOURCES = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
PACKAGES = [path for path in SOURCES if path.name == "__init__.py"]
DOCUMENT = ROOT / "ARCHITECTURE.md"


def name(path: Path) -> str:
    """Return the path as it is written in messages."""
    return path.relative_to(ROOT).as_posix()


def test_no_file_is_longer_than_a_reader_can_hold() -> None:
    lengths = {name(path): len(path.read_text().splitlines()) for path in SOURCES + TESTS}
    assert {file: lines for file, lines in lengths.items() if lines > MAX_LINES} == {}


@pytest.mark.parametrize("path", PACKAGES, ids=name)
def test_package_says_what_is_here_and_what_is_public(path: Path) -> None:
    tree = ast.parse(path.read_text())
    assert ast.get_docstring(tree)
    targets = [
        target.id
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name)
    ]
    assert "__all__" in targets


def named_files(text: str) -> list[str]:
    """Return the paths that stand in backquotes: a known ending, or a closing slash."""
    spans = re.findall(r"`([\w./-]+)`", text)
    paths = [span for span in spans if re.search(r"/$|\.(py|toml|md|ya?ml|txt)$", span)]
    # plan/ is what a command writes; no such folder stands in the repository.
    return [path for path in paths if not path.startswith("plan/")]


def test_a_named_file_is_recognised() -> None:
    text = "`dplace/api.py` and `tests/`, `dplace place`, `plan/plan.yaml`, `N/A`"
    assert named_files(text) == ["dplace/api.py", "tests/"]


def test_architecture_names_only_files_that_exist() -> None:
    known = {name(path) for folder in FOLDERS for path in (ROOT / folder).rglob("*")}
    missing = [
        path
        for path in named_files(DOCUMENT.read_text())
        if not (ROOT / path).exists()
        and not any(file.endswith("/" + path.rstrip("/")) for file in known)
    ]
    assert missing == []
