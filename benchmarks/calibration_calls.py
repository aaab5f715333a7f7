"""What it costs to hand work to another thread and to call a session there."""

import os
import queue
import threading
import time

import numpy as np
import onnx
import onnxruntime as ort
from calibration_measure import PROVIDERS, session_options
from onnx import helper


def hand_over_s(cores: tuple[int, int], *, rounds: int = 2000) -> float:
    """Return the time from a put on one core to the get on another, in seconds.

    Half of a round trip through two queues, each waited on without spinning; the median, for a
    busy machine only ever adds to it.
    """
    there: queue.SimpleQueue[int] = queue.SimpleQueue()
    back: queue.SimpleQueue[int] = queue.SimpleQueue()

    def answer() -> None:
        os.sched_setaffinity(0, {cores[1]})
        while (ticket := there.get()) >= 0:
            back.put(ticket)

    worker = threading.Thread(target=answer)
    worker.start()
    os.sched_setaffinity(0, {cores[0]})
    trips = []
    for ticket in range(rounds):
        start = time.perf_counter()
        there.put(ticket)
        back.get()
        trips.append(time.perf_counter() - start)
    there.put(-1)
    worker.join()
    return float(np.median(trips)) / 2


def call_s(cores: tuple[int, int], *, rounds: int = 2000) -> tuple[float, float]:
    """Return what a part of one tiny op costs beside the op, in seconds.

    First as seen from another thread: hand-over there, the call, hand-over back. Second the call
    alone. The call is the native one behind ``run_with_ort_values``, as dplace.runtime makes it:
    the public method takes ten times as long to wrap its results.
    """
    node = helper.make_node("Abs", ["x"], ["y"])
    value = helper.make_tensor_value_info
    graph = helper.make_graph([node], "tiny", [value("x", 1, (4, 16))], [value("y", 1, (4, 16))])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    session = ort.InferenceSession(
        onnx.ModelProto.SerializeToString(model), session_options(), providers=PROVIDERS
    )
    native = session._sess
    held = ort.OrtValue.ortvalue_from_numpy(np.ones((4, 16), np.float32))
    feed = {"x": held._ortvalue}
    there: queue.SimpleQueue[dict[str, object] | None] = queue.SimpleQueue()
    back: queue.SimpleQueue[object] = queue.SimpleQueue()
    calls: list[float] = []

    def work() -> None:
        os.sched_setaffinity(0, {cores[1]})
        while (values := there.get()) is not None:
            start = time.perf_counter()
            outputs = native.run_with_ort_values(values, ["y"], None)
            calls.append(time.perf_counter() - start)
            back.put(outputs)

    worker = threading.Thread(target=work)
    worker.start()
    os.sched_setaffinity(0, {cores[0]})
    trips = []
    for _ in range(rounds):
        start = time.perf_counter()
        there.put(feed)
        back.get()
        trips.append(time.perf_counter() - start)
    there.put(None)
    worker.join()
    return float(np.median(trips)), float(np.median(calls))
