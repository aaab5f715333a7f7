"""Families of generated models: runnable ONNX files with random weights.

Members of a family differ in depth, width and wiring, all from one seed.
"""

__all__: list[str] = []
