"""The text profiles of PipeDream (Narayanan et al., SOSP 2019), which DAPPLE's planner reads too.

One line an op, times in ms and sizes in bytes::

    node4 -- Linear(8, 8) -- forward_compute_time=0.073, backward_compute_time=0.1,
        activation_size=64.0, parameter_size=256.0

(on one line), then a line with a tab for each edge: ``node4 -- node5``. An op with several outputs
lists their sizes, ``[64.0; 32.0]``; edges do not say which of them they read, so all go together.
"""

import re

from dplace.errors import InputError
from dplace.graph_io.cost_graphs.cost_graph import ANY_KIND, CostGraph
from dplace.graph_io.cost_graphs.draft import Draft, DraftOp, DraftValue, bytes_of, seconds_of

__all__ = ["looks_like_pipedream", "read_pipedream"]

_FIELDS = ("forward_compute_time", "backward_compute_time", "activation_size", "parameter_size")
_PAIR = re.compile(r"\s*([A-Za-z_]\w*)\s*=\s*(\[[^\]]*\]?|[^,]*)\s*(?:,|$)")
_START = re.compile(r"\s*\S+ -- \S")


def looks_like_pipedream(text: str) -> bool:
    """Return whether a text begins as such a profile does.

    >>> looks_like_pipedream("node1 -- Input0 -- forward_compute_time=0.000, ...")
    True
    """
    first = next((line for line in text.splitlines() if line.strip()), "")
    return _START.match(first) is not None


def read_pipedream(text: str, source: str, name: str, *, training: bool = False) -> CostGraph:
    """Return the cost graph of a profile.

    Args:
        text: The content of the file.
        source: The file, for messages.
        name: Name of the graph.
        training: Add the backward times to the forward times.

    Raises:
        InputError: A line cannot be read, or ids or edges do not fit together.
    """
    draft = Draft(source=source, name=name)
    edges: list[tuple[str, str]] = []
    sizes: dict[str, int] = {}
    for position, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        where = f"{source}: line {position}"
        if line[0] in "\t ":
            edges.append(_edge(line, where))
        else:
            op, size = _op(line, where, training=training)
            draft.ops.append(op)
            sizes.setdefault(op.id, size)
    readers: dict[str, list[str]] = {op_id: [] for op_id in sizes}
    for producer, consumer in edges:
        readers.setdefault(producer, []).append(consumer)
    draft.values = [
        DraftValue(name=op_id, producer=op_id, consumers=consumers, size_bytes=sizes.get(op_id, 0))
        for op_id, consumers in readers.items()
    ]
    graph, seconds, _ = draft.finish()
    return CostGraph(
        graph=graph,
        kinds=(ANY_KIND,),
        seconds=seconds,
        machine="native",
        format="pipedream-training" if training else "pipedream",
    )


def _op(line: str, where: str, *, training: bool) -> tuple[DraftOp, int]:
    """Return an op and the bytes of what it makes."""
    parts = line.rstrip().split(" -- ")
    # A description may hold the separator; what follows the figures is a stage of a partition.
    at = next((n for n, part in enumerate(parts) if n > 1 and "forward_compute" in part), None)
    if at is None:
        raise InputError(
            f"{where}: expected ID -- DESCRIPTION -- forward_compute_time=..., ...; "
            "the file may be truncated"
        )
    op_id, description = parts[0].strip(), " -- ".join(parts[1:at])
    fields: dict[str, str] = {}
    for match in _PAIR.finditer(parts[at]):
        fields[match[1]] = match[2].strip()
    for field in _FIELDS:
        if not fields.get(field):
            raise InputError(f"{where}: {field} is missing; the file may be truncated")
    forward_s, backward_s = (
        seconds_of(fields[field], f"{where}: {field}", unit_s=1e-3, unit="ms")
        for field in _FIELDS[:2]
    )
    op = DraftOp(
        id=op_id,
        label=description.split("(")[0].strip() or op_id,
        seconds=(forward_s + backward_s if training else forward_s,),
        memory_bytes=bytes_of(fields["parameter_size"], f"{where}: parameter_size"),
    )
    return op, _activation_bytes(fields["activation_size"], f"{where}: activation_size")


def _activation_bytes(text: str, where: str) -> int:
    if not text.startswith("["):
        return bytes_of(text, where)
    if not text.endswith("]"):
        raise InputError(f"{where}: expected a list in brackets, got {text[:40]!r}")
    return sum(bytes_of(size, where) for size in text[1:-1].split(";") if size.strip())


def _edge(line: str, where: str) -> tuple[str, str]:
    ends = [end.strip() for end in line.split("--")]
    if len(ends) != 2 or not all(ends):
        raise InputError(
            f"{where}: expected an edge SOURCE -- TARGET, got {line.strip()[:40]!r}; "
            "the file may be truncated"
        )
    return ends[0], ends[1]
