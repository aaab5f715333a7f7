"""The Excel sheets of Moirai (2023): the time of each op on each device, and of each transfer.

A row an op: ``task`` its id, ``dir_succ`` the ops that follow, ``c_task`` an id for the transfer
to each of them, ``p0 p1 ...`` the time on each device, ``pc01 ...`` the time of each transfer
between two devices, ``mi`` the op's memory; the first row has the devices' memory ``m0 m1 ...``.
Several of one cell are joined by commas. Each edge is a transfer of its own, so it is a value of
its own here. No unit is stated.
"""

import io
import re
from collections.abc import Mapping, Sequence

import numpy as np

from dplace.cluster import Cluster, Device
from dplace.errors import InputError
from dplace.graph_io.cost_graphs.cost_graph import CostGraph
from dplace.graph_io.cost_graphs.draft import Draft, DraftOp, DraftValue, bytes_of, seconds_of

__all__ = ["looks_like_excel", "read_moirai"]

_SIGNATURES = (
    b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",
    b"\x09\x00",
    b"\x09\x02",
    b"\x09\x04",
    b"\x09\x08",
)
"""A compound file, or a bare stream of one of the older versions."""

_LARGE_BYTES = 10**11
"""More than a device of that time had."""

Row = Mapping[str, str]


def looks_like_excel(content: bytes) -> bool:
    """Return whether a file begins as an Excel file of the old kind does."""
    return content.startswith(_SIGNATURES)


def read_moirai(content: bytes, source: str, name: str) -> CostGraph:
    """Return the cost graph of the first sheet.

    Raises:
        InputError: The file cannot be read, a column is missing, or a cell is wrong.
    """
    header, rows = _rows(content, source)
    num = _num_devices(header, source)
    draft = Draft(source=source, name=name)
    for row in rows:
        op, values = _op(row, num, source)
        draft.ops.append(op)
        draft.values += values
    graph, seconds, transfer_s = draft.finish()
    caps = [bytes_of(rows[0][f"m{d}"], f"{source}: m{d}") for d in range(num)]
    for device, cap in enumerate(caps):
        if cap < 1:
            raise InputError(f"{source}: m{device}: expected a size above 0, got {cap}")
    if transfer_s is None:
        transfer_s = np.zeros((0, num, num))
    return CostGraph(
        graph=graph,
        kinds=tuple(f"p{device}" for device in range(num)),
        seconds=seconds,
        transfer_s=transfer_s,
        cluster=_cluster(caps),
        machine="moirai",
        format="moirai",
        unit="file units",
        warnings=_warnings(caps, name),
    )


def _rows(content: bytes, source: str) -> tuple[list[str], list[Row]]:
    """Return the header and the rows of ops; notes below them are left out."""
    import xlrd

    try:
        # It would complain of oddities on standard output.
        with xlrd.open_workbook(file_contents=content, logfile=io.StringIO()) as book:
            sheet = book.sheet_by_index(0)
            cells = [[_text(cell) for cell in sheet.row(at)] for at in range(sheet.nrows)]
    except Exception as error:  # xlrd meets a broken file with errors of every kind
        raise InputError(
            f"{source}: not an Excel file that can be read, or a truncated one: "
            f"{' '.join(str(error).split()) or type(error).__name__}"
        ) from error
    if not cells or "task" not in cells[0]:
        raise InputError(f"{source}: expected a sheet whose first row has a column task")
    header = cells[0]
    for column in ("dir_succ", "c_task", "mi"):
        if column not in header:
            raise InputError(f"{source}: the column {column} is missing")
    rows: list[Row] = []
    for at, line in enumerate(cells[1:], start=2):
        row = dict(zip(header, line, strict=True))
        is_number = re.fullmatch(r"\d+", row["task"]) is not None
        if not is_number and not any(row[column] for column in header if column != "task"):
            continue  # blank, or a note
        if not is_number:
            raise InputError(f"{source}: row {at}: task: expected an id, got {row['task'][:40]!r}")
        rows.append(row)
    if not rows:
        raise InputError(f"{source}: expected at least one op, got none")
    return header, rows


def _text(cell: object) -> str:
    """Return a cell as text; numbers that are whole without a point."""
    value = getattr(cell, "value", "")
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value).strip()


def _num_devices(header: Sequence[str], source: str) -> int:
    num = 0
    while f"p{num}" in header:
        num += 1
    needed = [f"pc{a}{b}" for a in range(num) for b in range(num)] + [f"m{d}" for d in range(num)]
    missing = [column for column in needed if column not in header]
    if not num or missing:
        raise InputError(f"{source}: the column {missing[0] if missing else 'p0'} is missing")
    return num


def _op(row: Row, num: int, source: str) -> tuple[DraftOp, list[DraftValue]]:
    """Return an op, and a value for each op that follows it."""
    op_id = row["task"]
    where = f"{source}: task {op_id}"
    times = [_seconds(row[f"p{device}"], f"{where}: p{device}") for device in range(num)]
    op = DraftOp(
        id=op_id,
        label=f"task {op_id}",
        seconds=times,
        memory_bytes=bytes_of(row["mi"], f"{where}: mi"),
    )
    followers, names = _split(row["dir_succ"]), _split(row["c_task"])
    if names and len(names) != len(followers):
        raise InputError(
            f"{where}: expected a transfer in c_task for each of {len(followers)} ops in "
            f"dir_succ, got {len(names)}"
        )
    # A virtual source starts the others and moves nothing: it has no transfers.
    tables = np.zeros((len(followers), num, num))
    for a in range(num):
        for b in range(num if names else 0):
            column = f"pc{a}{b}"
            costs = _split(row[column])
            if len(costs) != len(followers):
                raise InputError(
                    f"{where}: {column}: expected {len(followers)} times, one for each "
                    f"transfer, got {len(costs)}"
                )
            tables[:, a, b] = [_seconds(cost, f"{where}: {column}") for cost in costs]
            if a == b and tables[:, a, a].any():
                raise InputError(f"{where}: {column}: expected 0 within one device")
    return op, [
        DraftValue(
            name=names[at] if names else f"{op_id}-{follower}",
            producer=op_id,
            consumers=[follower],
            seconds=tables[at].tolist(),
        )
        for at, follower in enumerate(followers)
    ]


def _split(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]


def _seconds(text: str, where: str) -> float:
    return seconds_of(text, where, unit_s=1e-3, unit="file units")


def _cluster(caps: Sequence[int]) -> Cluster:
    num = len(caps)
    return Cluster(
        spec=f"{num} devices of the file",
        devices=tuple(
            Device(
                name=f"device:{index}",
                kind=f"p{index}",
                provider="none",
                index=index,
                host=0,
                memory_bytes=cap,
                call_overhead_s=0.0,
            )
            for index, cap in enumerate(caps)
        ),
        latency_s=np.zeros((num, num)),
        bytes_per_s=np.full((num, num), np.inf),
        host_latency_s=np.zeros(num),
        host_bytes_per_s=np.full(num, np.inf),
        contention="egress-ingress",
    )


def _warnings(caps: Sequence[int], name: str) -> tuple[str, ...]:
    """Return a warning if the devices' memory looks like bits."""
    if max(caps) < _LARGE_BYTES:
        return ()
    sentence = (
        f"{name}: the columns mi and m0, m1, ... look like bits (a device of "
        f"{max(caps) / 1e9:.0f} GB); they are taken as bytes, as the file has them"
    )
    return (sentence,)
