"""What people who do this job reported: numbers, placement, memory, time, the command line.

Each test is named by the id of the report in the project's list, with the threads it comes from.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray

from dplace import api
from dplace.errors import InputError, MemoryLimitError
from dplace.plan.records import Plan
from dplace.runtime.placed_session import PlacedSession
from tests.command_line import one_line, run_here, start
from tests.zoo import SITUATIONS
from tests.zoo.external_data import UUID_NAME, write_chain, write_named_by_uuid
from tests.zoo.placements import from_names
from tests.zoo.plain_session import assert_bit_equal, run_plain
from tests.zoo.situation import parse, weight
from tests.zoo.wiring import interleaved_branches, layers_in_a_row

Capture = pytest.CaptureFixture[str]


def save(model: onnx.ModelProto, path: Path) -> Path:
    """Write a model to a file."""
    path.write_bytes(model.SerializeToString())
    return path


def devices_of(plan: Path) -> dict[str, str]:
    """Return the device of each op, by the op's first output."""
    placement: dict[str, str] = json.loads((plan / "placement.json").read_text())
    return placement


def in_use(plan: Plan) -> list[str]:
    """Return the devices that got ops."""
    return [device.name for device in plan.devices if device.num_ops]


def test_A6_a_plan_is_complete_wherever_it_is_moved(tmp_path: Path) -> None:
    """onnx/onnx#3157, huggingface/sentence-transformers#3913, yalue/onnxruntime_go#67."""
    source, cwd = tmp_path / "source", tmp_path / "cwd"
    source.mkdir()
    cwd.mkdir()
    model = write_named_by_uuid(source)
    feeds = {"x": np.ones((2, 8), np.float32), "late": np.zeros((2, 8), np.float32)}
    expected = run_plain(model, [feeds])[0]
    options = ("--cluster", "3xCPU", "--policy", "random")
    assert start("place", model, *options, "-o", "new/folder/plan", cwd=cwd).code == 0
    shutil.move(cwd / "new/folder/plan", tmp_path / "elsewhere")
    shutil.rmtree(source)
    assert not list((tmp_path / "elsewhere").rglob(UUID_NAME))
    with PlacedSession(tmp_path / "elsewhere") as session:
        assert_bit_equal(session.run(None, feeds), expected)


def test_A8_devices_are_visited_again(tmp_path: Path, capfd: Capture) -> None:
    """onnxruntime#5940: stages 0, 1, 2, 1, 0."""
    model = parse(
        """
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[N, 4] x) => (float[N, 4] y) {
            a = Sin(x)  b = Cos(a)  c = Tanh(b)  d = Exp(c)  y = Atan(d)
        }
        """
    )
    path, plan = save(model, tmp_path / "m.onnx"), tmp_path / "plan"
    wanted = {"a": "cpu:0", "b": "cpu:1", "c": "cpu:2", "d": "cpu:1", "y": "cpu:0"}
    pins = [option for op, device in wanted.items() for option in ("--pin", f"{op}={device}")]
    assert run_here(capfd, "place", path, "--cluster", "3xCPU", *pins, "-o", plan).code == 0
    assert devices_of(plan) == wanted
    ended = run_here(capfd, "run", plan, "--check", path, "--json")
    assert ended.code == 0
    assert max_difference(json.loads(ended.out)) == 0


def max_difference(report: dict[str, Any]) -> float:
    """Return the largest difference that ``run --check --json`` tells."""
    found = report["max_abs_diff"]
    return max(found.values()) if isinstance(found, dict) else float(found)


def test_A10_interleaved_branches_become_one_part_each(tmp_path: Path) -> None:
    """onnxruntime#12318: two branches of 20 ops, one device each, and a join."""
    situation = interleaved_branches(20)
    left = {f"l{step + 1}": 0 for step in range(20)}
    right = {f"r{step + 1}": 1 for step in range(20)}
    answer = api.place(
        situation.model,
        cluster="2xCPU",
        out=tmp_path / "plan",
        placement=from_names(left | right | {"y": 0}),
    )
    assert len(answer.plan.parts) == 3
    assert sorted(part.num_ops for part in answer.plan.parts) == [1, 20, 20]
    (feeds,) = situation.feeds(np.random.default_rng(0))
    with PlacedSession(tmp_path / "plan") as session:
        assert_bit_equal(session.run(None, feeds), run_plain(situation.model, [feeds])[0])


