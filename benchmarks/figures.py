"""What every benchmark shares: one option, a table on standard output, a JSON file."""

import argparse
import json
import os
import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

__all__ = ["arguments", "report", "tell"]

PACKAGES = ("dplace", "onnx", "onnxruntime", "onnxruntime-gpu", "torch", "transformers")


def arguments(description: str, **choices: Any) -> argparse.Namespace:
    """Return the options of a benchmark: ``--json FILE`` and one for each default in ``choices``.

    A choice whose default is a tuple takes several values.
    """
    parser = argparse.ArgumentParser(description=description.strip().splitlines()[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures here")
    for name, default in choices.items():
        option = "--" + name.replace("_", "-")
        if isinstance(default, tuple):
            kind = type(default[0])
            parser.add_argument(option, nargs="+", type=kind, default=list(default))
        elif isinstance(default, bool):
            parser.add_argument(option, action="store_true", default=default)
        else:
            parser.add_argument(option, type=type(default), default=default)
    return parser.parse_args()


def tell(row: Mapping[str, Any]) -> None:
    """Print a row as soon as it is there, for who waits for the table."""
    print(
        {name: round(it, 3) if isinstance(it, float) else it for name, it in row.items()},
        flush=True,
    )


def report(
    title: str,
    rows: Sequence[Mapping[str, Any]],
    summary: Mapping[str, Any],
    file: Path | None,
    *,
    details: Sequence[Mapping[str, Any]] | None = None,
) -> None:
    """Print the rows as a table with the summary below it, and write both to ``file``.

    Args:
        details: Rows to write to the file in place of those that are printed.
    """
    print(title)
    columns = list(rows[0]) if rows else []
    cells = [[shown(row.get(column)) for column in columns] for row in rows]
    widths = [
        max(map(len, (name, *column)))
        for name, column in zip(columns, zip(*cells, strict=True), strict=True)
    ]
    for line in (columns, *cells):
        padded = [
            cell.ljust(width) if at == 0 else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        print("  ".join(padded).rstrip())
    for name, value in summary.items():
        print(f"{name}: {shown(value)}")
    if file is not None:
        content = {"title": title, "machine": machine(), "rows": details or rows}
        content["summary"] = summary
        file.write_text(json.dumps(content, indent=1, default=str) + "\n")


def shown(value: Any) -> str:
    """Return a cell of the table; floats get four digits."""
    if isinstance(value, float):
        return f"{value:.4g}"
    return "-" if value is None else str(value)


def machine() -> dict[str, str]:
    """Return what the figures depend on."""
    versions = {"python": platform.python_version(), "cores": str(os.cpu_count())}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return versions
