"""The graph whose nodes are timed: what would run on one device, its nodes named one by one."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dplace.graph_io.build import PlaceableModel, build_op_graph
from dplace.graph_io.fusion import members_by_node
from dplace.graph_io.observe import observe
from dplace.graph_io.optimise import OptimisedModel, optimise
from dplace.graph_io.split import part_model
from dplace.graph_io.structure import subgraphs
from dplace.graph_io.weights import WeightsFile
from dplace.profiles.ort_profile import INNER

if TYPE_CHECKING:
    import onnx
    import onnx_ir as ir

__all__ = ["MeasuredGraph", "measured_graph"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MeasuredGraph:
    """A model file to run without further optimisation, and whose time each node's is."""

    path: Path
    node_ops: Mapping[str, tuple[int, ...]]
    """By node name, the ops that its time is spread over; a node of none is left out."""
    has_bodies: bool
    """Whether nodes have subgraphs, whose nodes have events as often as they run."""
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


def measured_graph(
    placeable: PlaceableModel,
    optimised: OptimisedModel,
    *,
    dims: Mapping[str, int],
    provider: str,
    folder: Path,
) -> MeasuredGraph:
    """Write the model as one part and return it.

    ``native``: the placed graph is what runs. Else its parts are optimised where they run, so the
    whole is optimised here, and each of its nodes counts for the ops that it was made of.

    Raises:
        ModelError: onnxruntime does not take the model.
    """
    running = placeable
    if optimised.mode != "native" and optimised.opt_level != "none":
        inside = folder / "optimised"
        inside.mkdir()
        again = optimise(
            optimised.model,
            mode="native",
            opt_level=optimised.opt_level,
            provider=provider,
            scratch=inside,
        )
        running = build_op_graph(again.model, observe(again.model, dims))
    graph = running.graph
    path = folder / "measured.onnx"
    with WeightsFile(folder / "measured.weights") as weights:
        part = part_model(
            running,
            name="measured",
            ops=range(graph.num_ops),
            inputs=graph.graph_inputs.tolist(),
            outputs=graph.graph_outputs.tolist(),
            weights_file=weights,
        )
    owners = _owners(placeable) if running is placeable else _owners_by_member(placeable, running)
    node_ops: dict[str, tuple[int, ...]] = {}
    has_bodies = False
    for number, node in enumerate(part.proto.graph.node):
        node.name = f"n{number}"
        for position, inner in enumerate(_inner_nodes(node)):
            inner.name = f"n{number}{INNER}{position}"
            has_bodies = True
        first = next((name for name in node.output if name), "")
        if first in owners:
            node_ops[node.name] = owners[first]
    path.write_bytes(part.proto.SerializeToString())
    return MeasuredGraph(
        path=path,
        node_ops=node_ops,
        has_bodies=has_bodies,
        inputs=part.inputs,
        outputs=part.outputs,
    )


def _inner_nodes(node: "onnx.NodeProto") -> Iterator["onnx.NodeProto"]:
    for graph in subgraphs(node):
        for inner in graph.node:
            yield inner
            yield from _inner_nodes(inner)


def _first_output(node: "ir.Node") -> str:
    return next((value.name for value in node.outputs if value.name), "")


def _owners(placeable: PlaceableModel) -> dict[str, tuple[int, ...]]:
    """Return the ops of each node, by its first output; a clone is all its users'."""
    users: dict[str, list[int]] = {}
    for op, clones in enumerate(placeable.op_clones):
        for node in clones:
            users.setdefault(_first_output(node), []).append(op)
    owners = {name: tuple(ops) for name, ops in users.items()}
    for op, nodes in enumerate(placeable.op_nodes):
        owners.update((_first_output(node), (op,)) for node in nodes)
    return owners


def _owners_by_member(
    placeable: PlaceableModel, running: PlaceableModel
) -> dict[str, tuple[int, ...]]:
    """Return the ops whose nodes went into each running node, by its first output."""
    owners = _owners(placeable)
    nodes = list(running.model.ir.graph)
    members: dict[int, dict[int, None]] = {}
    for node, position in members_by_node(placeable.model.ir.graph, nodes).items():
        ops = owners.get(_first_output(node), ())
        members.setdefault(position, {}).update(dict.fromkeys(ops))
    return {_first_output(nodes[position]): tuple(ops) for position, ops in members.items() if ops}
