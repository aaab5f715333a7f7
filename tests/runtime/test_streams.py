"""Streamed weights: what is computed, in which order they come, and how much room they take."""

import errno
import os
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx.numpy_helper
import pytest
from numpy.typing import NDArray

from dplace.errors import DplaceError, PlanError
from dplace.plan.records import Plan
from dplace.runtime.part import LoadedPart
from dplace.runtime.placed_session import PlacedSession
from dplace.runtime.streams import Streamer
from dplace.runtime.values import Held
from tests.runtime.plans import given, graph, make_plan, node, node_model

WIDTH = 64
SIZE = WIDTH * WIDTH * 4
"""Bytes of a square weight."""
X = np.random.default_rng(1).standard_normal((2, WIDTH)).astype(np.float32)


def square(seed: int, blocks: int = 1) -> NDArray[np.float32]:
    """Return a weight of as many square blocks, side by side."""
    weight = np.random.default_rng(seed).standard_normal((WIDTH, WIDTH * blocks)) / 8
    return weight.astype(np.float32)


def chain_plan(folder: Path, blocks: Sequence[int], room: int, *, num_devices: int = 2) -> Plan:
    """Return a chain of products by turns on the devices, each with a streamed weight.

    Args:
        folder: To write to.
        blocks: Size of each weight; of its product the first block goes on.
        room: Of each device, in blocks.
    """
    weights = {f"w{at}": ("host", square(at, count)) for at, count in enumerate(blocks)}
    parts: dict[str, tuple[str, onnx.ModelProto]] = {}
    programs: dict[str, list[str]] = {f"cpu:{index}": [] for index in range(num_devices)}
    for at in range(len(blocks)):
        device, before = f"cpu:{at % num_devices}", f"y{at - 1}" if at else "x"
        model = graph(
            [
                node("MatMul", [before, f"w{at}"], ["whole"]),
                node("Slice", ["whole", "first", "end", "axis"], [f"y{at}"]),
            ],
            [given(before, shape=[2, WIDTH]), given(f"w{at}", shape=weights[f"w{at}"][1].shape)],
            [given(f"y{at}")],
            [
                onnx.numpy_helper.from_array(np.array([number]), name)
                for name, number in (("first", 0), ("end", WIDTH), ("axis", 1))
            ],
        )
        parts[f"p{at}"] = (device, model)
        if at and num_devices > 1:
            programs[f"cpu:{(at - 1) % num_devices}"].append(f"send {before} {device}")
            programs[device].append(f"receive {before} cpu:{(at - 1) % num_devices}")
        programs[device] += [f"receive w{at} host", f"run p{at}"]
    return make_plan(
        folder,
        parts,
        programs,
        inputs=[given("x", shape=[2, WIDTH])],
        outputs=[given(f"y{len(blocks) - 1}")],
        streamed=weights,
        buffers=dict.fromkeys(programs, room * SIZE),
    )


def chain_result(blocks: Sequence[int], x: NDArray[np.float32] = X) -> NDArray[np.float32]:
    for at, count in enumerate(blocks):
        x = x @ square(at, count)[:, :WIDTH]
    return x


BLOCKS = (1, 3, 2, 1, 1, 3, 2, 2, 1, 3)


@pytest.mark.parametrize("num_devices", [1, 2, 3])
def test_weights_come_in_order_within_their_room_and_go(tmp_path: Path, num_devices: int) -> None:
    plan = chain_plan(tmp_path, BLOCKS, room=4, num_devices=num_devices)
    with PlacedSession(plan, folder=tmp_path) as session:
        streamers = session._streamers
        for streamer in streamers:
            streamer.log = []
        for _ in range(3):
            (got,) = session.run(None, {"x": X})
            np.testing.assert_allclose(got, chain_result(BLOCKS), rtol=1e-4, atol=1e-5)
        for index, streamer in enumerate(streamers):
            mine = list(range(index, len(BLOCKS), num_devices))
            assert streamer.log is not None
            assert [entry[1].name for entry in streamer.log] == [f"w{at}" for at in mine] * 3
            assert streamer.buffers.most_bytes <= 4 * SIZE
            assert streamer.buffers.held_bytes == 0
            assert streamer.brought_bytes == 3 * SIZE * sum(BLOCKS[at] for at in mine)


