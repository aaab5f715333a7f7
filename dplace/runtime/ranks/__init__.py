"""Run a plan over several processes and hosts: rank r is device r of the plan.

Values cross through ``torch.distributed``; nothing is pickled. Rank 0 feeds the inputs and collects
the outputs; every other rank serves it. In the order in which things happen: ``launch.py`` (who am
I), ``gathering.py`` and ``watch.py`` (the store, the end of the run), ``agreement.py`` (do all hold
the same plan), ``wire.py`` and ``link.py`` (how values cross), ``route.py``, ``member.py`` and
``streaming.py`` (what a rank does for a request), ``session.py`` and ``serve.py`` (rank 0 and the
others).
"""

import os

__all__: list[str] = []

# Else torch says in many lines of its own that a host does not answer; it reads this at its import.
os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "FATAL")
