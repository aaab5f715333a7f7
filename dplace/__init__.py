"""Place the ops of an ONNX model on devices, and run it that way.

The road from a model to a running plan is in dplace.api; the records it passes along are in
op_graph, cluster, problem and placement. Start with ARCHITECTURE.md.
"""

__all__: list[str] = []
