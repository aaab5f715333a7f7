"""Lower bounds: what no placement can beat, in seconds of what the objective makes small.

Read ``best.py`` first: it lists the arguments and takes the best. ``work.py``, ``forks.py``,
``blocks.py`` and ``stream.py`` hold one argument or two each, the last two for the rules of
dnn-partitioning; ``units.py`` and ``chain.py`` are what they count: co-located ops with the room
for them, and chains of ops. Loops over the graph are compiled and lie in ``dplace/simulator/``.
"""

from dplace.bounds.best import Bound, best_bound, bounds_by_argument, lower_bound_s

__all__ = ["Bound", "best_bound", "bounds_by_argument", "lower_bound_s"]
