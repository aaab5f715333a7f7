import gc
import os
import signal
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from numpy.typing import NDArray
from onnx import numpy_helper

from dplace.errors import DplaceError, InputError, PlanError
from dplace.plan.records import Plan
from dplace.runtime.placed_session import NodeArg, PlacedSession
from tests.runtime.plans import given, graph, make_plan, node, node_model

X = np.array([-1.0, 0.0, 2.0], dtype=np.float32)


def w_of(x: NDArray[Any]) -> NDArray[Any]:
    w: NDArray[Any] = np.exp(-np.maximum(x, 0))
    return w


def test_it_looks_like_an_inference_session(session: PlacedSession) -> None:
    assert session.get_inputs() == [NodeArg("x", "tensor(float)", ["N"])]
    assert [output.name for output in session.get_outputs()] == ["w", "y"]
    assert session.get_overridable_initializers() == []


def test_outputs_come_in_the_order_that_was_asked_for(session: PlacedSession) -> None:
    w, y = session.run(None, {"x": X})
    np.testing.assert_allclose(w, w_of(X), rtol=1e-6)
    np.testing.assert_array_equal(y, [0, 0, 2])
    assert [len(session.run(names, {"x": X})) for names in ([], ["y"], ["y", "w", "y"])] == [
        2,
        1,
        3,
    ]
    np.testing.assert_array_equal(session.run(["y", "w"], {"x": X})[0], y)


def test_parts_that_no_wanted_output_needs_are_not_run(session: PlacedSession) -> None:
    session.run(["y"], {"x": X})
    assert [(usage.name, usage.parts, usage.calls) for usage in session.usage()] == [
        ("cpu:0", 2, 1),
        ("cpu:1", 1, 0),
    ]


def test_a_plan_made_for_one_length_runs_with_others(session: PlacedSession) -> None:
    for length in (0, 1, 7):
        x = np.full(length, 0.5, dtype=np.float32)
        np.testing.assert_allclose(session.run(["w"], {"x": x})[0], w_of(x), rtol=1e-6)


def test_there_and_back_a_hundred_times(session: PlacedSession) -> None:
    for number in range(100):
        x = np.full(4, number / 100, dtype=np.float32)
        np.testing.assert_allclose(session.run(["w"], {"x": x})[0], w_of(x), rtol=1e-6)


def test_ort_values_go_in_and_come_out(session: PlacedSession) -> None:
    feed = onnxruntime.OrtValue.ortvalue_from_numpy(X)
    (y,) = session.run_with_ort_values(["y"], {"x": feed})
    assert isinstance(y, onnxruntime.OrtValue)
    np.testing.assert_array_equal(y.numpy(), [0, 0, 2])
    np.testing.assert_array_equal(session.run(["y"], {"x": feed})[0], [0, 0, 2])


def test_eight_clients_never_get_each_others_outputs(session: PlacedSession) -> None:
    def ask(number: int) -> bool:
        x = np.full(1 + number % 17, number, dtype=np.float32)
        w, y = session.run(None, {"x": x / 200})
        return bool(np.allclose(w, w_of(x / 200), rtol=1e-6) and np.array_equal(y, x / 200))

    with ThreadPoolExecutor(8) as clients:
        assert all(clients.map(ask, range(200)))


def test_requests_overlap_when_the_devices_order_them_differently(tmp_path: Path) -> None:
    # Both devices make something first and read the other's afterwards.
    plan = make_plan(
        tmp_path,
        {
            "a": ("cpu:0", node_model("Neg", ["x"], ["a1"])),
            "b": ("cpu:1", node_model("Exp", ["x"], ["b1"])),
            "c": ("cpu:0", node_model("Relu", ["b1"], ["c1"])),
            "d": ("cpu:1", node_model("Relu", ["a1"], ["d1"])),
        },
        {"cpu:0": ["run a", "run c"], "cpu:1": ["run b", "run d"]},
        inputs=[given("x", shape=["N"])],
        outputs=[given("c1", shape=["N"]), given("d1", shape=["N"])],
    )
    with PlacedSession(plan, folder=tmp_path) as session, ThreadPoolExecutor(8) as clients:

        def ask(number: int) -> None:
            c, d = session.run(None, {"x": np.full(2, -number / 100, dtype=np.float32)})
            np.testing.assert_allclose(c, np.exp(np.full(2, -number / 100)), rtol=1e-6)
            np.testing.assert_allclose(d, np.full(2, number / 100), rtol=1e-6)

        list(clients.map(ask, range(200)))


