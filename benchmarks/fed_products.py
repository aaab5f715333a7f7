"""What products cost on a CPU with weights that are fed, beside constant ones, which are packed.

Each product runs in a session of one thread. The figures are seconds of the thread's own, so other
work on the machine counts only as far as it takes cache and memory; the best of several runs
counts. Beside them, the rate at which one thread reads a cached file into memory touched before.
Run it as:

    python -m benchmarks.fed_products --json fed_products.json
"""

import itertools
import mmap
import os
import tempfile
import time
from collections.abc import Callable

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

from benchmarks.figures import arguments, report

ROWS = (1, 16, 64, 256)
SHAPES = ((512, 512), (2048, 2048), (2048, 8192), (8192, 2048))
FILE_BYTES = 2**26


def least_s(work: Callable[[], object], repeat: int) -> float:
    """Return the fewest seconds of this thread that work takes, after a first time."""
    work()
    seconds = []
    for _ in range(repeat):
        start_s = time.thread_time()
        work()
        seconds.append(time.thread_time() - start_s)
    return min(seconds)


def product_s(
    rows: int, shape: tuple[int, int], *, is_transposed: bool, is_fed: bool, repeat: int
) -> float:
    """Return what a product of so many rows with a weight takes."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((rows, shape[0]), dtype=np.float32)
    lies = shape[::-1] if is_transposed else shape
    weight = rng.standard_normal(lies, dtype=np.float32)
    info = helper.make_tensor_value_info
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    if is_transposed:
        node = helper.make_node("Gemm", ["x", "w"], ["y"], transB=1)
    graph = helper.make_graph(
        [node],
        "product",
        [info("x", TensorProto.FLOAT, x.shape), info("w", TensorProto.FLOAT, lies)][: 1 + is_fed],
        [info("y", TensorProto.FLOAT, (rows, shape[1]))],
        [] if is_fed else [onnx.numpy_helper.from_array(weight, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    feeds = {"x": x, "w": weight} if is_fed else {"x": x}
    return least_s(lambda: session.run(None, feeds), repeat)


def read_s(repeat: int) -> float:
    """Return what it takes to read a file that the system has in its cache."""
    with tempfile.TemporaryFile() as file:
        file.write(os.urandom(FILE_BYTES))
        file.flush()
        target = memoryview(mmap.mmap(-1, FILE_BYTES))
        return least_s(lambda: os.preadv(file.fileno(), [target], 0), repeat)


def main() -> None:
    """Measure and report."""
    options = arguments(__doc__ or "", repeat=7)
    rows = []
    for is_transposed, shape, count in itertools.product((False, True), SHAPES, ROWS):
        packed_s, fed_s = (
            product_s(
                count, shape, is_transposed=is_transposed, is_fed=is_fed, repeat=options.repeat
            )
            for is_fed in (False, True)
        )
        extra_s = fed_s - packed_s
        rows.append(
            {
                "weight": f"{shape[0]}x{shape[1]}",
                "transposed": is_transposed,
                "rows": count,
                "packed_ms": packed_s * 1e3,
                "fed_ms": fed_s * 1e3,
                "fed_to_packed": fed_s / packed_s,
                "packs_gb_per_s": 4e-9 * shape[0] * shape[1] / extra_s if extra_s > 0 else None,
            }
        )
    ratios = [row["fed_to_packed"] for row in rows]

    def packs(is_transposed: bool) -> float:
        """Return the median rate of products with more than one row."""
        mine = [row for row in rows if row["transposed"] == is_transposed and row["rows"] > 1]
        seconds = [1 / row["packs_gb_per_s"] if row["packs_gb_per_s"] else 0.0 for row in mine]
        return 1 / float(np.median(seconds))

    summary = {
        "least_ratio": min(ratios),
        "median_ratio": float(np.median(ratios)),
        "largest_ratio": max(ratios),
        "packs_gb_per_s": packs(False),
        "packs_transposed_gb_per_s": packs(True),
        "read_gb_per_s": FILE_BYTES / read_s(options.repeat) / 1e9,
    }
    report("Products with fed weights", rows, summary, options.json)


if __name__ == "__main__":
    main()
