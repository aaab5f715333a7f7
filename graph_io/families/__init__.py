"""Families of real, runnable ONNX models with random weights.

``generate`` yields the members of a family, ``write_family`` writes them as files; a family is a
function from a random generator to a model, one file each (read ``two_tower.py`` first). All
have a dynamic ``batch``; ``transformer`` has a dynamic ``sequence`` and ``lstm`` a dynamic
``time`` as well, and run in the times that ``generate`` states at batch 1 and length 128. For
those two, token ids may be anything from 0 to 1,023.
"""

from dplace.graph_io.families.members import FAMILIES, Family, generate
from dplace.graph_io.families.write import write_family

__all__ = ["FAMILIES", "Family", "generate", "write_family"]