def test_A11_names_are_used_as_they_are(tmp_path: Path, capfd: Capture) -> None:
    """onnx/tensorflow-onnx#872, apache/tvm#8481."""
    situation = SITUATIONS["odd_value_names"]()
    path, plan = save(situation.model, tmp_path / "m.onnx"), tmp_path / "plan"
    (feeds,) = situation.feeds(np.random.default_rng(0))
    np.savez(tmp_path / "x.npz", **feeds)
    wanted = ("387=cpu:1", "model.encoder.layers.0.weight=cpu:1", "StatefulPartitionedCall:1=cpu:0")
    pins = [option for pin in wanted for option in ("--pin", pin)]
    ended = run_here(
        capfd,
        *("place", path, "--cluster", "2xCPU", "--dim", "p2o.DynamicDimension.0=2"),
        *pins,
        *("-o", plan, "--json"),
    )
    assert ended.code == 0, ended.err
    assert json.loads(ended.out)["dims"] == {"p2o.DynamicDimension.0": 2}
    assert devices_of(plan)["387"] == "cpu:1"
    assert devices_of(plan)["StatefulPartitionedCall:1"] == "cpu:0"
    ended = run_here(
        capfd, "run", plan, "--inputs", tmp_path / "x.npz", "--save-outputs", tmp_path / "y.npz"
    )
    assert ended.code == 0, ended.err
    outputs = np.load(tmp_path / "y.npz")
    expected = run_plain(situation.model, [feeds])[0]
    assert_bit_equal([outputs["387"], outputs["StatefulPartitionedCall:1"]], expected)
    names = [file.name for file in plan.rglob("*")]
    assert all(re.fullmatch(r"[\w.-]+", name, re.ASCII) for name in names), names


def uneven_weights(path: Path) -> Path:
    """Write one product with 60 MB of weights and ten with 5 MB, zeros in a sparse file."""
    narrow, wide = 1118, 13417
    ten = write_chain(path, num_weights=10, size=narrow)
    model = onnx.load(ten, load_external_data=False)
    graph = model.graph
    data = path / "chain.data"
    offset, length = data.stat().st_size, 4 * narrow * wide
    os.truncate(data, offset + length)
    big = graph.initializer.add(name="big", data_type=1, dims=[narrow, wide])
    big.data_location = onnx.TensorProto.EXTERNAL
    for key, value in (("location", "chain.data"), ("offset", offset), ("length", length)):
        big.external_data.add(key=key, value=str(value))
    graph.node.add(op_type="MatMul", input=["h0", "big"], output=["wide"])
    graph.node.add(op_type="ReduceMax", input=["wide"], output=["most"])
    graph.node.add(op_type="Add", input=["h10", "most"], output=["y"])
    graph.output[0].name = "y"
    return save(model, path / "uneven.onnx")


def test_B1_one_large_weight_does_not_empty_the_devices(tmp_path: Path) -> None:
    """huggingface/accelerate#3041."""
    model = uneven_weights(tmp_path / "m")
    plan = api.place(model, cluster="2xCPU-64MB").plan
    assert sorted(round(device.weight_bytes / 5e6) for device in plan.devices) == [10, 12]
    assert all(device.peak_bytes <= device.memory_bytes for device in plan.devices)
    with pytest.raises(MemoryLimitError, match=r"\d+(\.\d+)? ?[kKMG]i?B|\d+ bytes"):
        api.place(model, cluster="2xCPU-50MB")


def test_B2_activations_count_and_no_device_is_filled_to_the_brim(tmp_path: Path) -> None:
    """huggingface/accelerate#473: weights are 45 % of the memory, activations are large."""
    model = write_chain(tmp_path / "m", num_weights=8, size=1000)  # 32 MB
    answer = api.place(model, cluster="4xCPU-18MB", dims={"N": 1000})
    for device in answer.plan.devices:
        activations = device.peak_bytes - device.weight_bytes
        assert device.peak_bytes <= device.memory_bytes
        if device.num_ops:
            assert activations >= 2 * 4_000_000, "an op's input and output are alive together"
    assert sum(device.weight_bytes for device in answer.plan.devices) == 32_000_000


