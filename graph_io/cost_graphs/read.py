"""A cost graph from a path or from standard input; the format is told by the content."""

import io
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from dplace.errors import InputError, UsageError
from dplace.graph_io.cost_graphs.cost_graph import CostGraph
from dplace.graph_io.cost_graphs.dnn_partitioning import read_dnn_partitioning
from dplace.graph_io.cost_graphs.doppler import looks_like_doppler, read_doppler
from dplace.graph_io.cost_graphs.moirai import looks_like_excel, read_moirai
from dplace.graph_io.cost_graphs.own_json import read_own_json
from dplace.graph_io.cost_graphs.pipedream import looks_like_pipedream, read_pipedream

__all__ = ["FORMATS", "is_cost_graph", "read_cost_graph"]

FORMATS = (
    "dnn-partitioning",
    "doppler",
    "dplace",
    "moirai",
    "pipedream",
    "pipedream-training",
)
"""Every format by the name that ``--format`` takes; the last adds backward to forward times."""

_HEAD_BYTES = 4096

_TEXT: dict[str, Callable[[str, str, str], CostGraph]] = {
    "doppler": read_doppler,
    "pipedream": read_pipedream,
    "pipedream-training": lambda text, source, name: read_pipedream(
        text, source, name, training=True
    ),
}
_JSON: dict[str, Callable[[Mapping[str, object], str, str], CostGraph]] = {
    "dnn-partitioning": read_dnn_partitioning,
    "dplace": read_own_json,
}


def is_cost_graph(source: str | Path) -> bool:
    """Return whether what a path or standard input (``-``) holds begins as a cost graph does.

    Looks at the first bytes only, which no ONNX model shares. What cannot be read is none.
    """
    if str(source) == "-":
        return _guess(_peek_stdin()) is not None
    try:
        with Path(source).open("rb") as file:
            return _guess(file.read(_HEAD_BYTES)) is not None
    except OSError:
        return False


def read_cost_graph(source: str | Path, format: str | None = None) -> CostGraph:
    """Read and check a cost graph.

    Args:
        source: A path, or ``-`` for standard input.
        format: A name in ``FORMATS``; None tells it by the content.

    Raises:
        UsageError: There is no such format.
        InputError: The file cannot be read, or is wrong; the message names what.
    """
    if format is not None and format not in FORMATS:
        raise UsageError(f"--format {format}: expected one of {', '.join(FORMATS)}")
    label = "standard input" if str(source) == "-" else str(source)
    name = "stdin" if str(source) == "-" else Path(source).stem
    content = _content(source, label)
    if not content.strip():
        raise InputError(f"{label}: expected a cost graph, got an empty file")
    kind = format or _guess(content)
    if kind is None:
        raise InputError(
            f"{label}: not a cost graph in any format that is known ({', '.join(FORMATS)})"
        )
    if kind == "moirai":
        return read_moirai(content, label, name)
    text = _decoded(content, label)
    if kind in _TEXT:
        return _TEXT[kind](text, label, name)
    parsed = _parsed(text, label)
    return _JSON[format or _json_format(parsed, label)](parsed, label, name)


def _guess(content: bytes) -> str | None:
    """Return the format that a file begins as; ``json`` for those that are JSON."""
    if looks_like_excel(content):
        return "moirai"
    text = content.removeprefix(b"\xef\xbb\xbf").lstrip()[:_HEAD_BYTES].decode("utf-8", "replace")
    if text.startswith("{"):
        return "json"
    if looks_like_pipedream(text):
        return "pipedream"
    return "doppler" if looks_like_doppler(text) else None


def _json_format(parsed: Mapping[str, object], label: str) -> str:
    if "nodes" in parsed and "maxFPGAs" in parsed:
        return "dnn-partitioning"
    if "ops" in parsed or "format" in parsed:
        return "dplace"
    fields = ", ".join(list(parsed)[:5]) or "none"
    raise InputError(
        f"{label}: expected the fields of dplace's cost graphs (format, ops, values) or of "
        f"dnn-partitioning's (maxFPGAs, nodes, edges), got {fields}"
    )


def _content(source: str | Path, label: str) -> bytes:
    if str(source) == "-":
        return sys.stdin.buffer.read()
    path = Path(source)
    if path.is_dir():
        raise InputError(f"{label}: expected a file, got a folder")
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise InputError(f"{label}: there is no such file") from error
    except OSError as error:
        raise InputError(f"{label}: cannot be read: {error.strerror}") from error


def _peek_stdin() -> bytes:
    """Return how standard input begins, and leave it there to be read."""
    stream = getattr(sys.stdin, "buffer", None)
    if isinstance(stream, io.BufferedReader):
        return stream.peek(_HEAD_BYTES)[:_HEAD_BYTES]
    if isinstance(stream, io.BytesIO):
        return stream.getvalue()[stream.tell() :][:_HEAD_BYTES]
    return b""


def _decoded(content: bytes, label: str) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{label}: expected text in UTF-8, got other bytes") from error


def _parsed(text: str, label: str) -> Mapping[str, object]:
    try:
        parsed = json.loads(text)
    except json.JSONDecodeError as error:
        raise InputError(
            f"{label}: not JSON, or truncated: {error.msg} in line {error.lineno}, "
            f"column {error.colno}"
        ) from error
    except (RecursionError, ValueError) as error:
        raise InputError(
            f"{label}: not JSON that can be read: nested or written wrongly"
        ) from error
    if not isinstance(parsed, dict):
        raise InputError(f"{label}: expected a JSON object")
    return parsed
