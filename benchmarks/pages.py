"""What pages of results share: rows of figures as Markdown."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

__all__ = ["table"]


def table(rows: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> str:
    """Return rows as a Markdown table of the columns that some row has."""
    rows = list(rows)
    kept = [name for name in columns if any(name in row for row in rows)]
    lines = ["| " + " | ".join(kept) + " |", "|" + "---|" * len(kept)]
    lines += ["| " + " | ".join(shown(row.get(name)) for name in kept) + " |" for row in rows]
    return "\n".join(lines)


def shown(value: Any) -> str:
    """Return a cell."""
    if isinstance(value, float):
        return f"{value:.0f}" if value.is_integer() and abs(value) >= 10 else f"{value:.3f}"
    return "" if value is None else str(value)
