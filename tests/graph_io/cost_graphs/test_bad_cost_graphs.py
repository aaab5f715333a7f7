"""Files of costs with one fault each: one clear line that names it."""

from pathlib import Path
from typing import Any

import pytest

from dplace.errors import InputError, UsageError
from dplace.graph_io.cost_graphs import read_cost_graph
from tests.graph_io.cost_graphs.files import (
    diamond,
    doppler,
    excel,
    moirai_rows,
    own,
    pipedream,
    text,
)


def fault(tmp_path: Path, content: bytes | str, format: str | None = None) -> str:
    path = tmp_path / "g"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(InputError) as raised:
        read_cost_graph(path, format)
    message = str(raised.value)
    assert "\n" not in message
    assert message.startswith(f"{path}: ")
    return message.removeprefix(f"{path}: ")


def changed_node(position: int, **changes: Any) -> str:
    """Return the JSON of dnn-partitioning with one node changed; node 0 has the id 4."""
    nodes = diamond()["nodes"]
    nodes[position] |= changes
    return text(diamond(nodes=nodes))


def changed_op(position: int, **changes: Any) -> str:
    ops = own()["ops"]
    ops[position] |= changes
    return text(own(ops=ops))


@pytest.mark.parametrize("cost", ["-1", "NaN", "Infinity", "-Infinity", "1e999", '"2 ms"', "null"])
def test_a_cost_that_is_no_time_is_refused(tmp_path: Path, cost: str) -> None:
    content = changed_node(0, fpgaLatency=12345).replace("12345", cost)
    message = fault(tmp_path, content)
    assert message.startswith("node 4: fpgaLatency: expected a time in file units")


@pytest.mark.parametrize("cost", ["-1", "nan", "inf", "1e999", "3ms", "[1; 2]"])
def test_a_time_in_text_is_refused_with_its_line(tmp_path: Path, cost: str) -> None:
    content = pipedream().replace("forward_compute_time=2.000", f"forward_compute_time={cost}")
    message = fault(tmp_path, content)
    assert message.startswith("line 2: forward_compute_time: expected a time in ms")


def test_a_negative_size_is_refused(tmp_path: Path) -> None:
    assert "node 3: size" in fault(tmp_path, changed_node(1, size=-5))
    edges = diamond()["edges"]
    edges[3]["cost"] = -1
    assert "edge 3 -> 4: cost" in fault(tmp_path, text(diamond(edges=edges)))


def test_a_cycle_is_named(tmp_path: Path) -> None:
    edges = [{"sourceId": a, "destId": b, "cost": 0} for a, b in ((3, 4), (4, 2), (2, 3), (3, 1))]
    message = fault(tmp_path, text(diamond(edges=edges)))
    assert message == "the graph has a cycle: 4 -> 2 -> 3 -> 4"  # 4 stands first in the file


def test_an_op_that_reads_itself_is_a_cycle(tmp_path: Path) -> None:
    edges = [{"sourceId": 2, "destId": 2, "cost": 0}]
    assert fault(tmp_path, text(diamond(edges=edges))).endswith("cycle: 2 -> 2")


