"""The command ``dplace generate``."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from dplace.commands.terminal import write

__all__ = ["generate"]


def generate(
    family: Annotated[
        str,
        typer.Argument(help="One of: inception, two-tower, transformer, lstm, cifar10, ptb, nmt."),
    ],
    out: Annotated[
        Path, typer.Option("--out", "-o", help="The folder to write to; made if missing.")
    ],
    count: Annotated[
        int | None,
        typer.Option(help="Number of models; without it 1, or every model of the split."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of every random choice.")] = 0,
    size: Annotated[
        float, typer.Option(help="Scale of the widths; work grows with its square.")
    ] = 1.0,
    split: Annotated[
        Literal["train", "test", "all"] | None,
        typer.Option(
            help="Of the first 32 models, those to train a policy on (24), those to test it on "
            "(8), or all; the seed says which are which."
        ),
    ] = None,
) -> None:
    """Write real, runnable ONNX models of a family, with random weights; print their paths.

    Members differ in depth, width and wiring; the same family, seed and size give the same files.
    cifar10 (CNN cells), ptb (recurrent cells, unrolled) and nmt (LSTM layers with attention,
    unrolled) are the families of the Placeto paper. All have a dynamic batch, place --dim batch=N.

    Example: dplace generate two-tower -o models/ --count 4 --seed 0

    Example: dplace generate nmt -o train/ --split train
    """
    import dplace.api  # onnx is slow to import, and --help must not wait for it

    for path in dplace.api.generate(
        family, out=out, count=count, seed=seed, size=size, split=split
    ):
        write(f"{path}\n")