def test_the_next_weight_comes_while_a_part_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first part waits for the second weight, so this ends only if both overlap."""
    arrived = threading.Event()
    bring, run = Streamer._bring, LoadedPart.run

    def watched(self: Streamer, weight: Any, piece: Any, request: int) -> Held:
        held = bring(self, weight, piece, request)
        if weight.name == "w1":
            arrived.set()
        return held

    def waiting(self: LoadedPart, *arguments: Any) -> list[Held]:
        if self.name == "p0":
            assert arrived.wait(20)
        return run(self, *arguments)

    monkeypatch.setattr(Streamer, "_bring", watched)
    monkeypatch.setattr(LoadedPart, "run", waiting)
    plan = chain_plan(tmp_path, (1, 1, 1), room=2, num_devices=1)
    with PlacedSession(plan, folder=tmp_path) as session:
        (got,) = session.run(None, {"x": X})
    np.testing.assert_allclose(got, chain_result((1, 1, 1)), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("room", [3, 5])
def test_requests_overlap_safely(tmp_path: Path, room: int) -> None:
    plan = chain_plan(tmp_path, BLOCKS, room=room)
    faults: list[object] = []
    with PlacedSession(plan, folder=tmp_path) as session:
        inputs = [X * scale for scale in (1, 2, 3)]
        alone = [session.run(None, {"x": x})[0] for x in inputs]

        def call(at: int) -> None:
            for _ in range(5):
                (got,) = session.run(None, {"x": inputs[at]})
                if got.tobytes() != alone[at].tobytes():
                    faults.append(at)

        threads = [threading.Thread(target=call, args=(at,)) for at in range(len(inputs))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert not any(thread.is_alive() for thread in threads)
        assert not faults
        for streamer in session._streamers:
            assert streamer.buffers.held_bytes == 0
            assert streamer.buffers.most_bytes <= room * SIZE


def assert_emptied(session: PlacedSession) -> None:
    """Wait for the room of a request that has failed: a part may still be running."""
    given_up = time.monotonic() + 10
    while any(streamer.buffers.held_bytes for streamer in session._streamers):
        assert time.monotonic() < given_up
        time.sleep(0.01)


def two_outputs(folder: Path, home: str = "host", buffers: int = 2 * SIZE) -> Plan:
    """Return a plan with y = x @ v on cpu:0 and z = x @ w on cpu:1; v and w at ``home``."""
    return make_plan(
        folder,
        {
            name: (device, node_model("MatMul", ["x", weight], [name], shape=None))
            for name, weight, device in (("y", "v", "cpu:0"), ("z", "w", "cpu:1"))
        },
        {
            "cpu:0": [f"receive v {home}", "run y"] if home != "cpu:0" else ["run y"],
            "cpu:1": [f"receive w {home}", "run z"],
        },
        inputs=[given("x", shape=[2, WIDTH])],
        outputs=[given("y"), given("z")],
        streamed={"v": (home, square(5)), "w": (home, square(6))},
        buffers={"cpu:0": buffers, "cpu:1": buffers},
    )


def test_only_weights_that_are_needed_come(tmp_path: Path) -> None:
    with PlacedSession(two_outputs(tmp_path), folder=tmp_path) as session:
        (got,) = session.run(["z"], {"x": X})
        np.testing.assert_allclose(got, X @ square(6), rtol=1e-4, atol=1e-5)
        assert [streamer.brought_bytes for streamer in session._streamers] == [0, SIZE]


def test_weights_of_a_cpu_device_are_read_where_they_lie(tmp_path: Path) -> None:
    with PlacedSession(two_outputs(tmp_path, home="cpu:0"), folder=tmp_path) as session:
        assert not session._streamers
        for _ in range(2):
            y, z = session.run(None, {"x": X})
            np.testing.assert_allclose(y, X @ square(5), rtol=1e-4, atol=1e-5)
            np.testing.assert_allclose(z, X @ square(6), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "dtype", [np.float16, np.float64, np.int8, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn]
)
def test_weights_of_every_type_arrive(dtype: Any, tmp_path: Path) -> None:
    weight = np.arange(48).reshape(6, 8).astype(dtype)
    kind = onnx.helper.np_dtype_to_tensor_dtype(weight.dtype)
    plan = make_plan(
        tmp_path,
        {
            "p": (
                "cpu:0",
                graph(
                    [node("Cast", ["w"], ["v"], to=onnx.TensorProto.FLOAT), node("Add", "xv", "y")],
                    [given("x", shape=[6, 8]), given("w", kind, [6, 8])],
                    [given("y", shape=[6, 8])],
                ),
            )
        },
        {"cpu:0": ["receive w host", "run p"]},
        inputs=[given("x", shape=[6, 8])],
        outputs=[given("y", shape=[6, 8])],
        streamed={"w": ("host", weight)},
        buffers={"cpu:0": weight.nbytes},
    )
    with PlacedSession(plan, folder=tmp_path) as session:
        (got,) = session.run(None, {"x": np.zeros((6, 8), dtype=np.float32)})
    np.testing.assert_array_equal(got, weight.astype(np.float32))


def test_what_a_part_hands_on_does_not_lie_in_the_buffers(tmp_path: Path) -> None:
    """The weight itself comes out, reshaped; the next weight takes its room at once."""
    plan = make_plan(
        tmp_path,
        {
            "first": (
                "cpu:0",
                graph(
                    [node("Reshape", ["v", "n"], ["flat"])],
                    [given("v", shape=[WIDTH, WIDTH])],
                    [given("flat", shape=None)],
                    [onnx.numpy_helper.from_array(np.array([-1]), "n")],
                ),
            ),
            "second": ("cpu:0", node_model("MatMul", ["x", "w"], ["y"], shape=None)),
        },
        {"cpu:0": ["receive v host", "run first", "receive w host", "run second"]},
        inputs=[given("x", shape=[2, WIDTH])],
        outputs=[given("flat"), given("y")],
        streamed={"v": ("host", square(1)), "w": ("host", square(2))},
        buffers={"cpu:0": SIZE},
    )
    with PlacedSession(plan, folder=tmp_path) as session:
        flat, y = session.run(None, {"x": X})
        session.run(None, {"x": X})
    np.testing.assert_array_equal(flat, square(1).reshape(-1))
    np.testing.assert_allclose(y, X @ square(2), rtol=1e-4, atol=1e-5)


def test_without_streamed_weights_there_are_no_threads_for_them(
    there_and_back: Plan, tmp_path: Path
) -> None:
    with PlacedSession(there_and_back, folder=tmp_path) as session:
        assert not session._streamers
        names = [thread.name for thread in threading.enumerate()]
        assert not [name for name in names if name.startswith("dplace weights")]


def test_threads_end_with_the_session(tmp_path: Path) -> None:
    with PlacedSession(chain_plan(tmp_path, (1, 1), room=1), folder=tmp_path) as session:
        session.run(None, {"x": X})
        names = [thread.name for thread in threading.enumerate()]
        assert "dplace weights cpu:1" in names
    names = [thread.name for thread in threading.enumerate()]
    assert not [name for name in names if name.startswith("dplace weights")]


def test_a_weight_larger_than_the_buffers_is_refused(tmp_path: Path) -> None:
    plan = chain_plan(tmp_path, (1, 2), room=1)
    message = (
        'weight "w1" takes 32768 bytes, the buffers of cpu:1 have 16384; place the model again'
    )
    with pytest.raises(PlanError, match=message):
        PlacedSession(plan, folder=tmp_path)


def spoil(folder: Path, change: Callable[[Path], object]) -> None:
    change(folder / "parts" / "host.streamed")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda file: os.truncate(file, SIZE + 5),
            'parts/host.streamed is too short: weight "w1" ends at byte 32768, the file at 16389',
        ),
        (Path.unlink, "parts/host.streamed: cannot be read: No such file or directory"),
    ],
)
def test_a_file_that_is_short_or_missing_is_refused(
    change: Callable[[Path], object], message: str, tmp_path: Path
) -> None:
    plan = chain_plan(tmp_path, (1, 1), room=1)
    spoil(tmp_path, change)
    with pytest.raises(PlanError, match=message):
        PlacedSession(plan, folder=tmp_path)


def test_a_file_that_is_cut_meanwhile_ends_the_request(tmp_path: Path) -> None:
    plan = chain_plan(tmp_path, (1, 1, 1, 1), room=2)
    with PlacedSession(plan, folder=tmp_path) as session:
        session.run(None, {"x": X})
        spoil(tmp_path, lambda file: os.truncate(file, 2 * SIZE))
        with pytest.raises(PlanError, match='too short: weight "w[23]" ends at byte'):
            session.run(None, {"x": X})
        assert_emptied(session)


def test_a_disk_that_fails_ends_the_request_and_not_the_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = chain_plan(tmp_path, BLOCKS, room=3)
    is_broken = True

    def reading(file: int, buffers: Any, offset: int) -> int:
        if is_broken and offset:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return preadv(file, buffers, offset)

    preadv = os.preadv
    monkeypatch.setattr("dplace.runtime.streams.os.preadv", reading)
    with PlacedSession(plan, folder=tmp_path) as session:
        for _ in range(3):
            with pytest.raises(
                PlanError, match=r'weight "w\d": parts/host.streamed cannot be read: Input/output'
            ):
                session.run(None, {"x": X})
        is_broken = False
        (got,) = session.run(None, {"x": X})
        np.testing.assert_allclose(got, chain_result(BLOCKS), rtol=1e-4, atol=1e-5)
        assert_emptied(session)


def test_a_part_that_fails_gives_the_room_of_its_weights_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = LoadedPart.run
    fails = True

    def failing(self: LoadedPart, *arguments: Any) -> list[Held]:
        if fails and self.name == "p3":
            raise RuntimeError("broken")
        return run(self, *arguments)

    monkeypatch.setattr(LoadedPart, "run", failing)
    plan = chain_plan(tmp_path, BLOCKS, room=3)
    with PlacedSession(plan, folder=tmp_path) as session:
        for _ in range(3):
            with pytest.raises(DplaceError, match="part p3 on cpu:1"):
                session.run(None, {"x": X})
        fails = False
        (got,) = session.run(None, {"x": X})
        np.testing.assert_allclose(got, chain_result(BLOCKS), rtol=1e-4, atol=1e-5)
        assert_emptied(session)
