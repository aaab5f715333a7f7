"""Plans that are made to be measured: chains of convolutions, cut in a given way."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from dplace.graph_io.build import build_op_graph
from dplace.graph_io.export import write_parts
from dplace.graph_io.observe import observe
from dplace.graph_io.optimise import optimise
from dplace.graph_io.planning import make_plan
from dplace.graph_io.read import read_model
from dplace.op_graph import OpGraph
from dplace.plan.write import write_plan_file
from dplace.problem import Problem
from dplace.profiles.cluster_spec import read_cluster
from dplace.simulator.timeline import Lowered, Timeline

if TYPE_CHECKING:
    import onnx

__all__ = ["Chains", "Joins", "Layout", "chains_model", "chains_plan"]

Layout = Literal["single", "whole", "cut"]
"""One part on the only device; one on each of two devices; one for each step."""
Joins = Literal["none", "within", "across"]
"""What a step reads: what its chain has made last; the sum of that and what the other chain of its
device has made, where each device has two chains; the sum with the other device's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chains:
    """Chains of equal convolutions, on two devices."""

    channels: int
    side: int
    """Height and width of the values."""
    kernel: int
    steps: int

    @property
    def value_bytes(self) -> int:
        """Return the size of the value that a step makes."""
        return 4 * self.channels * self.side**2


def chains_model(chains: Chains, joins: Joins) -> "onnx.ModelProto":
    """Return the chains, their values named by chain and step: ``0/3`` or ``1/3``.

    Two of them; four where they are joined within a device, the first two on the first device.
    """
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(0)
    channels, kernel = chains.channels, chains.kernel
    deviation = 1 / np.sqrt(channels * kernel**2)
    nodes: list[onnx.NodeProto] = []
    weights: list[onnx.TensorProto] = []
    last = ["x"] * (4 if joins == "within" else 2)
    for step in range(chains.steps):
        made: list[str] = []
        for chain, source in enumerate(last):
            name = f"{chain}/{step}"
            filters = rng.standard_normal((channels, channels, kernel, kernel)) * deviation
            weights.append(numpy_helper.from_array(filters.astype(np.float32), f"w{name}"))
            if joins != "none" and step:
                # The neighbour of chain 2 is chain 3, and the other way round.
                nodes.append(helper.make_node("Add", [source, last[chain ^ 1]], [f"{name}/sum"]))
                source = f"{name}/sum"
            nodes.append(
                helper.make_node(
                    "Conv",
                    [source, f"w{name}"],
                    [name],
                    kernel_shape=[kernel, kernel],
                    pads=[kernel // 2] * 4,
                )
            )
            made.append(name)
        last = made
    shape = [1, channels, chains.side, chains.side]
    graph = helper.make_graph(
        nodes,
        "chains",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in last],
        weights,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def chains_plan(chains: Chains, layout: Layout, joins: Joins, folder: Path) -> Path:
    """Write a plan that runs the chains and return its folder."""
    folder.mkdir()
    source = read_model(chains_model(chains, joins))
    optimised = optimise(source, mode="none", opt_level="none", scratch=folder)
    placeable = build_op_graph(optimised.model, observe(optimised.model, {}))
    graph = placeable.graph
    cluster = read_cluster("1xCPU" if layout == "single" else "2xCPU")
    lowered = _lowered(graph, _parts(graph, layout, joins))
    problem = Problem(
        graph=graph,
        cluster=cluster,
        seconds=np.zeros((graph.num_ops, cluster.num_devices)),
        measured=np.zeros((graph.num_ops, cluster.num_devices), dtype=bool),
        pins=np.full(graph.num_ops, -1, dtype=np.int32),
    )
    plan, crossing = make_plan(
        placeable,
        optimised,
        problem,
        lowered,
        _no_timeline(lowered, cluster.num_devices),
        policy="given",
        comm_order="fifo",
        bound_s=0.0,
        best_single_device_s=0.0,
        dims={},
        runtime={},
    )
    plan = dataclasses.replace(
        plan, parts=write_parts(placeable, lowered, crossing, plan.parts, folder)
    )
    write_plan_file(plan, folder)
    return folder


def _parts(graph: OpGraph, layout: Layout, joins: Joins) -> list[tuple[int, list[int]]]:
    """Return the device and the ops of each part, in an order in which they can run."""
    groups: dict[tuple[int, int, int], list[int]] = {}
    for op, name in enumerate(graph.op_names):
        chain, step = (int(number) for number in name.split("/")[:2])
        device = chain // 2 if joins == "within" else chain
        match layout:
            case "single":
                key = (0, 0, 0)
            case "whole":
                key = (0, 0, device)
            case "cut":
                key = (step, chain, device)
        groups.setdefault(key, []).append(op)
    return [(device, ops) for (*_, device), ops in sorted(groups.items())]


def _lowered(graph: OpGraph, parts: Sequence[tuple[int, list[int]]]) -> Lowered:
    """Return the parts as a lowered placement, each value sent to whoever lacks it."""
    part_device = np.array([device for device, _ in parts], dtype=np.int32)
    part_of_op = np.zeros(graph.num_ops, dtype=np.int32)
    for part, (_, ops) in enumerate(parts):
        part_of_op[ops] = part
    placement = part_device[part_of_op]
    makers = graph.value_producer
    transfers = [
        (value, int(placement[makers[value]]), target)
        for value in np.flatnonzero(makers >= 0).tolist()
        for target in sorted(set(placement[graph.consumers_of(value)].tolist()))
        if target != placement[makers[value]]
    ]
    columns = np.array(transfers, dtype=np.int32).reshape(-1, 3)
    return Lowered(
        placement=placement,
        part_device=part_device,
        part_offsets=np.cumsum([0, *(len(ops) for _, ops in parts)]).astype(np.int32),
        part_ops=np.array([op for _, ops in parts for op in ops], dtype=np.int32),
        part_of_op=part_of_op,
        transfer_value=columns[:, 0].copy(),
        transfer_source=columns[:, 1].copy(),
        transfer_target=columns[:, 2].copy(),
        transfer_priority=np.zeros(len(columns), dtype=np.int32),
    )


def _no_timeline(lowered: Lowered, num_devices: int) -> Timeline:
    """Return a timeline of zeros: what such a plan is predicted to take, nobody asks."""
    parts, ops = np.zeros(lowered.num_parts), np.zeros(len(lowered.placement))
    transfers = np.zeros(lowered.num_transfers)
    memory = np.zeros(num_devices, dtype=np.int64)
    return Timeline(
        makespan_s=0.0,
        part_start_s=parts,
        part_end_s=parts,
        op_start_s=ops,
        op_end_s=ops,
        transfer_start_s=transfers,
        transfer_end_s=transfers,
        busy_s=np.zeros(num_devices),
        weight_bytes=memory,
        peak_bytes=memory,
    )
