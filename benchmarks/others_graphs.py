"""Cost graphs that others measured: are they read as they were published?

The files come from the repositories named below and are not shipped; ``--graphs`` names the folder
they were downloaded to, with one folder for each repository. Counts and sums are those of the
files themselves, taken apart from dplace's readers.

- ``dnn-partitioning/``: msr-fiddle/dnn-partitioning, commit b207b6a, ``latency-inputs`` and
  ``throughput-inputs``. Sums of accelerator and CPU times, and of one cost for each source.
- ``pipedream/``: msr-fiddle/pipedream, commit 7db6a1c, ``profiler/*/profiles/NAME/graph.txt`` as
  ``NAME.txt``. Sum of forward and backward times.
- ``moirai/``: moirai-placement/moirai, commit 7b356c9, ``sample-data``. Sums of times on devices 0
  to 3, and of transfers from device 0 to 1.

Run: ``python -m benchmarks.others_graphs --graphs DIR``
"""

from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.figures import arguments, report
from dplace.graph_io.cost_graphs import CostGraph, read_cost_graph


class Published(NamedTuple):
    """What a file holds, in its own units."""

    ops: int
    edges: int
    times: tuple[float, ...]
    """Sum of times in each column."""
    transfers: float | None = None
    colours: int | None = None


LATENCY, THROUGHPUT = "dnn-partitioning/latency-inputs", "dnn-partitioning/throughput-inputs"

PUBLISHED = {
    f"{LATENCY}/LayerGraphs/bert24_inference.json": Published(32, 55, (92.406, 924.06), 107.05, 32),
    f"{LATENCY}/LayerGraphs/inceptionv3_inference.json": Published(
        326, 363, (310.97, 3109.7), 7770.1, 326
    ),
    f"{LATENCY}/LayerGraphs/resnet50_inference.json": Published(
        177, 193, (201.45, 2014.5), 8991.1, 177
    ),
    f"{LATENCY}/OperatorGraphs/bert_l-3_inference.json": Published(
        235, 250, (49.353, 1135.1), 557.61, 117
    ),
    f"{LATENCY}/OperatorGraphs/bert_l-6_inference.json": Published(
        418, 448, (77.462, 1781.6), 917.63, 216
    ),
    f"{LATENCY}/OperatorGraphs/resnet50_inference.json": Published(
        604, 619, (325.13, 7478.0), 2286.5, 176
    ),
    f"{THROUGHPUT}/LayerGraphs/bert24_inference.json": Published(
        32, 55, (92.406, 924.06), 0.10705, 32
    ),
    f"{THROUGHPUT}/LayerGraphs/bert24_training.json": Published(
        64, 110, (217.81, 2178.1), 0.2141, 32
    ),
    f"{THROUGHPUT}/LayerGraphs/gnmt_inference.json": Published(
        96, 122, (182.56, 1825.6), 0.42886, 96
    ),
    f"{THROUGHPUT}/LayerGraphs/inceptionv3_inference.json": Published(
        326, 363, (310.97, 3109.7), 7.7701, 326
    ),
    f"{THROUGHPUT}/LayerGraphs/resnet50_inference.json": Published(
        177, 193, (201.45, 2014.5), 8.9911, 177
    ),
    f"{THROUGHPUT}/LayerGraphs/resnet50_training.json": Published(
        354, 386, (462.38, 4623.8), 17.982, 177
    ),
    f"{THROUGHPUT}/OperatorGraphs/bert_l-3_inference.json": Published(
        235, 250, (49.353, 1135.1), 557.61, 117
    ),
    f"{THROUGHPUT}/OperatorGraphs/bert_l-3_training.json": Published(
        600, 817, (122.99, 2828.7), 1570.4, 121
    ),
    f"{THROUGHPUT}/OperatorGraphs/bert_l-12_inference.json": Published(
        783, 843, (642.78, 14784), 4778.5, 413
    ),
    f"{THROUGHPUT}/OperatorGraphs/resnet50_inference.json": Published(
        604, 619, (325.13, 7478.0), 2286.5, 176
    ),
    f"{THROUGHPUT}/OperatorGraphs/resnet50_training.json": Published(
        1243, 1806, (684.89, 15752), 5267.0, 177
    ),
    "pipedream/alexnet.txt": Published(23, 23, (721.2,)),
    "pipedream/vgg16.txt": Published(41, 41, (690.5,)),
    "pipedream/squeezenet1_0.txt": Published(68, 76, (760.0,)),
    "pipedream/resnet18.txt": Published(71, 79, (733.4,)),
    "pipedream/resnet50.txt": Published(177, 193, (462.4,)),
    "pipedream/resnext50.txt": Published(177, 193, (608.0,)),
    "pipedream/inception_v3.txt": Published(326, 362, (710.7,)),
    "pipedream/resnet101.txt": Published(347, 380, (421.5,)),
    "pipedream/nasnetalarge.txt": Published(1251, 1468, (665.3,)),
    "pipedream/gnmt.txt": Published(48, 58, (89.4,)),
    "moirai/GoogLeNet.xls": Published(141, 167, (2.336, 5.476, 5.547, 2.884), 3.8),
    "moirai/transformer.xls": Published(1374, 1820, (29.626, 76.439, 584.470, 22.695), 735.5),
}


def main() -> None:
    """Print what each file holds; end with 1 if one is not what it should be."""
    options = arguments(__doc__ or "", graphs=Path())
    rows: list[dict[str, Any]] = []
    for file, published in PUBLISHED.items():
        is_text = file.startswith("pipedream/")
        graph = read_cost_graph(options.graphs / file, "pipedream-training" if is_text else None)
        held = holdings(graph)
        rows.append(
            {
                "graph": file.removeprefix("dnn-partitioning/"),
                "ops": held.ops,
                "edges": held.edges,
                "times": " / ".join(f"{time:.6g}" for time in held.times),
                "transfers": held.transfers,
                "colours": held.colours,
                "as published": "yes" if agree(held, published) else "NO",
            }
        )
    wrong = sum(row["as published"] == "NO" for row in rows)
    summary = {"graphs": len(rows), "not as published": wrong}
    report("Cost graphs that others measured, in the files' units", rows, summary, options.json)
    raise SystemExit(min(wrong, 1))


def holdings(source: CostGraph) -> Published:
    """Return what a cost graph holds, in the units of its file."""
    graph, transfer_s = source.graph, source.transfer_s
    transfers = None
    if transfer_s is not None:
        column = transfer_s[:, 0, 0] if transfer_s.shape[1] == 1 else transfer_s[:, 0, 1]
        transfers = float(column.sum()) / source.unit_s
    colours = len(set(graph.colocation.tolist()) - {-1})
    return Published(
        ops=graph.num_ops,
        edges=len(graph.consumer_ops),
        times=tuple((source.seconds.sum(axis=0) / source.unit_s).tolist()),
        transfers=transfers,
        colours=colours or None,
    )


def agree(held: Published, published: Published) -> bool:
    """Return whether figures are equal to the digits that were published."""
    if (held.ops, held.edges, held.colours) != (published.ops, published.edges, published.colours):
        return False
    pairs = list(zip(held.times, published.times, strict=True))
    if held.transfers is not None and published.transfers is not None:
        pairs.append((held.transfers, published.transfers))
    return all(round(ours, len(str(theirs).partition(".")[2])) == theirs for ours, theirs in pairs)


if __name__ == "__main__":
    main()
