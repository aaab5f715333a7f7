"""The options that several commands share, each with its help text, and how their values read."""

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer

from dplace.errors import InputError, UsageError

__all__ = [
    "Cluster",
    "CommOrder",
    "Dim",
    "Evaluations",
    "Format",
    "Inputs",
    "Json",
    "Machine",
    "Model",
    "Objective",
    "OptLevel",
    "Optimize",
    "Out",
    "Pin",
    "PlanFolder",
    "Policy",
    "Profile",
    "Seed",
    "WeightHome",
    "Weights",
    "check_model",
    "parse_dims",
    "parse_pins",
]

MAX_DIM = 2**31 - 1
"""No tensor that fits in a device's memory has a larger dimension."""

Model = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        show_default=False,
        help="The ONNX model, or a graph with given costs; - reads it from standard input.",
    ),
]
PlanFolder = Annotated[
    Path,
    typer.Argument(metavar="PLAN", show_default=False, help="A folder that dplace place wrote."),
]
Cluster = Annotated[
    str,
    typer.Option(
        "--cluster",
        metavar="CLUSTER",
        show_default=False,
        help="The devices, such as 2xCPU, 4xV100@nvlink or 2x4xV100@nvlink,25gbe; "
        "or a YAML file that describes them; or file, for those that a cost graph describes.",
    ),
]
Policy = Annotated[
    str,
    typer.Option(
        "--policy",
        metavar="POLICY",
        help="How to decide: single, random, packing, heft, critical-path, m-topo, m-etf, m-sct, "
        "metis, search; exhaustive for small graphs; placeto, the shipped policy that fits, or the "
        "path of one that dplace pretrain or finetune wrote; or auto, which takes the best of the "
        "quick ones and improves it by search.",
    ),
]
Objective = Annotated[
    Literal["latency", "throughput"],
    typer.Option(
        "--objective",
        help="What to make small: latency is the time of one request, throughput the time "
        "between two of a stream.",
    ),
]
Machine = Annotated[
    Literal["native", "placeto", "baechi", "moirai", "independent", "dnn-partitioning"] | None,
    typer.Option(
        "--machine",
        show_default=False,
        help="The rules to judge by: native is how a plan runs, the others are those of other "
        "systems. Without it, native for models, and for cost graphs what their format is "
        "made for.",
    ),
]
Format = Annotated[
    Literal["dnn-partitioning", "doppler", "dplace", "moirai", "pipedream", "pipedream-training"]
    | None,
    typer.Option(
        "--format",
        show_default=False,
        help="How a cost graph is written; without it, the content tells.",
    ),
]
Evaluations = Annotated[
    int | None,
    typer.Option(
        "--evaluations",
        metavar="N",
        min=1,
        show_default=False,
        help="How many placements the policy may simulate; without it, the policy's own number.",
    ),
]
CommOrder = Annotated[
    Literal["best", "fifo", "random", "tic", "tac", "critical-path", "searched"],
    typer.Option(
        "--comm-order",
        help="In which order transfers go that wait for a link: first come first served, at "
        "random, by TIC or TAC, by the path that waits for them; best takes what the simulator "
        "finds best of these, searched improves that.",
    ),
]
Seed = Annotated[
    int, typer.Option("--seed", metavar="N", min=0, help="Seed of every random choice.")
]
Dim = Annotated[
    list[str] | None,
    typer.Option(
        "--dim",
        metavar="NAME=N",
        show_default=False,
        help="Size of a dynamic dimension; may be given several times. Without it, 1.",
    ),
]
Inputs = Annotated[
    Path | None,
    typer.Option(
        "--inputs",
        metavar="FILE",
        show_default=False,
        help="An .npz file with arrays by input name; inputs that it lacks are drawn.",
    ),
]
Pin = Annotated[
    list[str] | None,
    typer.Option(
        "--pin",
        metavar="PATTERN=DEVICE",
        show_default=False,
        help="Put the ops or weights whose names match the pattern (* and ?) on a device, "
        "such as 'embed*=cpu:0'; may be given several times.",
    ),
]
Out = Annotated[
    Path | None,
    typer.Option(
        "--out",
        "-o",
        metavar="DIR",
        show_default=False,
        help="Folder to write to; without it, nothing is written.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object in place of the table.")]
