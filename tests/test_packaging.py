"""The layout: what pyproject.toml declares is what the folders hold."""

import doctest
import importlib
import importlib.metadata
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SETUPTOOLS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
FOLDERS: dict[str, str] = SETUPTOOLS["package-dir"]


def packages_on_disk() -> set[str]:
    """Return the dotted name of every folder with an ``__init__.py``."""
    found: set[str] = set()
    for package, folder in FOLDERS.items():
        for init in (ROOT / folder).rglob("__init__.py"):
            tail = init.parent.relative_to(ROOT / folder).parts
            found.add(".".join((package, *tail)))
    return found


def modules_on_disk() -> list[str]:
    """Return the dotted name of every module, packages left out."""
    found: list[str] = []
    for package, folder in FOLDERS.items():
        for path in (ROOT / folder).rglob("*.py"):
            if path.name not in ("__init__.py", "__main__.py"):
                tail = path.relative_to(ROOT / folder).with_suffix("").parts
                found.append(".".join((package, *tail)))
    return sorted(found)


def test_every_package_is_declared() -> None:
    assert set(SETUPTOOLS["packages"]) == packages_on_disk()


def test_every_folder_with_modules_is_a_package() -> None:
    folders = {path.parent for folder in FOLDERS.values() for path in (ROOT / folder).rglob("*.py")}
    assert [folder for folder in sorted(folders) if not (folder / "__init__.py").exists()] == []


def test_every_data_file_is_declared() -> None:
    declared: dict[str, list[str]] = SETUPTOOLS["package-data"]
    missing: list[str] = []
    for package, folder in FOLDERS.items():
        for path in (ROOT / folder).rglob("*"):
            if path.suffix == ".py" or path.is_dir() or "__pycache__" in path.parts:
                continue
            tail = path.parent.relative_to(ROOT / folder).parts
            patterns = declared.get(".".join((package, *tail)), [])
            if not any(path.match(pattern) for pattern in patterns):
                missing.append(str(path.relative_to(ROOT)))
    assert missing == []


def test_only_dplace_is_a_top_level_name() -> None:
    tops = importlib.metadata.packages_distributions()
    assert {name for name, owners in tops.items() if "dplace" in owners} == {"dplace"}


@pytest.mark.skipif(not (ROOT / ".typings").exists(), reason="an sdist carries no links")
@pytest.mark.parametrize("folder", sorted(set(FOLDERS.values()) - {"dplace"}))
def test_type_checkers_find_the_folder_through_its_link(folder: str) -> None:
    link = ROOT / ".typings" / "dplace" / folder
    assert link.resolve() == ROOT / folder


@pytest.mark.parametrize("name", modules_on_disk())
def test_doctests(name: str) -> None:
    module = importlib.import_module(name)
    assert doctest.testmod(module).failed == 0


def test_no_name_of_the_package_is_that_of_a_folder_or_file_in_it() -> None:
    # Importing dplace.NAME would put the module in the name's place.
    import dplace

    packages = {name.removeprefix("dplace.") for name in SETUPTOOLS["packages"]}
    files = {path.stem for path in (ROOT / "dplace").glob("*.py")}
    assert not set(dplace.__all__) & (packages | files)
