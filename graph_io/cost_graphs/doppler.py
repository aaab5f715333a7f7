"""The text of Doppler (Yao et al., ICLR 2026): an edge costs what its producer's line says.

Line 1 has the number of nodes, inputs included, line 2 the ids of the inputs, line 3 the sources
of the edges and line 4 their targets; then ``compute,communicate`` for each node that is not an
input, in id order, with the node's type behind it in some files.

In the files that came with the format, edges number the nodes that are not inputs from 0 on and
do not name inputs at all. Where an edge names an id that is too large for that, ids are taken to
count the inputs as well. Inputs cost nothing and move for nothing, so they are left out.
"""

import re

from dplace.errors import InputError
from dplace.graph_io.cost_graphs.cost_graph import ANY_KIND, CostGraph
from dplace.graph_io.cost_graphs.draft import Draft, DraftOp, DraftValue, seconds_of

__all__ = ["looks_like_doppler", "read_doppler"]

_UNIT_S = 1e-13
"""The authors divide a makespan by 1e10; what comes out is taken as ms."""


def looks_like_doppler(text: str) -> bool:
    r"""Return whether a text begins with a line that is a number and one that is a list.

    >>> looks_like_doppler("112\n0, 1, 2, ")
    True
    """
    return re.match(r"\s*\d+[ \t]*\r?\n[\d,\s]*(\n|$)", text) is not None


def read_doppler(text: str, source: str, name: str) -> CostGraph:
    """Return the cost graph of a file.

    Raises:
        InputError: A line is missing or cannot be read, or ids do not fit together.
    """
    lines = [line.strip() for line in text.splitlines()]
    while lines and not lines[-1]:
        lines.pop()
    if len(lines) < 4 or not re.fullmatch(r"\d{1,9}", lines[0]):
        raise InputError(
            f"{source}: expected the number of nodes, then a line each of inputs, of sources and "
            f"of targets of edges, got {len(lines)} lines; the file may be truncated"
        )
    num_nodes = int(lines[0])
    inputs = _ids(lines[1], f"{source}: line 2")
    sources, targets = (_ids(lines[at], f"{source}: line {at + 1}") for at in (2, 3))
    if len(sources) != len(targets):
        raise InputError(
            f"{source}: line 3 has {len(sources)} sources of edges and line 4 {len(targets)} "
            "targets; expected equally many, and the file may be truncated"
        )
    if len(set(inputs)) != len(inputs):
        twice = next(node for node in inputs if inputs.count(node) > 1)
        raise InputError(f"{source}: line 2: input {twice} is used twice")
    costs, num_ops = lines[4:], num_nodes - len(inputs)
    if len(costs) != num_ops:
        hint = "; the file may be truncated" if len(costs) < num_ops else ""
        raise InputError(
            f"{source}: expected {num_ops} lines of costs for {num_nodes} nodes of which "
            f"{len(inputs)} are inputs, got {len(costs)}{hint}"
        )
    given = set(inputs) if max([*sources, *targets], default=0) >= num_ops else set[int]()
    ids = [node for node in range(num_nodes) if node not in given][:num_ops]
    draft = Draft(source=source, name=name)
    for position, (node, line) in enumerate(zip(ids, costs, strict=True)):
        op, value = _op(str(node), line, f"{source}: line {position + 5}")
        draft.ops.append(op)
        draft.values.append(value)
    made = dict(zip(ids, draft.values, strict=True))
    for producer, consumer in zip(sources, targets, strict=True):
        where = f"{source}: edge {producer} -> {consumer}"
        for node in (producer, consumer):
            if node not in made and node not in given:
                raise InputError(f"{where}: no node has the id {node}")
        if consumer in given:
            raise InputError(f"{where}: {consumer} is an input, which reads nothing")
        if producer in made:
            made[producer].consumers.append(str(consumer))
    graph, seconds, transfer_s = draft.finish()
    return CostGraph(
        graph=graph,
        kinds=(ANY_KIND,),
        seconds=seconds,
        transfer_s=transfer_s,
        machine="independent",
        format="doppler",
        unit="file units / 1e10",
        unit_s=_UNIT_S * 1e10,
    )


def _op(op_id: str, line: str, where: str) -> tuple[DraftOp, DraftValue]:
    fields = [field.strip() for field in line.split(",")]
    while fields and not fields[-1]:
        fields.pop()
    if len(fields) < 2:
        raise InputError(f"{where}: expected compute,communicate, got {line[:40]!r}")
    compute_s, move_s = (
        seconds_of(field, f"{where}: {word}", unit_s=_UNIT_S, unit="file units")
        for word, field in zip(("compute", "communicate"), fields[:2], strict=True)
    )
    label = fields[-1] if re.fullmatch(r"[A-Za-z_]\w*", fields[-1]) else f"node {op_id}"
    return (
        DraftOp(id=op_id, label=label, seconds=(compute_s,)),
        DraftValue(name=op_id, producer=op_id, consumers=[], seconds=move_s),
    )


def _ids(line: str, where: str) -> list[int]:
    ids: list[int] = []
    for text in line.split(","):
        if not text.strip():
            continue
        if not re.fullmatch(r"\s*\d{1,9}\s*", text):
            raise InputError(f"{where}: expected ids, whole numbers, got {text.strip()[:40]!r}")
        ids.append(int(text))
    return ids