Optimize = Annotated[
    Literal["auto", "native", "portable", "none"],
    typer.Option(
        "--optimize",
        help="Which graph is cut: native is what onnxruntime makes of the whole model on this "
        "machine, portable leaves that to the machine that runs the plan, none is the model as "
        "it is; auto is native where the devices are here, else portable.",
    ),
]
Profile = Annotated[
    list[Path] | None,
    typer.Option(
        "--profile",
        metavar="FILE",
        show_default=False,
        help="Measured times that dplace profile -o wrote; looked at before those that it has "
        "stored; may be given several times.",
    ),
]
Weights = Annotated[
    Literal["resident", "stream", "auto"],
    typer.Option(
        "--weights",
        help="Whether weights stay on the devices that read them, or are sent there for each "
        "request, into room of a fixed size, and freed after their use; auto sends those that do "
        "not fit.",
    ),
]
WeightHome = Annotated[
    str,
    typer.Option(
        "--weight-home",
        metavar="DEVICE",
        help="Where weights lie that are sent: a device, or host for the host's memory.",
    ),
]
OptLevel = Annotated[
    Literal["all", "extended", "basic", "none"],
    typer.Option("--opt-level", help="onnxruntime's graph optimization level."),
]


def check_model(model: str) -> str:
    """Return the model argument, if there is something to read it from.

    Raises:
        UsageError: It is ``-`` and nobody has piped a model in.
    """
    if model == "-" and sys.stdin is not None and sys.stdin.isatty():
        raise UsageError(
            "MODEL is -, which reads standard input, but that is a terminal; "
            "pipe a model in: cat model.onnx | dplace ..."
        )
    return model


def parse_dims(texts: Sequence[str] | None) -> dict[str, int]:
    """Return the sizes that ``--dim NAME=N`` gives, by name.

    A name may itself hold an equals sign, as exporters write ``batch=1+x``: the last one counts.

    >>> parse_dims(["batch=8", "past=0+seq=128"])
    {'batch': 8, 'past=0+seq': 128}

    Raises:
        UsageError: A text is not of that form, or a name is given two sizes.
        InputError: A size is not above 0.
    """
    dims: dict[str, int] = {}
    for text in texts or ():
        name, equals, size = text.rpartition("=")
        if not equals or not name or not re.fullmatch(r"[+-]?[0-9]+", size):
            raise UsageError(f"--dim {text}: expected NAME=N with a whole number, as in batch=8")
        if not 1 <= int(size) <= MAX_DIM:
            raise InputError(f"--dim {text}: expected a size from 1 to {MAX_DIM}, got {size}")
        if dims.setdefault(name, int(size)) != int(size):
            raise UsageError(f"--dim {text}: {name} was given the size {dims[name]} before")
    return dims


def parse_pins(texts: Sequence[str] | None) -> tuple[tuple[str, str], ...]:
    """Return the pairs of pattern and device that ``--pin PATTERN=DEVICE`` gives, in order.

    >>> parse_pins(["encoder/*=gpu:0"])
    (('encoder/*', 'gpu:0'),)

    Raises:
        UsageError: A text is not of that form, or a pattern is given two devices.
    """
    pins: dict[str, str] = {}
    for text in texts or ():
        pattern, equals, device = text.rpartition("=")
        if not equals or not pattern or not device:
            raise UsageError(f"--pin {text}: expected PATTERN=DEVICE, as in 'embed*=cpu:0'")
        if pins.setdefault(pattern, device) != device:
            raise UsageError(f"--pin {text}: {pattern} was pinned to {pins[pattern]} before")
    return tuple(pins.items())
