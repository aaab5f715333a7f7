"""Imports point one way, floor by floor, and what is slow to import is imported where it is used.

The sources are read, not run, so an import inside a function counts as well; the last test asks
a running interpreter.
"""

import ast
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("dplace", "commands", "graph_io", "policies", "profiles")

# Which floors a floor may import. "core" is dplace/ without the files that look up: __init__.py,
# __main__.py, and the roof, which is api.py with its wings api_*.py.
FLOORS_BELOW = {
    "core": {"core"},
    "graph_io": {"core", "graph_io"},
    "policies": {"core", "graph_io", "policies"},
    "profiles": {"core", "graph_io", "profiles"},
    "api": {"core", "graph_io", "policies", "profiles", "api"},
    "dplace": {"core", "api"},
    "commands": {"core", "api", "dplace", "commands"},
    "__main__": {"core", "commands"},
}

# Third parties that a folder may import at all; every other folder has to do without them. The
# longest folder that fits a file decides.
FOREIGN = ("dgl", "gymnasium", "numba", "onnx", "onnx_ir", "onnxruntime", "torch")
FOREIGN_ALLOWED = {
    "dplace": set[str](),
    "dplace/api.py": {"onnx"},  # a model in memory is one of the things that it takes
    "dplace/api_learn_models.py": {"onnx"},
    "dplace/api_model.py": {"onnx"},
    "dplace/api_profile.py": {"onnx"},
    "dplace/runtime": {"onnxruntime", "torch"},
    "dplace/simulator": {"numba"},
    "commands": {"dgl", "onnxruntime", "torch"},
    "graph_io": {"onnx", "onnx_ir", "onnxruntime"},
    "graph_io/to_dgl.py": {"onnx", "onnx_ir", "dgl"},
    "policies": {"dgl", "torch"},
    "policies/placeto": {"dgl", "torch"},
    "policies/rnn": {"torch"},
    "policies/placeto/environment.py": {"gymnasium"},
    "profiles": {"onnx", "onnx_ir", "onnxruntime"},
}