def test_a_deadlock_is_found_before_anything_runs(tmp_path: Path) -> None:
    parts = {
        "a": ("cpu:0", node_model("Neg", ["x"], ["y"])),
        "b": ("cpu:1", node_model("Neg", ["y"], ["z"])),
        "c": ("cpu:0", node_model("Neg", ["z"], ["w"])),
    }
    plan = make_plan(
        tmp_path,
        parts,
        {"cpu:0": ["run c", "run a"], "cpu:1": ["run b"]},
        inputs=[given("x", shape=["N"])],
        outputs=[given("w", shape=["N"])],
    )
    with pytest.raises(PlanError, match="part c waits for a value"):
        PlacedSession(plan, folder=tmp_path)


def test_an_error_in_a_part_names_it_and_leaves_the_session_usable(tmp_path: Path) -> None:
    plan = make_plan(
        tmp_path,
        {
            "make": ("cpu:0", node_model("Neg", ["x"], ["y"])),
            "fail": (
                "cpu:1",
                graph(
                    [node("Reshape", ["y", "shape"], ["z"])],
                    [given("y", shape=["N"])],
                    [given("z", shape=["A", "B"])],
                    [numpy_helper.from_array(np.array([2, 2]), "shape")],
                ),
            ),
        },
        {"cpu:0": ["run make"], "cpu:1": ["run fail"]},
        inputs=[given("x", shape=["N"])],
        outputs=[given("z", shape=["A", "B"])],
    )
    with PlacedSession(plan, folder=tmp_path) as session:
        for _ in range(3):
            with pytest.raises(DplaceError, match="part fail on cpu:1: .*") as caught:
                session.run(None, {"x": np.zeros(3, dtype=np.float32)})
            assert "\n" not in str(caught.value)
            assert session.run(None, {"x": np.zeros(4, dtype=np.float32)})[0].shape == (2, 2)


def test_an_error_reaches_only_the_request_that_caused_it(tmp_path: Path) -> None:
    plan = make_plan(
        tmp_path,
        {"add": ("cpu:0", node_model("Add", ["x", "y"], ["z"], shape=None))},
        {"cpu:0": ["run add"]},
        inputs=[given("x"), given("y")],
        outputs=[given("z")],
    )
    ones = np.ones(2, dtype=np.float32)
    with PlacedSession(plan, folder=tmp_path) as session, ThreadPoolExecutor(8) as clients:

        def ask(number: int) -> str:
            try:
                session.run(None, {"x": ones, "y": ones if number % 3 else np.ones(5, np.float32)})
            except DplaceError:
                return "failed"
            return "fine"

        answers = list(clients.map(ask, range(60)))
    assert answers == ["fine" if number % 3 else "failed" for number in range(60)]


@pytest.mark.parametrize(
    ("feeds", "message"),
    [
        (
            {"x": X, "xx": X},
            'input "xx": the model has no such input; it has "x"; did you mean "x"?',
        ),
        ({}, 'input "x" is not given; it is tensor(float) [N]'),
        (
            {"x": X.astype(np.float64)},
            'input "x": expected tensor(float) [N], got tensor(double) [3]',
        ),
        ({"x": X[None]}, 'input "x": expected tensor(float) [N], got tensor(float) [1, 3]'),
        ({"x": "abc"}, 'input "x": expected tensor(float) [N], got str'),
    ],
)
def test_wrong_inputs_are_named(
    session: PlacedSession, feeds: dict[str, object], message: str
) -> None:
    with pytest.raises(InputError) as caught:
        session.run(None, feeds)
    assert str(caught.value) == message


