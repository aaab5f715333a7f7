"""Writes docs/results/placeto.md: tables and plots of what the other placeto benchmarks measured.

Their JSON files are read, and the text of docs/results/placeto-text.md comes before the tables that
it names in lines such as ``<!-- zero-shot -->``. Needs the extra ``plots``. Run it as:

    python -m benchmarks.placeto_page --zero zero-*.json --ablations ablations.json
"""

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from statistics import mean
from typing import Any

import matplotlib

from benchmarks.pages import table
from benchmarks.placeto_worlds import QUICK

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "results"
Rows = list[dict[str, Any]]

SHOWN = {
    "zero": (
        *("member", "cluster", "ops", "groups", "bound", "metis", "heft", "m-etf", "m-sct"),
        *("greedy", "episode", "episodes", "from-single", "evaluations", "search", "search-large"),
        "over-best",
    ),
    "all": ("member",),
    "rivals": (
        *("member", "seed", "zero-shot", "optimised", "published", "rnn", "rnn-evaluations"),
        *("samples-zero-shot", "samples-optimised", "samples-published", "rnn-zero"),
    ),
    "ablations": ("family", "variant", "test", "spread", "loss", "order"),
    "seeds": ("family", "cluster", "seed 0", "seed 1", "seed 2", "mean", "spread", "worst member"),
    "orders": ("member", "cluster", "policy", "rnn"),
    "start": ("member", "cluster", "plain_ms", "policy_evaluations", "needed"),
}


def main() -> None:
    """Write the page and its plots."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    for name in SHOWN:
        parser.add_argument(f"--{name}", type=Path, nargs="*", default=[])
    options = parser.parse_args()
    text = (FOLDER / "placeto-text.md").read_text()
    for name, columns in SHOWN.items():
        rows = [
            row for file in getattr(options, name) for row in json.loads(file.read_text())["rows"]
        ]
        if rows:
            text = text.replace(f"<!-- {name} -->", table(rows, columns))
            for part, filled in PARTS.get(name, {}).items():
                text = text.replace(f"<!-- {part} -->", filled(rows))
        if name == "zero" and rows:
            plot(rows, FOLDER / "placeto-zero-shot.png")
    (FOLDER / "placeto.md").write_text(text)


def by_family(rows: Rows) -> str:
    """Return the means over each family's members, over the best of the quick policies."""
    names = ("greedy", "episode", "episodes", "from-single", "search", "search-large")
    found = []
    for family, cluster in dict.fromkeys((row["family"], row["cluster"]) for row in rows):
        own = [row for row in rows if (row["family"], row["cluster"]) == (family, cluster)]
        best = [min(1.0, *(row[name] for name in QUICK[1:])) for row in own]
        found.append(
            {"family": family, "cluster": cluster, "members": len(own)}
            | {"bound": mean(row["bound"] / b for row, b in zip(own, best, strict=True))}
            | {
                name: mean(row[name] / b for row, b in zip(own, best, strict=True))
                for name in names
            }
        )
    return table(found, list(found[0]))


PARTS: dict[str, dict[str, Callable[[Rows], str]]] = {
    "zero": {"zero-by-family": by_family},
    "all": {"all-by-family": by_family},
}


def plot(rows: Rows, path: Path) -> None:
    """Draw what each method comes to on each member, in the time of one device."""
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    kinds = list(dict.fromkeys((row["family"], row["cluster"]) for row in rows))
    figure, axes = plt.subplots(
        1, len(kinds), figsize=(3.0 * len(kinds), 3.6), sharey=True, squeeze=False
    )
    marks = {"heft": "v", "m-etf": "^", "greedy": "x", "episodes": "o", "search-large": "s"}
    for axis, kind in zip(axes[0], kinds, strict=True):
        own = [row for row in rows if (row["family"], row["cluster"]) == kind]
        own.sort(key=lambda row: row["episodes"])
        places = range(len(own))
        axis.bar(places, [row["bound"] for row in own], color="0.88", label="lower bound")
        for name, mark in marks.items():
            axis.plot(places, [row[name] for row in own], mark, label=name, markersize=5)
        axis.set_title(f"{kind[0]}, {kind[1]}", fontsize=10)
        axis.set_xticks(list(places), [row["member"][-3:] for row in own], fontsize=7, rotation=90)
        axis.set_ylim(0, 1)
    axes[0][0].set_ylabel("run time, one device = 1")
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=len(labels), fontsize=8, frameon=False)
    figure.tight_layout(rect=(0, 0.07, 1, 1))
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    main()
