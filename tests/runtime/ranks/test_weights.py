"""Streamed weights: what is asked for when, and that no more comes than there is room for."""

import signal
import threading
from pathlib import Path

import numpy as np
import onnx
import pytest

from dplace.errors import PlanError
from dplace.plan.read import check_files
from dplace.plan.records import Plan, StreamedWeight
from dplace.runtime.placed_session import PlacedSession
from dplace.runtime.ranks.route import Values, plan_links, rank_routes
from dplace.runtime.ranks.session import RankSession
from dplace.runtime.ranks.weights import Incoming, Stream, begun, file_message
from dplace.runtime.streams import Homes
from tests.runtime.plans import given, graph, make_plan, node
from tests.runtime.ranks.processes import ended, errors, launches, on_rank_0, ranks, written

RNG = np.random.default_rng(0)
SIDE = 1100
LARGE = RNG.standard_normal((SIDE, SIDE)).astype(np.float32)  # more than one piece on a link


def stream(value: int, size_bytes: int) -> Stream:
    return Stream(value=value, source=1, priority=value, size_bytes=size_bytes)


class Target:
    """A target with room for 100 bytes, and what it has asked for."""

    def __init__(self, *sizes: int) -> None:
        self.asked: list[tuple[int, int]] = []
        weights = [
            StreamedWeight(
                name=f"w{number}",
                type="tensor(uint8)",
                shape=(size,),
                size_bytes=size,
                home="host",
                file="f",
                offset=0,
                digest="",
            )
            for number, size in enumerate(sizes)
        ]
        self.incoming = Incoming(
            100,
            weights,
            ask=lambda one, request: self.asked.append((request, one.value)),
            check=lambda: None,
        )

    def come(self, request: int, one: Stream) -> None:
        assert len(self.incoming.memory(request, one.value, one.size_bytes)) == one.size_bytes


def test_weights_are_asked_for_in_order_as_room_is_freed() -> None:
    streams = [stream(value, size) for value, size in enumerate((40, 50, 30, 10, 100))]
    target = Target(40, 50, 30, 10, 100)
    for request in (0, 1):
        target.asked.clear()
        target.incoming.begin(request, streams, 2)  # 40 + 50 fit and come unasked
        assert target.asked == []
        for one in streams[:2]:
            target.come(request, one)
        target.incoming.free(request, [1])  # 60 are free: 30 and 10 fit
        assert target.asked == [(request, 2), (request, 3)]
        target.come(request, streams[2])
        target.incoming.free(request, [0])  # but 100 do not yet
        target.incoming.free(request, [2])
        assert len(target.asked) == 2
        target.come(request, streams[3])
        target.incoming.free(request, [3])
        assert target.asked[2:] == [(request, 4)]
        target.incoming.free(request, [4])
        assert target.incoming.buffers.held_bytes == 0
    assert target.incoming.buffers.most_bytes == 100


def test_a_later_weight_never_overtakes_one_that_waits_for_room() -> None:
    streams = [stream(0, 60), stream(1, 60), stream(2, 10)]
    target = Target(60, 60, 10)
    target.incoming.begin(0, streams, 1)
    assert target.asked == []  # there is room for the last one, but it is not its turn
    target.incoming.free(0, [0])
    assert target.asked == [(0, 1), (0, 2)]


def test_a_weight_that_comes_before_its_request_begins_finds_room() -> None:
    streams = [stream(0, 60), stream(1, 60)]
    target = Target(60, 60)
    target.incoming.begin(0, streams, 1)
    target.incoming.free(0, [0])
    early = threading.Thread(target=target.come, args=(1, streams[0]))
    early.start()  # has to wait until the last weight of request 0 is freed
    early.join(0.05)
    assert early.is_alive()
    target.incoming.free(0, [1])
    early.join(10)
    assert not early.is_alive()
    target.incoming.begin(1, streams, 1)
    assert target.incoming.buffers.held_bytes == 60
    assert target.asked == [(0, 1)]


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    """x goes through three products on each device, whose weights come from everywhere."""

    def multiply(value: str, weight: str, result: str) -> onnx.ModelProto:
        return graph(
            [
                node("MatMul", [value, weight], [f"{result}_"]),
                node("Tanh", [f"{result}_"], [result]),
            ],
            [given(value), given(weight)],
            [given(result)],
        )

    scale = graph([node("Mul", ["e", "small"], ["f"])], [given("e"), given("small")], [given("f")])
    parts = {
        "p": ("cpu:0", multiply("x", "host_a", "a")),
        "q": ("cpu:0", multiply("a", "at_one", "b")),
        "r": ("cpu:1", multiply("b", "at_one", "c")),
        "s": ("cpu:1", multiply("c", "host_b", "d")),
        "t": ("cpu:1", multiply("d", "host_a", "e")),
        "u": ("cpu:1", scale),
    }
    return make_plan(
        tmp_path,
        parts,
        {
            "cpu:0": [
                "receive host_a host",
                "run p",
                "receive at_one cpu:1",
                "run q",
                "send b cpu:1",
            ],
            "cpu:1": [
                "send at_one cpu:0",
                "receive b cpu:0",
                "run r",
                "receive host_b host",
                "run s",
                "receive host_a host",
                "run t",
                "receive small host",
                "run u",
            ],
        },
        inputs=[given("x")],
        outputs=[given("f"), given("b")],
        streamed={
            "host_b": ("host", LARGE[:, ::-1].copy()),
            "host_a": ("host", LARGE),
            "at_one": ("cpu:1", LARGE[::-1].copy()),
            "small": ("host", np.float32(2.0).reshape(1)),
        },
        buffers={"cpu:0": LARGE.nbytes, "cpu:1": LARGE.nbytes + 4},
    )


