"""In which order each device runs its ops, and each link its transfers.

Orders are computed here, and followed by the simulator and by the runtime alike. An order is a
permutation of the ops, most urgent first, and always a topological one; transfers have priorities,
smaller first. Read ``rank.py`` first for ops, ``orders.py`` for transfers.
"""

from dplace.schedule.orders import ORDERS, op_order, transfer_priorities
from dplace.schedule.rank import critical_path, mean_rank, placed_rank, priority_order
from dplace.schedule.transfers import Transfers, transfers_of

__all__ = [
    "ORDERS",
    "Transfers",
    "critical_path",
    "mean_rank",
    "op_order",
    "placed_rank",
    "priority_order",
    "transfer_priorities",
    "transfers_of",
]