def test_a_long_cycle_is_shortened(tmp_path: Path) -> None:
    ops = [{"id": n, "seconds": 1} for n in range(1000)]
    values = [{"from": n, "to": (n + 1) % 1000, "bytes": 1} for n in range(1000)]
    message = fault(
        tmp_path,
        text({"format": "dplace-cost-graph", "version": 1, "ops": ops} | {"values": values}),
    )
    assert "0 -> 1 -> 2" in message
    assert message.endswith("-> 11 -> (988 more) -> 0")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (changed_node(0, id=1), "id 1 is used twice, by ops 1 and 4 of the file"),
        (text(diamond(nodes=diamond()["nodes"][1:])), "edge 3 -> 4: no op has the id 4"),
        (pipedream().replace("nodeb", "nodea"), "id nodea is used twice"),
        (pipedream().replace("\tnodeb -- noded", "\tnodeb -- nodeq"), "nodeb -> nodeq: no op"),
        (pipedream().replace("\tnodeb -- noded", "\tnodeq -- noded"), "nodeq -> noded: no op"),
        (doppler().replace("4, 5, ", "4, 4, "), "line 2: input 4 is used twice"),
        (doppler().replace("1, 2, 3, 3,", "1, 2, 3, 9,"), "edge 2 -> 9: no node has the id 9"),
        (doppler().replace("1, 2, 3, 3,", "1, 2, 3, 4,"), "edge 2 -> 4: 4 is an input"),
        (changed_op(0, id="b"), "id b is used twice"),
        (changed_op(0, id="q"), "edge a -> b: no op has the id a"),
    ],
)
def test_ids_used_twice_or_missing_are_named(tmp_path: Path, content: str, words: str) -> None:
    assert words in fault(tmp_path, content)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (text(diamond())[:300], "not JSON, or truncated"),
        (pipedream()[:150], "line 2: expected ID -- DESCRIPTION"),
        (pipedream()[:190], "line 2: backward_compute_time is missing; the file may be truncated"),
        (pipedream()[:-8], "line 8: expected an edge SOURCE -- TARGET, got 'nodec -'"),
        (doppler()[:20], "the file may be truncated"),
        (doppler().rpartition("\n")[0], "expected 4 lines of costs for 6 nodes"),
        (doppler() + "\n1,1", "got 5"),
        (doppler().replace("1, 2, 3, 3,", "1, 2, 3,"), "4 sources of edges and line 4 3 targets"),
        (excel(moirai_rows())[:100], "expected a sheet|column|Excel file"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(700), "not an Excel file that can be read"),
    ],
)
def test_a_truncated_file_is_named(tmp_path: Path, content: bytes | str, words: str) -> None:
    message = fault(tmp_path, content)
    assert any(part in message for part in words.split("|")), message


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (text(own(version=2)), "version: expected 1, got 2"),
        (text(own(format="other")), 'format: expected "dplace-cost-graph"'),
        (changed_op(1, ms=2), "op b: unknown field 'ms'"),
        (changed_op(1, seconds="2 ms"), "op b: seconds: expected a number of seconds"),
        (
            changed_op(1, seconds=[1, 2, 3]),
            "op b: seconds: expected 2 times, for fast, slow, got 3",
        ),
        (changed_op(1, seconds=[1, -2]), "op b: seconds: expected a time in seconds"),
        (changed_op(1, memory_bytes=2**60), "op b: memory_bytes: expected a size of at most"),
        (text(own(ops=[])), "expected at least one op"),
        (text(own(ops={"a": 1})), "ops: expected a list of objects"),
        (text(own(kinds=["fast", "fast"])), "kinds: a name is used twice"),
        (text(own(machine="theirs")), "machine: expected one of native"),
        (text(own(default_kind="medium")), "default_kind: expected one of fast, slow"),
        (text(own(devices=[])), "devices: expected a list of at least one"),
        (text(own(devices=[{"kind": "medium"}])), "device 0: kind: expected one of fast, slow"),
        (text(own(devices=[{"kind": "fast", "memory_bytes": 0}])), "memory_bytes: expected a size"),
        (text(own(links={"speed": 1})), "links: unknown field 'speed'"),
        (text(own(links={"bytes_per_s": 0})), "links: bytes_per_s: expected a rate above 0"),
        (text(own(links={"contention": "all"})), "links: contention: expected one of none"),
        (text(own(links={"latency_s": [[1]]})), "latency_s: expected a number, or a row for each"),
        (text(own(values=[{"from": "a", "to": "b"}])), "value 1 (a -> b): expected bytes or sec"),
        (
            text(own(values=[{"from": "a", "to": "b", "bytes": 1, "seconds": [[0, 1], [1, 0]]}])),
            "seconds: expected a number, or a row for each of 3 devices",
        ),
        (
            text(
                own(
                    values=[
                        {"name": "x", "from": "a", "to": "b", "seconds": 1},
                        {"name": "y", "from": "a", "to": "c", "bytes": 1},
                    ]
                )
            ),
            "value x has a time of transfer and y has none",
        ),
        (text({k: v for k, v in own().items() if k != "links"}), "add links"),
        ("{}", "expected the fields of dplace's cost graphs"),
        ("[" * 100_000, "not a cost graph in any format"),
        ('{"ops":' + "[" * 100_000, "not JSON"),
        ("   \n", "got an empty file"),
        ("hello", "not a cost graph in any format that is known (dnn-partitioning, doppler"),
        (text(diamond(maxFPGAs=0, maxCPUs=0)), "expected 1 to 1024 devices, got 0"),
        (text(diamond(maxFPGAs=2.5)), "maxFPGAs: expected a whole number"),
        (text(diamond(maxSizePerFPGA=0)), "maxSizePerFPGA: expected a size above 0"),
        (text(diamond(edges=[{"sourceId": 1, "destId": 2}])), "edge 1 -> 2: the field cost"),
    ],
)
def test_a_wrong_field_is_named(tmp_path: Path, content: str, words: str) -> None:
    assert words in fault(tmp_path, content)


def test_edges_of_one_source_that_cost_unlike_are_named(tmp_path: Path) -> None:
    edges = diamond()["edges"]
    edges[1]["cost"] = 0.75
    message = fault(tmp_path, text(diamond(edges=edges)))
    assert message.startswith("edge 1 -> 3: cost 0.75 differs from that of 1 -> 2")


@pytest.mark.parametrize(
    ("row", "column", "cell", "words"),
    [
        (2, 4, -1, "task 1: p0: expected a time"),
        (2, 4, "", "task 1: p0: expected a time"),
        (2, 7, "0.5", "task 1: pc01: expected 2 times, one for each transfer, got 1"),
        (2, 6, "1,1", "task 1: pc00: expected 0 within one device"),
        (2, 1, "2", "task 1: expected a transfer in c_task for each of 2 ops in dir_succ, got 1"),
        (3, 2, 99, "edge 4 -> 99: no op has the id 99"),
        (4, 0, 4, "id 4 is used twice"),
        (4, 0, "x", "row 5: task: expected an id, got 'x'"),
        (0, 0, "job", "expected a sheet whose first row has a column task"),
        (0, 10, "memory", "the column mi is missing"),
        (0, 9, "pc12", "the column pc11 is missing"),
        (1, 11, 0, "m0: expected a size above 0"),
    ],
)
def test_a_wrong_cell_is_named(
    tmp_path: Path, row: int, column: int, cell: float | str, words: str
) -> None:
    rows = moirai_rows()
    rows[row][column] = cell
    assert words in fault(tmp_path, excel(rows))


def test_a_format_that_does_not_exist_is_refused_with_the_list(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--format moira: expected one of dnn-partitioning, "):
        read_cost_graph(tmp_path / "g", "moira")


@pytest.mark.parametrize("format", ["dnn-partitioning", "dplace", "moirai", "doppler"])
def test_a_file_of_another_format_than_was_said_is_refused(tmp_path: Path, format: str) -> None:
    fault(tmp_path, pipedream(), format)


def test_what_cannot_be_opened_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nothing: there is no such file"):
        read_cost_graph(tmp_path / "nothing")
    with pytest.raises(InputError, match="expected a file, got a folder"):
        read_cost_graph(tmp_path)
