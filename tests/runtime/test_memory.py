"""Memory and threads over many runs; each measured in a process of its own."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

PRELUDE = """
import json, os, sys, tempfile, time
from pathlib import Path
import numpy as np
from onnx import numpy_helper
from dplace.runtime.placed_session import PlacedSession
from tests.runtime.plans import given, graph, make_plan, node, node_model

def rss_mb():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE") / 1e6

def threads():
    return len(os.listdir("/proc/self/task"))

folder = Path(sys.argv[1])
"""


def measure(program: str, folder: Path) -> dict[str, list[float]]:
    """Run a program that prints one JSON object."""
    done = subprocess.run(
        [sys.executable, "-c", PRELUDE + program, str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, list[float]] = json.loads(done.stdout)
    return found


def test_memory_does_not_rise_with_new_input_shapes(tmp_path: Path) -> None:
    found = measure(
        """
width = 64
def layer(name):
    rng = np.random.default_rng(0)
    weights = [
        numpy_helper.from_array(rng.standard_normal((width, width), dtype=np.float32) / 8, w)
        for w in ("q", "k", "v")
    ]
    nodes = [
        *(node("MatMul", [f"in{name}", w], [f"{w}1"]) for w in ("q", "k", "v")),
        node("Transpose", ["k1"], ["k2"], perm=[0, 2, 1]),
        node("MatMul", ["q1", "k2"], ["s1"]),
        node("Softmax", ["s1"], ["s2"]),
        node("MatMul", ["s2", "v1"], [f"out{name}"]),
    ]
    shape = ["B", "S", width]
    x, y = given(f"in{name}", shape=shape), given(f"out{name}", shape=shape)
    return graph(nodes, [x], [y], weights)

second = layer("b")
for n in second.graph.node:
    n.input[:] = ["outa" if i == "inb" else i for i in n.input]
second.graph.input[0].name = "outa"
plan = make_plan(
    folder,
    {"a": ("cpu:0", layer("a")), "b": ("cpu:1", second)},
    {"cpu:0": ["run a"], "cpu:1": ["run b"]},
    inputs=[given("ina", shape=["B", "S", width])],
    outputs=[given("outb", shape=["B", "S", width])],
)
lengths = np.random.default_rng(1).permutation(np.arange(8, 488, 8))
found = []
with PlacedSession(plan, folder=folder) as session:
    for run in range(300):
        x = np.ones((1, int(lengths[run % 60]), width), dtype=np.float32)
        session.run(None, {"ina": x})
        if run in (99, 299):
            found.append(rss_mb())
print(json.dumps({"rss": found}))
""",
        tmp_path,
    )
    after_100, after_300 = found["rss"]
    assert after_300 <= 1.1 * after_100


def test_many_small_parts_leave_threads_and_memory_as_they_are(tmp_path: Path) -> None:
    found = measure(
        """
parts = {
    f"p{i}": (f"cpu:{i % 2}", node_model("Neg", [f"v{i}"], [f"v{i + 1}"])) for i in range(6)
}
plan = make_plan(
    folder,
    parts,
    {f"cpu:{d}": [f"run p{i}" for i in range(d, 6, 2)] for d in (0, 1)},
    inputs=[given("v0", shape=["N"])],
    outputs=[given("v6", shape=["N"])],
)
before = threads()
with PlacedSession(plan, folder=folder) as session:
    found = {"threads": [], "rss": []}
    for run in range(500):
        session.run(None, {"v0": np.full(1000, run, dtype=np.float32)})
        if run in (50, 499):
            found["threads"].append(threads() - before)
            found["rss"].append(rss_mb())
given_up = time.monotonic() + 10
while threads() > before and time.monotonic() < given_up:
    time.sleep(0.01)  # a thread that was joined is still listed for a moment
found["threads"].append(threads() - before)
print(json.dumps(found))
""",
        tmp_path,
    )
    assert found["threads"] == [2, 2, 0]
    assert found["rss"][1] <= found["rss"][0] + 2


def test_a_value_is_freed_after_its_last_use(tmp_path: Path) -> None:
    # 40 values of 8 MB in a row, of which two are needed at a time; and outputs of one part that
    # live unequally long.
    found = measure(
        """
parts = {
    f"p{i}": (f"cpu:{i % 2}", node_model("Neg", [f"v{i}"], [f"v{i + 1}"])) for i in range(40)
}
parts["p0"] = (
    "cpu:0",
    graph(
        [node("Neg", ["v0"], ["v1"]), node("Size", ["v0"], ["n"])],
        [given("v0", shape=["N"])],
        [given("v1", shape=["N"]), given("n", 7, [])],
    ),
)
parts["end"] = (
    "cpu:0",
    graph(
        [node("Cast", ["n"], ["m"], to=1), node("ReduceMax", ["v40"], ["t"], keepdims=0),
         node("Add", ["t", "m"], ["r"])],
        [given("v40", shape=["N"]), given("n", 7, [])],
        [given("r", shape=[])],
    ),
)
plan = make_plan(
    folder,
    parts,
    {
        "cpu:0": [*(f"run p{i}" for i in range(0, 40, 2)), "run end"],
        "cpu:1": [f"run p{i}" for i in range(1, 40, 2)],
    },
    inputs=[given("v0", shape=["N"])],
    outputs=[given("r", shape=[])],
)
with PlacedSession(plan, folder=folder) as session:
    session.run(None, {"v0": np.ones(10, dtype=np.float32)})
    x = np.ones(2_000_000, dtype=np.float32)
    before = rss_mb()
    assert session.run(None, {"v0": x})[0] == 2_000_001
    # ru_maxrss would begin at the size of the process that forked this one.
    status = open("/proc/self/status").read()
    peak = int(status.split("VmHWM:")[1].split()[0]) / 1e3
print(json.dumps({"mb": [before, peak]}))
""",
        tmp_path,
    )
    before, peak = found["mb"]
    assert peak - before < 6 * 8
