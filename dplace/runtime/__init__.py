"""Run a plan: PlacedSession drives one onnxruntime session per part.

One worker thread a device. Nothing here decides anything; the plan says it all. Read
``placed_session.py`` first, then ``route.py``: what a plan's programs become.
"""

from dplace.runtime.placed_session import PlacedSession

__all__ = ["PlacedSession"]