def small_gpt() -> onnx.ModelProto:
    """Return two layers with node names like torch's and a rotary table as a chain of its own."""
    layer = """
            [layers__{i}__norm] n{i} = LayerNormalization(h{i}, g)
            [layers__{i}__q] q{i} = MatMul(n{i}, wq{i})
            [layers__{i}__rotate_cos] rc{i} = Mul(q{i}, cos)
            [layers__{i}__rotate_sin] rs{i} = Mul(q{i}, sin)
            [layers__{i}__rotate] r{i} = Add(rc{i}, rs{i})
            [layers__{i}__out] o{i} = MatMul(r{i}, wo{i})
            [layers__{i}__add] h{next} = Add(h{i}, o{i})"""
    layers = "".join(layer.format(i=i, next=i + 1) for i in range(2))
    model = parse(
        f"""
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[T, 8] h0) => (float[T, 8] y) <int64 zero = {{0}}, int64 one = {{1}}> {{
            [rotary__shape] shape = Shape(h0)
            [rotary__length] length = Gather(shape, zero)
            [rotary__range] steps = Range(zero, length, one)
            [rotary__cast] at = Cast <to = 1> (steps)
            [rotary__column] column = Unsqueeze(at, last)
            [rotary__angle] angle = Mul(column, frequencies)
            [rotary__cos] cos = Cos(angle)
            [rotary__sin] sin = Sin(angle){layers}
            [head] y = MatMul(h2, g2)
        }}
        """,
        {"g": weight(8), "g2": weight(8, 8), "last": np.array([1]), "frequencies": weight(8)}
        | {f"w{kind}{i}": weight(8, 8, seed=i) for kind in "qo" for i in range(2)},
    )
    for node in model.graph.node:
        node.name = node.name.replace("__", ".")
    return model


def test_B5_pins_may_be_partial_and_a_typo_is_told(tmp_path: Path) -> None:
    """huggingface/transformers#30115: a map that forgets one buffer."""
    model = small_gpt()
    pins = ["layers.0.*=cpu:0", "layers.1.*=cpu:1"]
    api.place(model, cluster="2xCPU", pins=pins, out=tmp_path / "plan")
    placed = devices_of(tmp_path / "plan")
    for i in range(2):
        names = {f"{kind}{i}" for kind in ("n", "q", "r", "o")} & set(placed)
        assert names
        assert {placed[name] for name in names} == {f"cpu:{i}"}
    feeds = {"h0": np.random.default_rng(0).standard_normal((5, 8)).astype(np.float32)}
    with PlacedSession(tmp_path / "plan") as session:
        assert_bit_equal(session.run(None, feeds), run_plain(model, [feeds])[0])
    with pytest.raises(InputError, match=r"layer\.0\.\*"):
        api.place(model, cluster="2xCPU", pins=["layer.0.*=cpu:0"])


def test_B7_layers_weigh_what_their_weights_weigh() -> None:
    """ollama/ollama#14351: block 3 of 6 has ten times the weights; the cap is 1.2 of the mean."""
    sizes = [(256, 2560 if block == 3 else 256) for block in range(6)]
    lines: list[str] = []
    weights: dict[str, NDArray[Any]] = {}
    total = 0
    for block, (width, inner) in enumerate(sizes):
        lines.append(
            f"a{block} = MatMul(h{block}, up{block})  b{block} = Tanh(a{block})"
            f"  h{block + 1} = MatMul(b{block}, down{block})"
        )
        weights |= {f"up{block}": weight(width, inner), f"down{block}": weight(inner, width)}
        total += 8 * width * inner
    model = parse(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[N, 256] h0) => (float[N, 256] h6) {'
        + "\n".join(lines)
        + "}",
        weights,
    )
    cap_kb = int(1.2 * total / 3 / 1000)
    plan = api.place(model, cluster=f"3xCPU-{cap_kb}KB").plan
    assert all(device.peak_bytes <= cap_kb * 1000 for device in plan.devices)
    assert sum(device.weight_bytes for device in plan.devices) == total


@pytest.mark.parametrize("num_devices", [3, 7])
@pytest.mark.parametrize("policy", ["auto", "m-etf", "random"])
def test_B9_any_number_of_devices_works(num_devices: int, policy: str, tmp_path: Path) -> None:
    """vllm-project/vllm#8270: 4 layers on 3 and on 7 devices."""
    situation = layers_in_a_row(4)
    plan = tmp_path / "plan"
    cluster = f"{num_devices}xCPU"
    api.place(situation.model, cluster=cluster, policy=policy, out=plan, evaluations=50)
    calls = situation.feeds(np.random.default_rng(0))
    with PlacedSession(plan) as session:
        got = [session.run(None, feeds) for feeds in calls]
    assert_bit_equal(got, run_plain(situation.model, calls))


def test_C1_one_device_where_nothing_is_gained(tmp_path: Path, capfd: Capture) -> None:
    """kakaobrain/torchgpipe#31: a chain of 20 equal ops gets no faster on two devices."""
    model = write_chain(tmp_path / "m", num_weights=20, size=64)
    answer = api.place(model, cluster="2xCPU")
    assert len(in_use(answer.plan)) == 1
    assert answer.plan.makespan_s == pytest.approx(answer.plan.best_single_device_s)
    ended = run_here(capfd, "place", model, "--cluster", "2xCPU", "--dim", "N=1")
    assert ended.code == 0
    assert re.search("one device|single device", ended.out, re.IGNORECASE)


