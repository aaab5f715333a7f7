"""Who decides: each policy turns a Problem into a Placement.

Read policy.py first; all policies see the same problem and are judged by the same simulator.
"""

__all__: list[str] = []
