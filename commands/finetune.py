"""``dplace finetune``: a policy for models of the user's own."""

from pathlib import Path
from typing import Annotated

import typer

from dplace.commands.learn_options import (
    Device,
    Imitate,
    Logdir,
    Overwrite,
    PolicyOut,
    as_typed,
    first_progress_bar,
    show,
)
from dplace.commands.options import Cluster, Dim, Json, Seed, parse_dims
from dplace.commands.terminal import say
from dplace.errors import UsageError

__all__ = ["finetune"]

Models = Annotated[
    list[str],
    typer.Argument(
        metavar="MODELS...",
        show_default=False,
        help="A folder of ONNX models, a quoted pattern such as 'family/*.onnx', files; "
        "- reads paths from standard input, one a line.",
    ),
]
From = Annotated[
    Path | None,
    typer.Option(
        "--from",
        metavar="POLICY",
        show_default=False,
        help="The policy to start from: a file, a folder that has one, or placeto for the shipped "
        "one that fits. Without it, random weights.",
    ),
]
Episodes = Annotated[
    int | None,
    typer.Option(
        "--episodes",
        metavar="N",
        min=1,
        show_default=False,
        help="How many episodes to play, all models together; without it, 2000.",
    ),
]


def finetune(
    models: Models,
    cluster: Cluster,
    out: PolicyOut,
    from_policy: From = None,
    episodes: Episodes = None,
    imitate: Imitate = None,
    seed: Seed = 0,
    dim: Dim = None,
    logdir: Logdir = None,
    overwrite: Overwrite = False,
    device: Device = "cpu",
    json: Json = False,
) -> None:
    """Train a policy for your own models, then place others of their kind with it.

    Example: dplace finetune 'family/*.onnx' --cluster 4xV100 -o my-policy/

    Ctrl-C keeps what was learned, and the same command goes on from there. The table is that of
    pretrain.
    """
    dims = parse_dims(dim)
    if "-" in models and len(models) > 1:
        raise UsageError("- reads the paths of models from standard input; give nothing beside it")
    import dplace.api

    with first_progress_bar() as progress:
        answer = dplace.api.finetune(
            models,
            cluster=cluster,
            out=out,
            from_policy=from_policy,
            episodes=episodes,
            imitate=imitate,
            seed=seed,
            dims=dims,
            logdir=logdir,
            overwrite=overwrite,
            device=device,
            command=as_typed(),
            progress=progress,
            tell=say,
        )
    show(answer, json=json)
