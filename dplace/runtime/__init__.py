"""Run a plan: PlacedSession drives one onnxruntime session per part.

One worker thread a device. Nothing here decides anything; the plan says it all.
"""

__all__: list[str] = []
