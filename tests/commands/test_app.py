"""The whole command line: help, exit codes, and what goes to which stream."""

import errno
import logging
import os
import re
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import NoReturn

import pytest

from dplace.commands.app import app
from dplace.errors import (
    ClusterError,
    DeviceLostError,
    MemoryLimitError,
    ModelError,
    PlanError,
    UsageError,
)
from tests.commands.conftest import Dplace
from tests.report.plans import placed

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
COMMANDS = [command.name or "" for command in app.registered_commands]

HEAVY = ("dgl", "numba", "numpy", "onnx", "onnx_ir", "onnxruntime", "rich", "torch", "yaml")
PROGRAM = "from dplace.commands.app import main; main()"
PLACE = ("place", "m.onnx", "--cluster", "2xCPU")


def raising(error: BaseException) -> Callable[..., NoReturn]:
    """Return a function that raises the error, whatever it is called with."""

    def fail(*_: object, **__: object) -> NoReturn:
        raise error

    return fail


def test_the_commands_stand_in_the_order_of_the_road() -> None:
    road = ("place", "run", "simulate", "compare", "profile")
    learning = ("pretrain", "finetune", "policies")
    assert tuple(COMMANDS) == (*road, *learning, "inspect", "generate", "doctor")


@pytest.mark.parametrize("name", COMMANDS)
def test_help_says_what_a_command_does_and_gives_an_example(dplace: Dplace, name: str) -> None:
    result = dplace(name, "--help")
    assert result.code == 0
    assert re.search(rf"^  Example: dplace {name}\b", result.out, re.MULTILINE)
    assert result.err == ""


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_has_help(dplace: Dplace, name: str) -> None:
    lines = dplace(name, "-h").out.splitlines()
    bare = [
        line
        for line, after in zip(lines, [*lines[1:], ""], strict=True)
        if re.match(r"^  -\S+( [^ ]+)*$", line) and not after.startswith(" " * 10)
    ]
    assert bare == []


@pytest.mark.parametrize("name", COMMANDS)
def test_the_readme_shows_every_command(name: str) -> None:
    assert re.search(rf"dplace {name}\b", README)


def test_help_fits_a_terminal_and_names_every_command(dplace: Dplace) -> None:
    result = dplace("--help")
    assert max(map(len, result.out.splitlines())) <= 80
    assert all(re.search(rf"^  {name} ", result.out, re.MULTILINE) for name in COMMANDS)


def test_help_imports_nothing_slow() -> None:
    program = (
        "import sys\n"
        "from dplace.commands.app import main\n"
        "try:\n    main()\n"
        f"finally:\n    print(sorted(set({HEAVY!r}) & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "--help"], capture_output=True, text=True, check=True
    )
    assert done.stderr == "[]\n"


def test_version(dplace: Dplace) -> None:
    assert dplace("--version").out == f"dplace {version('dplace')}\n"


def test_without_a_command_there_is_help_on_standard_error_or_output(dplace: Dplace) -> None:
    result = dplace()
    assert "Usage: dplace" in result.out + result.err
    assert result.code in (0, 2)


@pytest.mark.parametrize(
    "arguments",
    [
        ("fly",),
        ("place",),
        ("place", "m.onnx"),
        (*PLACE, "--speed", "9"),
        (*PLACE, "--optimize", "much"),
        (*PLACE, "--opt-level", "3"),
        (*PLACE, "--objective", "beauty"),
        (*PLACE, "--evaluations", "0"),
        (*PLACE, "--seed", "-1"),
        (*PLACE, "--dim", "batch"),
        (*PLACE, "--dim", "batch=many"),
        (*PLACE, "--pin", "conv"),
    ],
)
def test_wrong_usage_ends_with_2(dplace: Dplace, api: ModuleType, arguments: tuple[str]) -> None:
    result = dplace(*arguments)
    assert result.code == 2
    assert result.out == ""
    assert "rror: " in result.err.splitlines()[-1]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ModelError("m.onnx: not an ONNX model"), 1),
        (ClusterError("cluster 0xCPU: expected at least one device, got none"), 1),
        (PlanError("plan: plan.yaml is missing"), 1),
        (UsageError("--a and --b do not go together"), 2),
        (MemoryLimitError("cpu:0: 3 GB are missing"), 3),
        (DeviceLostError("gpu:1: lost"), 4),
    ],
)
def test_an_error_is_one_line_and_its_exit_code(
    dplace: Dplace, api: ModuleType, error: Exception, code: int
) -> None:
    api.place = raising(error)  # type: ignore[attr-defined]
    result = dplace(*PLACE)
    assert result.code == code
    assert result.out == ""
    assert result.err == f"dplace: error: {error}\n"


