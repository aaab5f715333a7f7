"""Families of real, runnable ONNX models with random weights.

``generate`` yields the members of a family, ``write_family`` writes them as files, and
``split_members`` says which are for training a policy and which for testing it; a family is a
function from a random generator to a model, one file each (read ``two_tower.py`` first). All
have a dynamic ``batch``; ``transformer`` has a dynamic ``sequence`` and ``lstm`` a dynamic
``time`` as well, and run in the times that ``generate`` states at batch 1 and length 128. Where
a model takes token ids, they may be anything from 0 to 1,023.

``cifar10``, ``ptb`` and ``nmt`` are the families of Placeto (Addanki et al., *Placeto: Learning
Generalizable Device Placement Algorithms for Distributed Machine Learning*, 2019), several
hundred to 2,000 ops each. A batch of 128 for ``cifar10`` and of 1,024 for ``ptb`` and ``nmt`` gives
GPUs enough to do that several are faster than one
(``dplace place MODEL --cluster 4xV100 --dim batch=N``).
"""

from dplace.graph_io.families.members import (
    FAMILIES,
    Family,
    Split,
    SplitName,
    generate,
    split_members,
)
from dplace.graph_io.families.write import write_family

__all__ = [
    "FAMILIES",
    "Family",
    "Split",
    "SplitName",
    "generate",
    "split_members",
    "write_family",
]