# Slow to import, so at the top of a module only where the whole folder is about it.
SLOW = ("dgl", "numba", "onnxruntime", "torch")
SLOW_AT_TOP = {
    ("dplace/simulator", "numba"),
    ("dplace/runtime", "onnxruntime"),
    ("dplace/runtime/ranks", "torch"),
    ("policies/placeto", "dgl"),
    ("policies/placeto", "torch"),
    ("policies/rnn", "torch"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Import:
    """One import statement of a source file."""

    file: str
    line: int
    module: str
    """The dotted name that is imported; of ``from a import b``, ``a.b`` if that is a module."""
    is_at_top: bool
    """Whether it runs when the file is imported; false inside functions and TYPE_CHECKING."""

    def __str__(self) -> str:
        return f"{self.file}:{self.line} imports {self.module}"


def module_of(file: str) -> str:
    """Return the dotted name of a source file.

    For ``graph_io/read.py`` it is ``dplace.graph_io.read``.
    """
    parts = Path(file).with_suffix("").parts
    if parts[0] != "dplace":
        parts = ("dplace", *parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = sorted(
    path.relative_to(ROOT).as_posix()
    for folder in FOLDERS
    for path in (ROOT / folder).rglob("*.py")
)
MODULES = {module_of(file) for file in FILES}


def floor_of(module: str) -> str:
    """Return the floor of a module of dplace."""
    parts = module.split(".")
    if len(parts) == 1:
        return "dplace"
    if parts[1].startswith("api_"):
        return "api"
    return parts[1] if parts[1] in FLOORS_BELOW and parts[1] != "core" else "core"


def is_type_checking(node: ast.AST) -> bool:
    """Return whether a statement is ``if TYPE_CHECKING:``."""
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def imported(node: ast.AST, package: str) -> list[str]:
    """Return the modules that one syntax node imports; ``package`` resolves relative ones."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        base = node.module or ""
        if node.level:
            parents = package.split(".")[: len(package.split(".")) - node.level + 1]
            base = ".".join((*parents, base)).rstrip(".")
        names = [f"{base}.{alias.name}" for alias in node.names]
        return [name if name in MODULES else base for name in names]
    if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
        return [
            argument.value
            for argument in node.args[:1]
            if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
        ]
    return []


def read_imports(file: str, source: str) -> Iterator[Import]:
    """Yield every import of a source text, wherever it stands."""
    module = module_of(file)
    package = module if file.endswith("__init__.py") else module.rpartition(".")[0]

    def walk(node: ast.AST, is_at_top: bool) -> Iterator[Import]:
        for name in imported(node, package):
            yield Import(
                file=file, line=getattr(node, "lineno", 0), module=name, is_at_top=is_at_top
            )
        deferred = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
        is_below_top = is_at_top and not isinstance(node, deferred) and not is_type_checking(node)
        for child in ast.iter_child_nodes(node):
            yield from walk(child, is_below_top)

    yield from walk(ast.parse(source), True)


def allowed_foreign(file: str) -> set[str]:
    """Return the third parties that a file may import at all."""
    folders = [
        folder
        for folder in FOREIGN_ALLOWED
        if file == folder or file.startswith(folder.rstrip("/") + "/")
    ]
    return FOREIGN_ALLOWED[max(folders, key=len)]


def faults(file: str, source: str) -> list[str]:
    """Return what is wrong with the imports of a source text, one sentence each."""
    found: list[str] = []
    floor = floor_of(module_of(file))
    for item in read_imports(file, source):
        top = item.module.split(".")[0]
        if top == "dplace" and floor_of(item.module) not in FLOORS_BELOW[floor]:
            found.append(f"{item}: {floor} may not import {floor_of(item.module)}")
        if top in FOREIGN and top not in allowed_foreign(file):
            found.append(f"{item}: not in this folder")
        is_home = any(file.startswith(home + "/") and top == name for home, name in SLOW_AT_TOP)
        if top in SLOW and item.is_at_top and not is_home:
            found.append(f"{item}: slow, import it in the function that uses it")
    return found


@pytest.mark.parametrize("file", FILES)
def test_imports_point_down(file: str) -> None:
    assert faults(file, (ROOT / file).read_text()) == []


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("dplace/cluster.py", "from dplace import graph_io"),
        ("dplace/cluster.py", "from dplace.api import place"),
        ("dplace/cluster.py", "import dplace"),
        ("dplace/lowering.py", "import onnx"),
        ("dplace/plan/write.py", "def f(x):\n    import onnx_ir as ir"),
        ("dplace/schedule/fifo.py", "import numba"),
        ("dplace/simulator/loop.py", "import torch"),
        ("dplace/plan/write.py", "from ..api import place"),
        ("graph_io/read.py", "from dplace.policies.policy import Policy"),
        ("graph_io/read.py", "def f():\n    import torch"),
        ("graph_io/optimise.py", "import onnxruntime"),
        ("policies/heft.py", "def f():\n    from dplace.commands import app"),
        ("policies/heft.py", "import importlib\nimportlib.import_module('dplace.commands.app')"),
        ("policies/heft.py", "class Net:\n    import torch"),
        ("policies/heft.py", "from dplace.profiles import roofline"),
        ("profiles/roofline.py", "def f():\n    import numba"),
        ("commands/place.py", "from dplace.graph_io.read import read"),
        ("dplace/api_graph.py", "from dplace.commands.app import app"),
        ("commands/place.py", "try:\n    import torch\nexcept ImportError:\n    pass"),
    ],
)
def test_a_wrong_import_is_found(file: str, source: str) -> None:
    assert len(faults(file, source)) >= 1


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("dplace/__init__.py", "def __getattr__(name):\n    import dplace.api"),
        ("dplace/__main__.py", "def main():\n    from dplace.commands.app import app"),
        ("dplace/api.py", "from dplace.policies.policy import Policy\nimport numpy"),
        ("dplace/simulator/loop.py", "import numba\nfrom dplace.op_graph import OpGraph"),
        ("dplace/api_graph.py", "from dplace.policies.policy import Policy"),
        ("dplace/runtime/session.py", "import onnxruntime"),
        ("dplace/runtime/transport.py", "def f():\n    import torch.distributed"),
        ("graph_io/read.py", "import onnx_ir as ir\nfrom dplace.errors import DplaceError"),
        ("graph_io/optimise.py", "def f():\n    import onnxruntime"),
        ("policies/placeto/network.py", "import dgl\nimport torch"),
        (
            "policies/mars.py",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import torch",
        ),
        (
            "commands/place.py",
            "from dplace.api import place\nfrom dplace.errors import DplaceError",
        ),
    ],
)
def test_a_right_import_is_let_through(file: str, source: str) -> None:
    assert faults(file, source) == []


def test_the_command_line_starts_without_what_is_slow() -> None:
    program = f"import sys, dplace.commands.app\nprint(sorted({set(SLOW)!r} & set(sys.modules)))"
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"
