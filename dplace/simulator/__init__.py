"""How long a placement takes: the event loop and the machine models.

Nothing here knows ONNX. The loop is compiled by numba, so import this package only where used.
"""

__all__: list[str] = []
