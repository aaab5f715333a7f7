"""``dplace pretrain``: a policy from families of models."""

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
from dplace.commands.options import Dim, Json, Seed, parse_dims
from dplace.commands.terminal import say

__all__ = ["pretrain"]

Families = Annotated[
    list[str],
    typer.Argument(
        metavar="FAMILY|DIR...",
        show_default=False,
        help="Families as dplace generate knows them, of which the training members are taken; "
        "or folders of ONNX models.",
    ),
]
Clusters = Annotated[
    list[str] | None,
    typer.Option(
        "--cluster",
        metavar="CLUSTER",
        show_default=False,
        help="The devices, as for dplace place; may be given several times, and each model is "
        "placed on each. Without it, 2xV100 and 4xV100.",
    ),
]
Updates = Annotated[
    int | None,
    typer.Option(
        "--updates",
        metavar="N",
        min=0,
        show_default=False,
        help="Updates of the last stage, which learns from trials.",
    ),
]
Members = Annotated[
    int | None,
    typer.Option(
        "--members",
        metavar="N",
        min=1,
        max=24,
        show_default=False,
        help="How many of each family's 24 training members; without it, all.",
    ),
]


def pretrain(
    families: Families,
    out: PolicyOut,
    cluster: Clusters = None,
    updates: Updates = None,
    imitate: Imitate = None,
    seed: Seed = 0,
    members: Members = None,
    dim: Dim = None,
    logdir: Logdir = None,
    overwrite: Overwrite = False,
    device: Device = "cpu",
    json: Json = False,
) -> None:
    """Train a policy that places models which it has never seen, of the families it is shown.

    Example: dplace pretrain ptb nmt --cluster 4xV100 -o recurrent.safetensors

    Ctrl-C keeps what was learned, and the same command goes on from there. Several processes, on
    one host or several, share the work under torchrun:

    Example: torchrun --nproc-per-node 4 -m dplace pretrain ptb -o ptb.safetensors

    The table has the makespan on one device, the best that the training met, what the policy finds
    in one episode, and the lower bound.
    """
    dims = parse_dims(dim)
    import dplace.api

    with first_progress_bar() as progress:
        answer = dplace.api.pretrain(
            families,
            out=out,
            clusters=cluster,
            updates=updates,
            imitate=imitate,
            seed=seed,
            members=members,
            dims=dims,
            logdir=logdir,
            overwrite=overwrite,
            device=device,
            command=as_typed(),
            progress=progress,
            tell=say,
        )
    show(answer, json=json)
