"""ONNX in, ONNX out: read a model, turn it into an OpGraph, split it into parts.

Names of ONNX stay on this floor; the floors above speak of op and value indices.
"""

__all__: list[str] = []
