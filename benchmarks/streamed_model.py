"""A model larger than its devices: outputs, and resident memory beside the plan's figure.

A transformer with 3 GB of weights in another file is placed on two CPU devices of 1 GB each and
run in a process of its own. Its outputs are compared with a reference in NumPy that makes one layer
after another and holds one at a time, and, where the machine has the memory, with the whole model
in one onnxruntime session.

A plan counts weights, values, the room for weights and what sessions take for each op, not the code
of Python and onnxruntime. So resident memory is the high-water mark of the run above what the
process has once a twin of the model, with as many ops but narrow, was opened, run and closed. Run
it as:

    python -m benchmarks.streamed_model --json streamed_model.json

``--profile`` measures the model's ops first, with packed weights, as ``dplace profile`` does.
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper

from benchmarks.figures import arguments, report
from dplace.problem import Problem

WIDTH, HEADS, SEQUENCE = 2048, 16, 64
TWIN_WIDTH = 64
TOLERANCE = 1e-4
"""Of the largest number: what another order of sums may change."""
CHILD = "import sys; from benchmarks.streamed_model import child; child(*sys.argv[1:])"
WHOLE = "import sys; from benchmarks.streamed_model import whole; whole(*sys.argv[1:])"
CLUSTER = """\
devices:
  - {{kind: CPU, count: {count}, memory: {memory}}}
