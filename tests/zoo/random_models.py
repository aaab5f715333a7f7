"""Hypothesis draws graphs of cheap ops: any wiring, any outputs, weights here and there."""

from dataclasses import dataclass

import numpy as np
import onnx
from hypothesis import strategies as st
from onnx import TensorProto, helper

from tests.zoo.situation import set_initializers, weight

__all__ = ["WIDTH", "DrawnOp", "build_model", "drawn_ops"]

WIDTH = 4
UNARY = ("Relu", "Sin", "Neg", "Tanh", "Identity", "Abs")
BINARY = ("Add", "Sub", "Mul", "Max")
WEIGHTED = ("MatMul", "AddConstant")
SPLITTING = ("Split", "TopK")
MAX_INPUTS = 3
MAX_OPS = 14


@dataclass(frozen=True, slots=True)
class DrawnOp:
    """One op before its inputs are known: numbers are taken modulo the values there are."""

    op_type: str
    first: int
    second: int
    is_output: bool


def drawn_ops() -> st.SearchStrategy[list[DrawnOp]]:
    """Return a strategy for lists of ops; small lists and early values are the simplest."""
    kinds = (*UNARY, *BINARY, *WEIGHTED, *SPLITTING, "If")
    numbers = st.integers(0, MAX_OPS)
    one = st.builds(DrawnOp, st.sampled_from(kinds), numbers, numbers, st.booleans())
    return st.lists(one, min_size=1, max_size=MAX_OPS)


def build_model(ops: list[DrawnOp], num_inputs: int) -> onnx.ModelProto:
    """Return the model of these ops; every value is a float tensor of shape (N, 4)."""
    names = [f"x{i}" for i in range(num_inputs)]
    nodes: list[onnx.NodeProto] = []
    outputs: list[str] = []
    for number, op in enumerate(ops):
        first, second = names[op.first % len(names)], names[op.second % len(names)]
        made = add_op(op.op_type, first, second, f"v{number}", nodes)
        names += made
        if op.is_output:
            outputs += made
    outputs = outputs or [names[-1]]
    graph = helper.make_graph(
        nodes,
        "drawn",
        [float_value(f"x{i}") for i in range(num_inputs)],
        [float_value(name) for name in outputs],
    )
    graph.input.append(helper.make_tensor_value_info("choice", TensorProto.BOOL, []))
    half, two = np.array([WIDTH // 2, WIDTH // 2]), np.array([WIDTH])
    set_initializers(graph, {"w": weight(WIDTH, WIDTH), "half": half, "k": two})
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def float_value(name: str) -> onnx.ValueInfoProto:
    """Return the declaration of a value of shape (N, 4)."""
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", WIDTH])


def add_op(
    op_type: str, first: str, second: str, name: str, nodes: list[onnx.NodeProto]
) -> list[str]:
    """Append the nodes of one op; return the values that others may read."""
    match op_type:
        case "MatMul":
            nodes.append(helper.make_node("MatMul", [first, "w"], [name]))
        case "AddConstant":
            value = onnx.numpy_helper.from_array(weight(1, WIDTH, seed=1), "value")
            nodes.append(helper.make_node("Constant", [], [f"{name}_w"], value=value))
            nodes.append(helper.make_node("Add", [first, f"{name}_w"], [name]))
        case "Split":
            low, high = f"{name}_low", f"{name}_high"
            nodes.append(helper.make_node("Split", [first, "half"], [low, high], axis=1))
            nodes.append(helper.make_node("Concat", [high, low], [name], axis=1))
        case "TopK":
            nodes.append(helper.make_node("TopK", [first, "k"], [name, f"{name}_at"], axis=1))
        case "If":
            nodes.append(branching_node(first, second, name))
        case op if op in UNARY:
            nodes.append(helper.make_node(op, [first], [name]))
        case op:
            nodes.append(helper.make_node(op, [first, second], [name]))
    return [name]


def branching_node(first: str, second: str, name: str) -> onnx.NodeProto:
    """Return an If on the input ``choice`` whose branches capture two values and a weight."""
    then = helper.make_graph(
        [
            helper.make_node("Mul", [first, second], ["inner"]),
            helper.make_node("MatMul", ["inner", "w"], ["yes"]),
        ],
        "then",
        [],
        [float_value("yes")],
    )
    other = helper.make_graph(
        [helper.make_node("Neg", [second], ["no"])], "else", [], [float_value("no")]
    )
    return helper.make_node("If", ["choice"], [name], then_branch=then, else_branch=other)
