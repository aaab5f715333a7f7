"""Writes docs/results/transfers.md: what benchmarks over shaped links measured, and a plot.

The text of docs/results/transfers-text.md comes before the tables that it names in lines such as
``<!-- streaming -->``. Needs the extra ``plots``. Run it as:

    python -m benchmarks.transfers_page --streaming streaming.json --hosts two_hosts.json
"""

import argparse
import json
from pathlib import Path
from statistics import median
from typing import Any

import matplotlib

from benchmarks.pages import table
from benchmarks.streaming import summary

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "results"
Rows = list[dict[str, Any]]

STREAMING = (
    *("model", "rate", "Mbit/s", "weights, MB", "busy, ms", "transfer, ms", "bound, ms"),
    *("random, ms", "fifo", "tic", "tac", "tac predicted, ms", "gain", "spread"),
)
HOSTS = (
    *("model", "rate", "Mbit/s", "policy", "parts", "transfers", "crossing, MB"),
    *("one device, ms", "measured, ms", "predicted", "at speed"),
)


def main() -> None:
    """Write the page and its plot."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    for name in ("streaming", "hosts"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    options = parser.parse_args()
    streaming, hosts = (
        json.loads(file.read_text())["rows"] for file in (options.streaming, options.hosts)
    )
    text = (FOLDER / "transfers-text.md").read_text()
    found = [{"figure": name, "found": value} for name, value in summary(streaming).items()]
    for name, rows, columns in (
        ("summary", found, ("figure", "found")),
        ("streaming", [streaming_row(row) for row in streaming], STREAMING),
        ("hosts", [hosts_row(row) for row in hosts], HOSTS),
        ("errors", errors(hosts), ("", "median", "worst")),
    ):
        text = text.replace(f"<!-- {name} -->", table(rows, columns))
    (FOLDER / "transfers.md").write_text(text)
    plot(streaming, FOLDER / "transfers-streaming.png")


def streaming_row(row: dict[str, Any]) -> dict[str, Any]:
    """Return what is told of a model at a rate; orders over the bound."""
    return {
        "model": row["model"],
        "rate": row["rate"],
        "Mbit/s": round(row["mbit/s"]),
        "weights, MB": round(row["weights_mb"]),
        **{f"{name}, ms": round(row[name]) for name in ("busy", "transfer", "bound", "random")},
        **{order: row[f"{order} over bound"] for order in ("fifo", "tic", "tac")},
        "tac predicted, ms": round(row["tac predicted"]),
        "gain": f"{row['gain']:.0%}",
        "spread": f"{row['random spread']:.1%} / {row['tac spread']:.1%}",
    }


def hosts_row(row: dict[str, Any]) -> dict[str, Any]:
    """Return what is told of a plan; predictions with their errors."""
    return {
        **{name: row[name] for name in ("model", "rate", "policy", "parts", "transfers")},
        "Mbit/s": round(row["mbit/s"]),
        "crossing, MB": f"{row['crossing_mb']:.1f}",
        "one device, ms": round(row["one device"]),
        "measured, ms": round(row["measured"]),
        **{
            name: f"{row[name]:.0f} ({row[name] / row['measured'] - 1:+.0%})"
            for name in ("predicted", "at speed")
        },
    }


def errors(rows: Rows) -> Rows:
    """Return the errors of both predictions over all plans."""
    found = []
    for name in ("at speed", "predicted"):
        all_of = [abs(row[name] / row["measured"] - 1) for row in rows]
        found.append({"": name, "median": median(all_of), "worst": max(all_of)})
    return found


def plot(rows: Rows, path: Path) -> None:
    """Draw iteration times over the bound, a panel for each rate."""
    matplotlib.use("Agg")
    from matplotlib import pyplot

    models = list(dict.fromkeys(row["model"] for row in rows))
    rates = list(dict.fromkeys(row["rate"] for row in rows))
    figure, panels = pyplot.subplots(1, len(rates), figsize=(2.6 * len(rates), 3.2), sharey=True)
    for panel, rate in zip(panels, rates, strict=True):
        own = {row["model"]: row for row in rows if row["rate"] == rate}
        for at, (order, colour) in enumerate((("random", "0.6"), ("tic", "C1"), ("tac", "C0"))):
            places = [models.index(name) + 0.27 * (at - 1) for name in own]
            heights = [row[f"{order} over bound"] for row in own.values()]
            panel.bar(places, heights, 0.25, color=colour, label=order)
        panel.axhline(1.0, color="black", linewidth=0.8)
        is_ratio = ":" in rate
        panel.set_title(
            f"compute {rate} transfer" if is_ratio else f"{float(rate) / 1e6:.0f} Mbit/s"
        )
        panel.set_xticks(range(len(models)), models, rotation=60, ha="right")
    panels[0].set_ylabel("iteration time over the bound")
    panels[-1].legend()
    figure.tight_layout()
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    main()