def test_a_wrong_output_name_is_named(session: PlacedSession) -> None:
    with pytest.raises(InputError, match='output "v": .* it has "w", "y"'):
        session.run(["v"], {"x": X})


def test_arrays_of_any_layout_are_taken(session: PlacedSession) -> None:
    for x in (X.astype(">f4"), np.stack([X, X], axis=1)[:, 0], X[::-1][::-1], X.tolist()):
        np.testing.assert_array_equal(session.run(["y"], {"x": x})[0], [0, 0, 2])


def test_outputs_stay_when_the_session_is_gone(there_and_back: Plan, tmp_path: Path) -> None:
    session = PlacedSession(there_and_back, folder=tmp_path)
    w, y = session.run(None, {"x": X})
    session.close()
    del session
    gc.collect()
    np.testing.assert_allclose(w, w_of(X), rtol=1e-6)
    y[:] = 5
    np.testing.assert_allclose(w, w_of(X), rtol=1e-6)


def test_a_closed_session_says_so_and_closing_twice_is_fine(session: PlacedSession) -> None:
    session.close()
    session.close()
    with pytest.raises(DplaceError, match="the session of model.onnx is closed"):
        session.run(None, {"x": X})


def test_a_session_that_is_forgotten_ends_its_threads(there_and_back: Plan, tmp_path: Path) -> None:
    before = set(threading.enumerate())
    session = PlacedSession(there_and_back, folder=tmp_path)
    session.run(None, {"x": X})
    threads = set(threading.enumerate()) - before
    assert len(threads) == 2
    gone = weakref.ref(session)
    del session
    gc.collect()
    assert gone() is None
    assert not any(thread.is_alive() for thread in threads)


def test_closing_waits_for_requests_that_are_running(there_and_back: Plan, tmp_path: Path) -> None:
    session = PlacedSession(there_and_back, folder=tmp_path)
    x = np.ones(100_000, dtype=np.float32)
    with ThreadPoolExecutor(4) as clients:
        answers = [clients.submit(session.run, ["w"], {"x": x}) for _ in range(20)]
        answers[0].result()
        session.close()
        for answer in answers:
            error = answer.exception()
            assert error is None or "is closed" in str(error)


def test_a_device_that_has_all_parts_needs_no_thread(tmp_path: Path) -> None:
    plan = make_plan(
        tmp_path,
        {
            "a": ("cpu:1", node_model("Neg", ["x"], ["a"])),
            "b": ("cpu:1", node_model("Relu", ["a"], ["b"])),
        },
        {"cpu:0": [], "cpu:1": ["run a", "run b"]},
        inputs=[given("x", shape=["N"])],
        outputs=[given("b", shape=["N"])],
    )
    before, cores = threading.active_count(), os.sched_getaffinity(0)
    with PlacedSession(plan, folder=tmp_path) as session, ThreadPoolExecutor(4) as clients:
        assert threading.active_count() == before

        def ask(number: int) -> float:
            return float(session.run(None, {"x": np.full(1, -number, dtype=np.float32)})[0][0])

        assert list(clients.map(ask, range(100))) == list(range(100))
        assert [usage.calls for usage in session.usage()] == [0, 200]
    assert os.sched_getaffinity(0) == cores
    with pytest.raises(DplaceError, match="is closed"):
        session.run(None, {"x": X})


def test_each_worker_is_pinned_to_a_core_of_its_own(session: PlacedSession) -> None:
    cores = sorted(os.sched_getaffinity(0))
    pinned = [
        os.sched_getaffinity(thread.native_id or 0)
        for name in ("cpu:0", "cpu:1")
        for thread in threading.enumerate()
        if thread.name == f"dplace {name}"
    ]
    assert pinned == [{cores[0]}, {cores[1 % len(cores)]}]
    assert os.sched_getaffinity(0) == set(cores)


