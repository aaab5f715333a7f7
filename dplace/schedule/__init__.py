"""In which order each device runs its ops, and each link its transfers.

Orders are computed here, and followed by the simulator and by the runtime alike. An order is a
permutation of the ops, most urgent first, and always a topological one. Read ``rank.py`` first.
"""

from dplace.schedule.rank import critical_path, mean_rank, placed_rank, priority_order

__all__ = ["critical_path", "mean_rank", "placed_rank", "priority_order"]
