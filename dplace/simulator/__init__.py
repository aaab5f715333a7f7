"""How long a placement takes: the event loop, its replay from a plan, and memory peaks.

Nothing here knows ONNX. The loops are compiled by numba, which takes seconds the first time on a
machine, so only ``timeline`` is imported with the package; import the rest where it is used, or
go through ``dplace.lowering``. Read ``online.py`` first: it forms parts and times them in one
pass. ``ordered.py`` does so with transfers by priority and streamed weights, ``replay.py`` times
parts that are given, ``memory.py`` finds peaks.
"""

from dplace.simulator.timeline import Lowered, Timeline

__all__ = ["Lowered", "Timeline"]
