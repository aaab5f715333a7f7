"""What a session notes of the parts that it runs, against what its plan says."""

import itertools
import threading
from pathlib import Path

import numpy as np

from dplace.runtime.devices import RunDevice
from dplace.runtime.placed_session import PlacedSession
from dplace.runtime.recording import Recording
from dplace.runtime.route import Task
from dplace.runtime.worker import Worker
from tests.runtime.plans import given, make_plan, node_model
from tests.runtime.test_streams import X as ROW
from tests.runtime.test_streams import chain_plan

X = np.array([-1.0, 0.0, 2.0], dtype=np.float32)


def test_nothing_is_noted_before_the_start_and_after_the_stop(session: PlacedSession) -> None:
    session.run(None, {"x": X})
    assert session.take_events() == []
    session.start_recording()
    session.run(None, {"x": X})
    assert len(session.stop_recording()) == 3
    session.run(None, {"x": X})
    assert session.take_events() == []
    assert session.stop_recording() == []


def test_outputs_are_the_same_whether_it_is_recorded_or_not(session: PlacedSession) -> None:
    before = session.run(None, {"x": X})
    session.start_recording()
    recorded = session.run(None, {"x": X})
    session.stop_recording()
    after = session.run(None, {"x": X})
    for one, other, third in zip(before, recorded, after, strict=True):
        np.testing.assert_array_equal(one, other)
        np.testing.assert_array_equal(one, third)


def test_each_part_is_there_once_in_program_order_and_after_what_it_reads(
    session: PlacedSession,
) -> None:
    plan = session.plan
    session.run(None, {"x": X})
    session.start_recording()
    for _ in range(20):
        session.run(None, {"x": X})
    events = session.take_events()
    assert [event.start_s for event in events] == sorted(event.start_s for event in events)
    assert sorted({event.request for event in events}) == list(range(20))
    for number in range(20):
        runs = {event.subject: event for event in events if event.request == number}
        assert len(runs) == len([event for event in events if event.request == number])
        assert set(runs) == {part.name for part in plan.parts}
        maker = {name: part.name for part in plan.parts for name in part.outputs}
        for part in plan.parts:
            run = runs[part.name]
            assert (run.kind, run.device, run.peer) == ("run", part.device, None)
            assert run.start_s <= run.end_s
            for name in part.inputs:
                assert name not in maker or runs[maker[name]].end_s <= run.start_s
    for device in plan.devices:
        mine = [event for event in events if event.device == device.name]
        program = [step.subject for step in device.program if step.action == "run"]
        assert [event.subject for event in mine] == program * 20
        for one, following in itertools.pairwise(mine):
            assert one.end_s <= following.start_s


def test_the_callers_own_thread_is_recorded_too(tmp_path: Path) -> None:
    plan = make_plan(
        tmp_path,
        {"only": ("cpu:0", node_model("Neg", ["x"], ["y"]))},
        {"cpu:0": ["run only"]},
        inputs=[given("x", shape=["N"])],
        outputs=[given("y", shape=["N"])],
    )
    with PlacedSession(plan, folder=tmp_path) as session:
        session.start_recording()
        session.run(None, {"x": X})
        (event,) = session.take_events()
        assert (event.subject, event.device, event.request) == ("only", "cpu:0", 0)


def test_requests_that_were_running_at_the_start_are_left_out(session: PlacedSession) -> None:
    session.start_recording()
    stop = threading.Event()

    def ask() -> None:
        while not stop.is_set():
            session.run(None, {"x": X})

    other = threading.Thread(target=ask)
    other.start()
    try:
        for _ in range(20):
            session.start_recording()
            session.run(None, {"x": X})
            events = session.take_events()
            assert min(event.request for event in events) >= 0
    finally:
        stop.set()
        other.join()


def test_a_copy_says_what_went_where() -> None:
    gpu = RunDevice(name="gpu:0", provider="CUDAExecutionProvider", index=0, core=None)
    worker = Worker(gpu)
    recording = Recording([worker])
    recording.start(lambda: 6)
    task = Task(
        label='copy of "y" to host',
        subject="y",
        peer="host",
        device=0,
        position=0,
        reads=(),
        writes=(),
        work=lambda feeds, options: [],
        is_part=False,
    )
    assert worker.log == []
    worker.log.extend([(6, task, 0.0, 1.0), (8, task, 2.5, 3.0)])
    (event,) = recording.take()
    assert event == ("copy", "y", "gpu:0", "host", 2.5, 3.0, 1, 0)


def test_a_weight_that_is_brought_is_there_before_its_part_runs(tmp_path: Path) -> None:
    plan = chain_plan(tmp_path, (1, 1, 1), room=2, num_devices=1)
    with PlacedSession(plan, folder=tmp_path) as session:
        session.start_recording()
        session.run(None, {"x": ROW})
        events = session.stop_recording()
        assert session.take_events() == []
    brought = {event.subject: event for event in events if event.kind == "receive"}
    assert set(brought) == {weight.name for weight in plan.streamed}
    for event in brought.values():
        assert (event.device, event.peer, event.request) == (plan.devices[0].name, "host", 0)
        assert event.size_bytes > 0
        assert event.start_s <= event.end_s
    for event in events:
        if event.kind == "run":
            (part,) = (part for part in plan.parts if part.name == event.subject)
            for name in set(part.inputs) & set(brought):
                assert brought[name].end_s <= event.start_s