def test_C3_one_format_from_place_to_run(tmp_path: Path, capfd: Capture) -> None:
    """flexflow/flexflow-train#14, #690, #1463."""
    path = save(SITUATIONS["six_small_ops"]().model, tmp_path / "m.onnx")
    plan = tmp_path / "plan"
    placed = run_here(capfd, "place", path, "--cluster", "2xCPU", "-o", plan, "--json")
    simulated = run_here(capfd, "simulate", plan, "--json")
    ran = run_here(capfd, "run", plan, "--json")
    assert [ended.code for ended in (placed, simulated, ran)] == [0, 0, 0]
    predicted = json.loads(placed.out)["makespan_s"]
    assert predicted > 0
    assert json.loads(simulated.out)["makespan_s"] == pytest.approx(predicted)
    assert json.loads(ran.out)["predicted_makespan_s"] == pytest.approx(predicted)
    for command in (("simulate", plan), ("run", plan)):
        assert re.search("predicted|makespan", run_here(capfd, *command).out, re.IGNORECASE)


def test_C3_a_place_that_cannot_be_written_to_is_told(tmp_path: Path, capfd: Capture) -> None:
    """flexflow/flexflow-train#690: ``--export`` wrote nothing and said nothing."""
    path = save(SITUATIONS["six_small_ops"]().model, tmp_path / "m.onnx")
    ended = run_here(capfd, "place", path, "--cluster", "2xCPU", "-o", "/proc/dplace/plan")
    assert ended.code == 1
    assert "/proc/dplace" in one_line(ended)


PEAK = """
import resource, subprocess, sys
code = subprocess.call(sys.argv[1:], stdout=subprocess.DEVNULL)
print(code, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024)
"""


@pytest.mark.slow
def test_E3_a_session_takes_the_memory_of_its_weights_once(tmp_path: Path) -> None:
    """onnxruntime#23775, #21165, #21992: 400 MB of weights in two parts."""
    # onnxruntime packs one weight at a time beside its source, so the largest one counts twice on
    # each device; 64 weights of 6 MB keep that small. No two are equal.
    weights = {i: np.full((1250, 1250), i + 1, np.float32) for i in range(64)}
    model = write_chain(tmp_path / "m", num_weights=64, size=1250, weights=weights)
    del weights
    plan = tmp_path / "plan"
    devices = {f"h{i + 1}": int(i >= 32) for i in range(64)}
    answer = api.place(model, cluster="2xCPU", out=plan, placement=from_names(devices))
    assert len(answer.plan.parts) == 2
    command = [sys.executable, "-m", "dplace", "run", str(plan), "--repeat", "2"]
    done = subprocess.run(
        [sys.executable, "-c", PEAK, *command], capture_output=True, text=True, check=True
    )
    code, peak_bytes = map(int, done.stdout.split())
    assert code == 0, done.stderr
    assert peak_bytes <= 1.3 * 400e6, f"{peak_bytes / 1e6:.0f} MB"


def test_E5_standard_output_has_the_object_alone(tmp_path: Path) -> None:
    """bridgecrewio/checkov#992, saltstack/salt#30241, nano-step/nano-brain#235."""
    situation = SITUATIONS["outputs_without_shape_or_wrong"]()
    path, plan = save(situation.model, tmp_path / "m.onnx"), tmp_path / "plan"
    np.savez(tmp_path / "x.npz", **situation.feeds(np.random.default_rng(0))[0])
    common = ("--cluster", "2xCPU", "--policy", "random", "-o", plan, "--json")
    placed = start("-v", "place", path, *common)
    assert json.loads(placed.out)["makespan_s"] > 0
    ran = start("-v", "run", plan, "--inputs", tmp_path / "x.npz", "--json")
    assert json.loads(ran.out)["latency_s"]["median"] > 0


def test_E7_what_needs_no_dgl_works_without_it(tmp_path: Path) -> None:
    """dmlc/dgl#7822, #7450, #7247: ``import dgl`` fails as soon as torch is newer."""
    broken = tmp_path / "path" / "dgl"
    broken.mkdir(parents=True)
    (broken / "__init__.py").write_text(
        'raise FileNotFoundError("Cannot load Graphbolt C++ library")\n'
    )
    path = save(SITUATIONS["six_small_ops"]().model, tmp_path / "m.onnx")
    environment = {"PYTHONPATH": str(tmp_path / "path")}
    plan = str(tmp_path / "plan")
    place = ("place", str(path), "--cluster", "2xCPU", "-o", plan)
    for command in (place, ("run", plan), ("simulate", plan)):
        ended = start(*command, environment=environment)
        assert ended.code == 0, ended.err
    ended = start("doctor", environment=environment)
    assert "dgl" in ended.out
    assert "Graphbolt" in ended.out + ended.err
    assert "Traceback" not in ended.err