"""

Array = NDArray[np.float32]


def shapes(width: int) -> dict[str, tuple[int, int]]:
    """Return the shape of each weight of a layer."""
    square = dict.fromkeys(("query", "key", "value", "out"), (width, width))
    return {**square, "up": (width, 4 * width), "down": (4 * width, width)}


LAYER_BYTES = 4 * sum(rows * columns for rows, columns in shapes(WIDTH).values())


def layer_weights(layer: int, width: int = WIDTH) -> dict[str, Array]:
    """Return the weights of a layer, the same at each call."""
    rng = np.random.default_rng((7, layer))
    return {
        name: rng.standard_normal(shape, dtype=np.float32) / np.float32(np.sqrt(shape[0]))
        for name, shape in shapes(width).items()
    }


def write_model(folder: Path, num_layers: int, width: int = WIDTH) -> Path:
    """Write the model, its weights in a file beside it, one layer in memory at a time."""
    folder.mkdir()
    nodes: list[onnx.NodeProto] = []
    tensors: list[onnx.TensorProto] = []
    small = {
        "ones": np.ones(width, dtype=np.float32),
        "heads": np.array([0, 0, HEADS, width // HEADS]),
        "together": np.array([0, 0, width]),
        "scale": np.float32(1 / np.sqrt(width // HEADS)),
    }
    tensors += [onnx.numpy_helper.from_array(np.asarray(a), name) for name, a in small.items()]
    with (folder / "model.data").open("wb") as file:
        for layer in range(num_layers):
            nodes += layer_nodes(layer)
            for name, weight in layer_weights(layer, width).items():
                tensor = onnx.TensorProto(
                    name=f"{name}{layer}",
                    data_type=TensorProto.FLOAT,
                    dims=weight.shape,
                    data_location=TensorProto.EXTERNAL,
                )
                for key, entry in (
                    ("location", "model.data"),
                    ("offset", file.tell()),
                    ("length", weight.nbytes),
                ):
                    tensor.external_data.add(key=key, value=str(entry))
                tensors.append(tensor)
                file.write(weight.tobytes())
    shape = [1, SEQUENCE, width]
    graph = helper.make_graph(
        nodes,
        "streamed",
        [helper.make_tensor_value_info("x0", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(f"x{num_layers}", TensorProto.FLOAT, shape)],
        tensors,
    )
    opsets = [helper.make_opsetid("", 17)]
    path = folder / "model.onnx"
    path.write_bytes(
        helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()
    )
    return path


def layer_nodes(layer: int) -> list[onnx.NodeProto]:
    """Return attention and MLP with their norms and residual connections, from x to the next x."""
    nodes: list[onnx.NodeProto] = []

    def add(op: str, *inputs: str, to: str = "", **attributes: Any) -> str:
        output = to or f"{op}{layer}.{len(nodes)}"
        nodes.append(helper.make_node(op, inputs, [output], **attributes))
        return output

    def heads(name: str, value: str, perm: list[int]) -> str:
        product = add("MatMul", value, f"{name}{layer}")
        return add("Transpose", add("Reshape", product, "heads"), perm=perm)

    normal = add("LayerNormalization", f"x{layer}", "ones")
    scores = add("MatMul", heads("query", normal, [0, 2, 1, 3]), heads("key", normal, [0, 2, 3, 1]))
    weighed = add(
        "MatMul",
        add("Softmax", add("Mul", scores, "scale"), axis=-1),
        heads("value", normal, [0, 2, 1, 3]),
    )
    joined = add("Reshape", add("Transpose", weighed, perm=[0, 2, 1, 3]), "together")
    middle = add("Add", f"x{layer}", add("MatMul", joined, f"out{layer}"))
    up = add("MatMul", add("LayerNormalization", middle, "ones"), f"up{layer}")
    down = add("MatMul", add("Relu", up), f"down{layer}")
    add("Add", middle, down, to=f"x{layer + 1}")
    return nodes


def reference(x: Array, num_layers: int) -> Array:
    """Return what the model computes, with one layer's weights in memory at a time."""

    def normal(x: Array) -> Array:
        centred = x - x.mean(axis=-1, keepdims=True)
        spread = np.sqrt((centred**2).mean(axis=-1, keepdims=True) + np.float32(1e-5))
        return np.asarray(centred / spread, dtype=np.float32)

    def heads(x: Array) -> Array:
        return x.reshape(SEQUENCE, HEADS, -1).transpose(1, 0, 2)

    x = x[0]
    for layer in range(num_layers):
        weights = layer_weights(layer)
        n = normal(x)
        query, key, value = (heads(n @ weights[name]) for name in ("query", "key", "value"))
        scores = query @ key.transpose(0, 2, 1) / np.float32(np.sqrt(WIDTH // HEADS))
        scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weighed = scores / scores.sum(axis=-1, keepdims=True) @ value
        x = x + weighed.transpose(1, 0, 2).reshape(SEQUENCE, WIDTH) @ weights["out"]
        x = x + np.maximum(normal(x) @ weights["up"], 0) @ weights["down"]
    return x[None]


def status_bytes(field: str) -> int:
    """Return a figure of this process from the kernel."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"/proc/self/status has no {field}")


def child(plan: str, twin: str, inputs: str, outputs: str, repeat: str) -> None:
    """Run a plan and print what it took; the outputs go to a file."""
    from dplace.runtime.placed_session import PlacedSession

    with PlacedSession(twin) as session:
        session.run(None, {"x0": np.zeros((1, SEQUENCE, TWIN_WIDTH), dtype=np.float32)})
    base = status_bytes("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the high-water mark starts anew
    x = np.load(inputs)
    started_s = time.perf_counter()
    with PlacedSession(plan) as session:
        opened_s = time.perf_counter()
        for streamer in session._streamers:
            streamer.log = []
        seconds = []
        for _ in range(int(repeat)):
            begun_s = time.perf_counter()
            (y,) = session.run(None, {"x0": x})
            seconds.append(time.perf_counter() - begun_s)
        busy = {usage.name: usage.busy_s / int(repeat) for usage in session.usage()}
        log = [entry for streamer in session._streamers for entry in streamer.log or ()]
        rooms = {s.device.name: s.buffers.most_bytes for s in session._streamers}
    np.save(outputs, y)
    figures = {
        "base": base,
        "peak": status_bytes("VmHWM") - base,
        "open_s": opened_s - started_s,
        "seconds": seconds,
        "busy_s": busy,
        "rooms": rooms,
        "read_bytes_per_s": sum(entry[1].size_bytes for entry in log)
        / sum(entry[3] - entry[2] for entry in log),
    }
    print(json.dumps(figures))


def whole(model: str, inputs: str, outputs: str) -> None:
    """Run the whole model in one session."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    np.save(outputs, session.run(None, {"x0": np.load(inputs)})[0])


def run_python(program: str, *words: object) -> str:
    """Run a program in a process of its own and return its last line."""
    command = [sys.executable, "-c", program, *map(str, words)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.strip().splitlines()[-1] if done.stdout.strip() else ""


def free_bytes() -> int:
    """Return the memory that the machine has left."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return 0


def by_turns(problem: Problem) -> NDArray[np.int32]:
    """Return the ops dealt out by eights: about as many parts as the large model has."""
    return (np.arange(problem.num_ops) // 8 % problem.num_devices).astype(np.int32)


def main() -> None:
    """Place, run and compare; leave with 1 if outputs differ or memory exceeds the plan's."""
    options = arguments(__doc__ or "", layers=15, devices=2, memory="1GB", repeat=3, profile=False)
    from dplace import api

    with tempfile.TemporaryDirectory(prefix="dplace-") as name:
        folder = Path(name)
        model = write_model(folder / "model", options.layers)
        cluster = folder / "small.yaml"
        cluster.write_text(CLUSTER.format(count=options.devices, memory=options.memory))
        api.place(
            write_model(folder / "narrow", options.layers, TWIN_WIDTH),
            cluster=f"{options.devices}xCPU",
            placement=by_turns,
            out=folder / "twin",
        )
        if options.profile:
            api.profile([model], out=folder / "times.json")
        profiles = [folder / "times.json"] if options.profile else []
        started_s = time.perf_counter()
        answer = api.place(model, cluster=str(cluster), profiles=profiles, out=folder / "plan")
        placed_s = time.perf_counter() - started_s
        plan = answer.plan
        x = np.random.default_rng(3).standard_normal((1, SEQUENCE, WIDTH)).astype(np.float32)
        np.save(folder / "x.npy", x)
        words = (folder / "plan", folder / "twin", folder / "x.npy", folder / "y.npy")
        figures = json.loads(run_python(CHILD, *words, options.repeat))
        y = np.load(folder / "y.npy")
        expected = reference(x, options.layers)
        scale = float(np.abs(expected).max())
        difference = float(np.abs(y - expected).max()) / scale
        of_whole: float | None = None
        if free_bytes() > 3 * options.layers * LAYER_BYTES:
            run_python(WHOLE, model, folder / "x.npy", folder / "whole.npy")
            of_whole = float(np.abs(y - np.load(folder / "whole.npy")).max()) / scale
    planned = sum(device.peak_bytes for device in plan.devices)
    rows = [
        {
            "device": device["name"],
            "memory_mb": planned_device.memory_bytes / 1e6,
            "planned_peak_mb": planned_device.peak_bytes / 1e6,
            "weights_mb": planned_device.weight_bytes / 1e6,
            "streamed_mb": device["streamed_bytes"] / 1e6,
            "buffers_mb": planned_device.buffer_bytes / 1e6,
            "most_in_buffers_mb": figures["rooms"].get(device["name"], 0) / 1e6,
            "busy_s": figures["busy_s"][device["name"]],
        }
        for device, planned_device in zip(answer.as_json()["devices"], plan.devices, strict=True)
    ]
    is_equal, is_within = difference < TOLERANCE, figures["peak"] <= planned
    summary = {
        "weights_gb": options.layers * LAYER_BYTES / 1e9,
        "place_s": placed_s,
        "open_s": figures["open_s"],
        "predicted_s": plan.makespan_s,
        "median_s": float(np.median(figures["seconds"])),
        "least_s": min(figures["seconds"]),
        "read_gb_per_s": figures["read_bytes_per_s"] / 1e9,
        "resident_mb": figures["peak"] / 1e6,
        "planned_mb": planned / 1e6,
        "base_mb": figures["base"] / 1e6,
        "off_the_reference": difference,
        "off_the_whole_model": of_whole,
        "outputs_equal": is_equal,
        "memory_kept": is_within,
    }
    title = f"{summary['weights_gb']:.1f} GB of weights on {options.devices} x {options.memory}"
    report(title, rows, summary, options.json)
    raise SystemExit(0 if is_equal and is_within else 1)


if __name__ == "__main__":
    main()
