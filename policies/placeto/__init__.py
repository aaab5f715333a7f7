"""Placeto: a graph network that improves a placement group by group, on graphs it has never seen.

Addanki, Bojja Venkatakrishnan, Gupta, Mao, Alizadeh, *Placeto: Learning Generalizable Device
Placement Algorithms for Distributed Machine Learning*, NeurIPS 2019. Read episode.py first: the
decision process. world.py is what it plays in, environment.py the same for agents of others.
batch.py and network.py are the policy, rollout.py plays with it, train.py and imitate.py (which
teacher.py helps, and updates.py both) improve it, course.py is both one after the other,
checkpoint.py keeps what came of it. training.py, files.py, journal.py, kept.py and ranks.py are
about long trainings, which are interrupted and shared. All these import torch; policy.py, which
asks a trained policy, does not: scorer.py computes in NumPy what network.py does, from what
weights.py has read, and shape.py says what both are made of.
"""

import os

__all__: list[str] = []

# Without this dgl writes a file that says which backend it takes.
os.environ.setdefault("DGLBACKEND", "pytorch")
# Else torch says in many lines of its own that a process does not answer; read at its import.
os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "FATAL")