def test_a_part_that_is_missing_is_named(there_and_back: Plan, tmp_path: Path) -> None:
    before = threading.active_count()
    (tmp_path / "parts/middle.onnx").write_bytes(b"nothing")
    with pytest.raises(PlanError, match=r"part middle \(parts/middle.onnx\) on cpu:1: onnxruntime"):
        PlacedSession(there_and_back, folder=tmp_path)
    assert threading.active_count() == before


def test_a_plan_record_needs_its_folder(there_and_back: Plan) -> None:
    with pytest.raises(PlanError, match="give the folder that it lies in"):
        PlacedSession(there_and_back)


def test_outputs_may_be_inputs_and_there_may_be_no_parts(tmp_path: Path) -> None:
    plan = make_plan(
        tmp_path,
        {},
        {"cpu:0": []},
        inputs=[given("x", shape=["N"])],
        outputs=[given("x", shape=["N"]), given("x", shape=["N"])],
        passthrough=[("x", "x")],
    )
    x = X.copy()
    with PlacedSession(plan, folder=tmp_path) as session:
        first, second = session.run(None, {"x": x})
        x[:] = 9
        np.testing.assert_array_equal(first, X)
        np.testing.assert_array_equal(second, X)


def test_a_part_may_read_nothing(tmp_path: Path) -> None:
    weight = numpy_helper.from_array(X, "c")
    plan = make_plan(
        tmp_path,
        {"constant": ("cpu:0", graph([node("Neg", ["c"], ["y"])], [], [given("y")], [weight]))},
        {"cpu:0": ["run constant"]},
        inputs=[],
        outputs=[given("y")],
    )
    with PlacedSession(plan, folder=tmp_path) as session:
        np.testing.assert_array_equal(session.run(None, {})[0], -X)


def test_an_overridable_initializer_may_be_fed(tmp_path: Path) -> None:
    scale = numpy_helper.from_array(np.array([2.0], dtype=np.float32), "scale")
    model = graph(
        [node("Mul", ["x", "scale"], ["y"])],
        [given("x", shape=["N"]), given("scale", shape=[1])],
        [given("y", shape=["N"])],
        [scale],
    )
    plan = make_plan(
        tmp_path,
        {"mul": ("cpu:0", model)},
        {"cpu:0": ["run mul"]},
        inputs=[given("x", shape=["N"])],
        outputs=[given("y", shape=["N"])],
        overridable=[given("scale", shape=[1])],
    )
    with PlacedSession(plan, folder=tmp_path) as session:
        np.testing.assert_array_equal(session.run(None, {"x": X})[0], 2 * X)
        fed = session.run(None, {"x": X, "scale": np.array([3.0], dtype=np.float32)})
        np.testing.assert_array_equal(fed[0], 3 * X)


def test_run_options_reach_the_parts(session: PlacedSession) -> None:
    options = onnxruntime.RunOptions()
    options.terminate = True
    with pytest.raises(DplaceError, match="part first on cpu:0"):
        session.run(None, {"x": X}, options)
    options.terminate = False
    assert len(session.run(None, {"x": X}, options)) == 2


def test_an_interrupt_ends_the_call_at_once_and_leaves_the_session_usable(
    session: PlacedSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = session._parts["middle"]
    quick, is_running, may_go_on = part.run, threading.Event(), threading.Event()

    def slow(*arguments: Any) -> Any:
        is_running.set()
        assert may_go_on.wait(30)
        return quick(*arguments)

    def interrupt() -> None:
        is_running.wait(30)
        time.sleep(0.1)  # the caller has come to wait for the part
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(part, "run", slow)
    killer = threading.Thread(target=interrupt)
    killer.start()
    with pytest.raises(KeyboardInterrupt):
        session.run(["w"], {"x": X})  # the first time that only w is asked for
    assert not may_go_on.is_set()
    killer.join()
    may_go_on.set()
    np.testing.assert_allclose(session.run(["w"], {"x": X})[0], w_of(X), rtol=1e-6)


def test_a_forked_child_is_told_to_open_its_own(
    session: PlacedSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pytest.raises(DplaceError, match="does not survive a fork"):
        session.run(None, {"x": X})
