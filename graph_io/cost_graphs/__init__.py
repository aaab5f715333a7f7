"""Graphs whose costs are already known: no ONNX, only ops, times and what moves between them.

Read cost_graph.py first: the record, and how it becomes a Problem. Then draft.py, which every
reader fills and which finds what is wrong with ids, numbers and cycles. One reader a format;
read.py chooses it by the content. docs/cost-graph-format.md describes the formats field by field.
"""

from dplace.graph_io.cost_graphs.cost_graph import CostGraph, cost_problem
from dplace.graph_io.cost_graphs.read import FORMATS, is_cost_graph, read_cost_graph

__all__ = ["FORMATS", "CostGraph", "cost_problem", "is_cost_graph", "read_cost_graph"]