def test_an_error_stays_one_line_whatever_names_are_in_it(dplace: Dplace, api: ModuleType) -> None:
    api.place = raising(ModelError("op \x1b[31m\n\udc80: no"))  # type: ignore[attr-defined]
    assert dplace(*PLACE).err == "dplace: error: op \\x1b[31m \\udc80: no\n"


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (OSError(errno.ENOSPC, "No space left on device", "plan/parts/a.onnx"), None),
        (PermissionError(errno.EACCES, "Permission denied", "m.onnx"), None),
        (OSError(errno.EROFS, "Read-only file system", "plan"), None),
        (OSError(errno.ENOSPC, "No space left on device"), "No space left on device"),
        (
            OSError(errno.ENOTEMPTY, "Directory not empty", "a", None, "b"),
            "a -> b: Directory not empty",
        ),
    ],
)
def test_what_the_file_system_says_is_one_line_with_the_file(
    dplace: Dplace, api: ModuleType, error: OSError, line: str | None
) -> None:
    api.place = raising(error)  # type: ignore[attr-defined]
    result = dplace(*PLACE)
    assert result.code == 1
    assert result.err == f"dplace: error: {line or f'{error.filename}: {error.strerror}'}\n"


@pytest.mark.parametrize("error", [KeyError("bug"), OSError(errno.ECONNREFUSED, "refused")])
def test_a_bug_keeps_its_traceback(dplace: Dplace, api: ModuleType, error: Exception) -> None:
    api.place = raising(error)  # type: ignore[attr-defined]
    with pytest.raises(type(error)):
        dplace(*PLACE)


def test_an_interrupt_is_one_line_and_130(dplace: Dplace, api: ModuleType) -> None:
    api.place = raising(KeyboardInterrupt())  # type: ignore[attr-defined]
    result = dplace(*PLACE)
    assert (result.code, result.out, result.err) == (130, "", "dplace: interrupted\n")


@pytest.mark.parametrize(
    ("arguments", "lines"), [((), ["warning"]), (("-v",), ["info", "warning"])]
)
def test_log_lines_go_to_standard_error(
    dplace: Dplace, api: ModuleType, arguments: tuple[str, ...], lines: list[str]
) -> None:
    def place(*_: object, **__: object) -> object:
        logger = logging.getLogger("dplace.graph_io.read")
        logger.info("reading m.onnx")
        logger.warning("batch is taken as 1")
        return placed(warnings=())

    api.place = place  # type: ignore[attr-defined]
    result = dplace(*arguments, *PLACE, "--json")
    shown = {"info": "reading m.onnx", "warning": "batch is taken as 1"}
    assert result.err == "".join(f"dplace: {level}: {shown[level]}\n" for level in lines)
    assert result.out.startswith("{")
    assert result.out.endswith("}\n")
    assert len(result.out.splitlines()) == 1


def test_a_reader_that_left_is_no_fault() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, "--version"],
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")


def test_a_standard_output_that_takes_no_more_is_one_line(tmp_path: Path) -> None:
    limited = f"ulimit -f 0; exec '{sys.executable}' -c '{PROGRAM}' --version"
    with (tmp_path / "out").open("w") as out:
        done = subprocess.run(
            ["sh", "-c", limited], stdout=out, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 1
    assert done.stderr == "dplace: error: standard output: File too large\n"


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-"])
def test_a_stream_that_the_caller_closed_is_no_fault(closed: str) -> None:
    command = f"'{sys.executable}' -c '{PROGRAM}' --version {closed}"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_terminal_that_knows_ascii_only_gets_names_escaped() -> None:
    program = f"import sys; sys.argv[1:] = ['place', 'größe.onnx', '--cluster', 'größe']\n{PROGRAM}"
    fake = (
        "import sys, types\n"
        "import dplace.errors as errors\n"
        "def place(model, **_): raise errors.ModelError(f'{model}: bad')\n"
        "fake = types.ModuleType('dplace.api'); fake.place = place\n"
        "import dplace; dplace.api = fake; sys.modules['dplace.api'] = fake\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", fake + program],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONIOENCODING": "ascii"},
    )
    assert (done.returncode, done.stderr) == (1, "dplace: error: gr\\xf6\\xdfe.onnx: bad\n")
