"""The whole model in one onnxruntime session: what every plan is compared with."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime

__all__ = ["LEVELS", "assert_bit_equal", "plain_session", "run_plain"]

LEVELS = {
    "all": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL,
    "extended": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
    "basic": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC,
    "none": onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL,
}
ERRORS_ONLY = 3


def plain_session(
    model: onnx.ModelProto | Path, opt_level: str = "all"
) -> "onnxruntime.InferenceSession":
    """Return a session of the whole model on one CPU thread."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = LEVELS[opt_level]
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = ERRORS_ONLY
    source = str(model) if isinstance(model, Path) else model.SerializeToString()
    return onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])


def run_plain(
    model: onnx.ModelProto | Path, calls: Sequence[Mapping[str, Any]], opt_level: str = "all"
) -> list[list[Any]]:
    """Return the outputs of each call, all made to one session."""
    session = plain_session(model, opt_level)
    return [list(session.run(None, dict(feeds))) for feeds in calls]


def assert_bit_equal(got: object, expected: object, where: str = "outputs") -> None:
    """Raise AssertionError unless two results are the same to the last bit.

    Args:
        got: An array, or whatever onnxruntime returns instead: None, a list, a dict, a number.
        expected: What it should be.
        where: Name of the value, for the message.
    """
    if isinstance(expected, list | tuple):
        assert isinstance(got, list | tuple), f"{where}: {type(got)} instead of a list"
        assert len(got) == len(expected), f"{where}: {len(got)} items, expected {len(expected)}"
        for index, pair in enumerate(zip(got, expected, strict=True)):
            assert_bit_equal(*pair, where=f"{where}[{index}]")
        return
    if not isinstance(expected, np.ndarray) or expected.dtype == object:
        np.testing.assert_equal(got, expected, err_msg=where)
        return
    assert isinstance(got, np.ndarray), f"{where}: {type(got)} instead of an array"
    assert got.dtype == expected.dtype, f"{where}: {got.dtype}, expected {expected.dtype}"
    assert got.shape == expected.shape, f"{where}: shape {got.shape}, expected {expected.shape}"
    if got.tobytes() != expected.tobytes():
        wrong = np.flatnonzero(got.ravel() != expected.ravel())
        difference = np.abs(got.astype(np.float64) - expected.astype(np.float64)).max()
        raise AssertionError(
            f"{where}: {len(wrong)} of {got.size} elements differ, by up to {difference:.3g}"
        )