def test_each_rank_knows_what_comes_to_all(plan: Plan) -> None:
    names = Values(plan).names
    first, second = rank_routes(plan, ["f", "b"])
    assert [(names[one.value], one.source) for one in first.streams] == [
        ("host_a", 0),
        ("at_one", 1),
    ]
    assert [(names[one.value], one.source) for one in second.streams] == [
        ("host_b", 0),
        ("host_a", 0),
        ("small", 0),
    ]
    assert (first.unasked, second.unasked) == (1, 1)
    assert [[names[value] for value in turn.frees] for turn in second.turns] == [
        [],
        ["host_b"],
        ["host_a"],
        ["small"],
    ]
    assert plan_links(plan) == ((0, 1), (1, 0))
    first, second = rank_routes(plan, ["b"])  # what no part that runs reads does not come
    assert [names[one.value] for one in first.streams] == ["host_a", "at_one"]
    assert (second.streams, second.turns) == ((), ())


def test_a_weight_that_is_read_ahead_of_its_turn_is_sent_whole(plan: Plan, tmp_path: Path) -> None:
    homes = Homes(plan, tmp_path)
    contents = {"host_a": LARGE.tobytes(), "small": np.float32(2.0).tobytes()}
    for weight in plan.streamed:
        if weight.name in contents:
            message = begun(file_message(weight, 7, 1, homes))
            pieces = message.pieces or iter([message.payload])
            assert b"".join(pieces) == contents[weight.name]
            assert (message.header.value, message.header.size_bytes) == (7, weight.size_bytes)
    homes.close()


def test_files_of_weights_have_to_be_where_their_home_is(plan: Plan, tmp_path: Path) -> None:
    (tmp_path / "parts" / "host.streamed").rename(tmp_path / "host")
    check_files(plan, tmp_path, device="cpu:1")
    with pytest.raises(PlanError, match="parts/host.streamed is missing"):
        check_files(plan, tmp_path, device="cpu:0")
    (tmp_path / "host").rename(tmp_path / "parts" / "host.streamed")
    (tmp_path / "parts" / "cpu-1.streamed").unlink()
    check_files(plan, tmp_path, device="cpu:0")
    with pytest.raises(PlanError, match="parts/cpu-1.streamed is missing"):
        check_files(plan, tmp_path, device="cpu:1")


def test_weights_come_to_ranks_that_have_room_for_few_until_ctrl_c_on_one(
    plan: Plan, tmp_path: Path
) -> None:
    folder, launched = written(plan, tmp_path), launches(2)
    x = RNG.standard_normal((3, SIDE)).astype(np.float32)
    with PlacedSession(plan, folder=tmp_path) as session:
        expected = session.run(None, {"x": x})

    def work(session: RankSession) -> None:
        for _ in range(2):
            for found, wanted in zip(session.run(None, {"x": x}), expected, strict=True):
                assert found.tobytes() == wanted.tobytes()
        assert session.run(["b"], {"x": x})[0].tobytes() == expected[1].tobytes()
        session.start_recording()
        session.run(None, {"x": x})
        moved = [
            (event.subject, event.device, event.peer, event.size_bytes)
            for event in session.stop_recording()
            if event.kind == "receive" and event.subject in {one.name for one in plan.streamed}
        ]
        assert sorted(moved) == [
            ("at_one", "cpu:0", "cpu:1", LARGE.nbytes),
            ("host_a", "cpu:0", "host", LARGE.nbytes),
            ("host_a", "cpu:1", "host", LARGE.nbytes),
            ("host_b", "cpu:1", "host", LARGE.nbytes),
            ("small", "cpu:1", "host", 4),
        ]
        process.send_signal(signal.SIGINT)
        while True:  # until this rank hears of it as well
            session.run(None, {"x": x})

    with ranks([folder], launched[1:]) as (process,):
        with pytest.raises(KeyboardInterrupt):
            on_rank_0(launched[0], folder, work)
        end = ended(process)
    assert (end.code, errors(end)) == (130, ["dplace: interrupted"])
