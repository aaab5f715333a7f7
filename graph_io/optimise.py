"""Optimise once, whole: the graph that is costed, placed, cut and run.

A part that onnxruntime optimises by itself computes other last bits than the whole model does.
The graph that it made of the whole, cut and run with optimisation off, does not.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import onnx

from dplace.errors import ModelError
from dplace.graph_io.model import Model, weight_bytes
from dplace.graph_io.read import from_proto
from dplace.graph_io.session import OptLevel, open_session
from dplace.graph_io.skeleton import skeleton
from dplace.graph_io.structure import subgraphs

__all__ = ["OptimisedModel", "OptimizeMode", "optimise"]

OptimizeMode = Literal["native", "portable", "none"]

_OUTSIDE_BYTES = 64 * 1024
"""Weights below this size are still folded when the larger ones stay outside."""
_LARGEST_WHOLE_BYTES = 2**31 - 2**20
"""A protobuf message ends at 2 GiB, so a larger model cannot be optimised with its weights."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OptimisedModel:
    """The graph to place, and the one that it was made from."""

    model: Model
    original: Model
    mode: OptimizeMode
    opt_level: OptLevel
    exact: bool
    """Whether the parts compute the very bits that the whole model does in one session."""
    notes: tuple[str, ...]
    """What the user should know about it."""


def optimise(
    model: Model,
    *,
    mode: OptimizeMode,
    opt_level: OptLevel,
    provider: str = "CPUExecutionProvider",
    scratch: Path,
) -> OptimisedModel:
    """Let onnxruntime optimise the whole model.

    Args:
        mode: ``native`` optimises at ``opt_level`` for ``provider``; ``portable`` at ``basic``,
            where nothing depends on the provider; ``none`` leaves the graph as it is.
        scratch: A folder for the optimised graph and its weights; has to stay until the parts
            are written.

    Raises:
        ModelError: onnxruntime does not take the model.
    """
    if mode == "none":
        return OptimisedModel(
            model=model, original=model, mode=mode, opt_level=opt_level, exact=False, notes=()
        )
    level: OptLevel = opt_level if mode == "native" else "basic"
    if mode == "portable" and opt_level == "none":
        level = "none"
    total = weight_bytes(model.ir)
    outside = total > _LARGEST_WHOLE_BYTES or total * 3 > _free_memory_bytes()
    lifted: tuple[str, ...] = ()
    if outside:
        proto, lifted = skeleton(model, lift_bytes=_OUTSIDE_BYTES)
        source = proto.SerializeToString()
    else:
        source = model.proto.SerializeToString()
    saved = scratch / f"optimised-{level}.onnx"
    open_session(
        source,
        label=model.name,
        level=level,
        provider=provider,
        save_to=saved,
        weights_folder=model.path.parent if model.path is not None else None,
    )
    if not saved.is_file():
        raise ModelError(f"{model.name}: onnxruntime did not write its optimised graph")
    proto = onnx.load(saved, load_external_data=False)
    _drop_doubled_constants(proto.graph)
    optimised = from_proto(proto, name=model.name, path=saved, digest=model.digest)
    for name in lifted:
        _reattach(optimised, model, name)
    notes: tuple[str, ...] = ()
    if outside:
        note = (
            f"{total / 1e9:.1f} GB of weights stayed outside while optimising: only small "
            "constants were folded, so outputs can differ from the whole model's in last bits"
        )
        notes = (note,)
    return OptimisedModel(
        model=optimised,
        original=model,
        mode=mode,
        opt_level=opt_level,
        exact=mode == "native" and not outside,
        notes=notes,
    )


def _drop_doubled_constants(graph: onnx.GraphProto) -> None:
    """Take out Constant nodes that onnxruntime saved as an initializer as well."""
    initializers = {tensor.name for tensor in graph.initializer}
    kept = [
        node
        for node in graph.node
        if node.op_type != "Constant" or node.output[0] not in initializers
    ]
    if len(kept) < len(graph.node):
        copies = [onnx.NodeProto.FromString(node.SerializeToString()) for node in kept]
        del graph.node[:]
        graph.node.extend(copies)
    for node in graph.node:
        for subgraph in subgraphs(node):
            _drop_doubled_constants(subgraph)


def _reattach(optimised: Model, original: Model, name: str) -> None:
    """Make the input ``name`` the initializer again that it was before it was lifted."""
    graph = optimised.ir.graph
    value = next((value for value in graph.inputs if value.name == name), None)
    if value is None:
        return
    graph.inputs.remove(value)
    value.const_value = original.ir.graph.initializers[name].const_value
    graph.register_initializer(value)


def _free_memory_bytes() -> int:
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
