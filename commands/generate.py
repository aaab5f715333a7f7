"""The command ``dplace generate``."""

from pathlib import Path
from typing import Annotated

import typer

from dplace.commands.terminal import write

__all__ = ["generate"]


def generate(
    family: Annotated[str, typer.Argument(help="One of: inception, two-tower, transformer, lstm.")],
    out: Annotated[
        Path, typer.Option("--out", "-o", help="The folder to write to; made if missing.")
    ],
    count: Annotated[int, typer.Option(help="Number of models.")] = 1,
    seed: Annotated[int, typer.Option(help="Seed of every random choice.")] = 0,
    size: Annotated[
        float, typer.Option(help="Scale of the widths; work grows with its square.")
    ] = 1.0,
) -> None:
    """Write real, runnable ONNX models of a family, with random weights; print their paths.

    Members differ in depth, width and wiring; the same family, seed and size give the same files.

    Example: dplace generate two-tower -o models/ --count 4 --seed 0
    """
    import dplace.api  # onnx is slow to import, and --help must not wait for it

    for path in dplace.api.generate(family, out=out, count=count, seed=seed, size=size):
        write(f"{path}\n")
