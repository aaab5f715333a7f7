"""The command line, run in this process with a library that does nothing of its own."""

import importlib.util
import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest

from dplace.commands.app import main


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """How a command ended."""

    code: int
    out: str
    err: str


API = Path(__file__).parents[2] / "dplace" / "api.py"

Dplace = Callable[..., Result]


@pytest.fixture
def dplace(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Dplace:
    """Return a function that runs ``dplace`` with the arguments it is given."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("FORCE_COLOR", raising=False)

    def run(*arguments: str) -> Result:
        monkeypatch.setattr(sys, "argv", ["dplace", *arguments])
        with pytest.raises(SystemExit) as leave:
            main()
        captured = capsys.readouterr()
        assert isinstance(leave.value.code, int)
        return Result(code=leave.value.code, out=captured.out, err=captured.err)

    return run


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return an empty module that stands in for ``dplace.api``: tests put functions into it."""
    fake = ModuleType("dplace.api")
    monkeypatch.setitem(sys.modules, "dplace.api", fake)
    monkeypatch.setattr("dplace.api", fake, raising=False)
    return fake


@pytest.fixture(scope="session")
def real_api() -> ModuleType:
    """Return the library itself, beside the module that stands in for it."""
    spec = importlib.util.spec_from_file_location("real_api", API)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@dataclass(frozen=True, slots=True)
class Recorder:
    """A function that notes how it is called, and checks that the library could be called so."""

    real: Callable[..., object] | None
    """None where the library has no such function; mypy is the one to complain."""
    answer: object
    calls: list[tuple[tuple[object, ...], dict[str, object]]]

    def __call__(self, *arguments: object, **keywords: object) -> object:
        if self.real is not None:
            inspect.signature(self.real).bind(*arguments, **keywords)
        self.calls.append((arguments, keywords))
        return self.answer


Record = Callable[[str, object], Recorder]


@pytest.fixture
def record(api: ModuleType, real_api: ModuleType) -> Record:
    """Return a function that puts a recorder with an answer in the place of one of the library."""

    def put(name: str, answer: object) -> Recorder:
        recorder = Recorder(getattr(real_api, name, None), answer, [])
        setattr(api, name, recorder)
        return recorder

    return put
