"""In which order each device runs its ops, and each link its transfers.

Orders are computed here, and followed by the simulator and by the runtime alike.
"""

__all__: list[str] = []
