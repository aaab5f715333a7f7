"""Models with streamed weights: they compute the same, and run where they do not fit."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from dplace import api
from dplace.errors import InputError, MemoryLimitError, PlanError, UsageError
from dplace.plan.records import Plan
from dplace.profiles.streaming import PACK_BYTES_PER_S
from dplace.runtime.placed_session import PlacedSession
from dplace.runtime.values import Value
from tests.graph_io.models import parse
from tests.test_real_models import find
from tests.zoo import SITUATIONS, Feeds
from tests.zoo.placements import from_names, round_robin
from tests.zoo.plain_session import assert_bit_equal, run_plain

NATIVE: dict[str, Any] = {"optimize": "native", "opt_level": "all"}
AS_IT_IS: dict[str, Any] = {"optimize": "none", "opt_level": "none"}


def run_streamed(
    model: onnx.ModelProto | Path, calls: list[Feeds], folder: Path, **options: Any
) -> tuple[Plan, list[list[Value]]]:
    """Place a model with streamed weights and run the plan, within the room that it has."""
    plan = api.place(model, out=folder, **options).plan
    with PlacedSession(folder) as session:
        got = [session.run(None, feeds) for feeds in calls]
        for streamer in session._streamers:
            assert streamer.buffers.most_bytes <= plan.devices[streamer.number].buffer_bytes
            assert streamer.buffers.held_bytes == 0
    return plan, got


@pytest.mark.parametrize("mode", [NATIVE, AS_IT_IS], ids=["native", "as-it-is"])
@pytest.mark.parametrize(
    "name",
    [
        "bfloat16_weight",
        "convolutions_with_branches",
        "float16_net",
        "function_holds_an_if",
        "layers_in_a_row",
        "newest_ir_and_opset",
        "qdq_net",
        "weight_is_shared",
        "RULE_4_cheap_sources_are_cloned",
        "RULE_13_weights_in_several_places",
    ],
)
def test_streamed_weights_compute_the_same(
    name: str, mode: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dplace.graph_io.lift.LEAST_BYTES", 1)
    situation = SITUATIONS[name]()
    calls = situation.feeds(np.random.default_rng(7))
    plan, got = run_streamed(
        situation.model,
        calls,
        tmp_path / "plan",
        cluster="3xCPU",
        placement=round_robin,
        weights="stream",
        **mode,
    )
    assert plan.streamed
    expected = run_plain(situation.plain, calls, mode["opt_level"])
    if plan.exact:
        assert_bit_equal(got, expected)
    for mine, theirs in zip(got, expected, strict=True):
        for one, other in zip(mine, theirs, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-2, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "is_exact"),
    [("light_squeezenet", True), ("ch_PP-OCRv4_det_infer", True), ("gpt2", False)],
)
def test_real_models_stream_too(name: str, is_exact: bool, tmp_path: Path) -> None:
    model = find(name)
    plan, got = run_streamed(
        model.path,
        model.feeds,
        tmp_path / "plan",
        cluster="2xCPU",
        weights="stream",
        evaluations=100,
    )
    assert plan.exact == is_exact
    total = sum(weight.size_bytes for weight in plan.streamed)
    assert total > 0.8 * sum(file.stat().st_size for file in (tmp_path / "plan/parts").iterdir())
    expected = run_plain(model.path, model.feeds)
    if is_exact:
        assert_bit_equal(got, expected)
    for mine, theirs in zip(got, expected, strict=True):
        np.testing.assert_allclose(mine[0], theirs[0], rtol=1e-2, atol=1e-4)


WIDTH, NUM_LAYERS = 256, 8
WEIGHT_BYTES = WIDTH * WIDTH * 4
X = np.random.default_rng(4).standard_normal((4, WIDTH)).astype(np.float32)


@pytest.fixture(scope="module")
def chain() -> onnx.ModelProto:
    """Eight products with weights of 256 KiB, with a norm between them: 2 MiB in all."""
    lines = [
        f"p{at} = MatMul(x{at}, w{at})  x{at + 1} = LayerNormalization <axis = -1> (p{at}, ones)"
        for at in range(NUM_LAYERS)
    ]
    text = f"g (float[4,{WIDTH}] x0) => (float[4,{WIDTH}] x{NUM_LAYERS}) {{ {'  '.join(lines)} }}"
    weights = {f"w{at}": (WIDTH, WIDTH) for at in range(NUM_LAYERS)}
    return parse(text, ones=(WIDTH,), **weights)


def small_cluster(folder: Path, *memory_kib: int) -> str:
    """Write a cluster of CPUs with so much memory."""
    path = folder / "small.yaml"
    lines = [f"  - {{kind: CPU, memory: {kib}KiB}}" for kib in memory_kib]
    path.write_text("\n".join(["devices:", *lines]) + "\n")
    return str(path)


@pytest.mark.parametrize(
    ("memory_kib", "objective"),
    [((1024, 1024), "latency"), ((1300,), "latency"), ((700, 1500), "throughput")],
)
def test_a_model_larger_than_its_devices_runs(
    chain: onnx.ModelProto, memory_kib: tuple[int, ...], objective: str, tmp_path: Path
) -> None:
    plan, got = run_streamed(
        chain,
        [{"x0": X}] * 2,
        tmp_path / "plan",
        cluster=small_cluster(tmp_path, *memory_kib),
        objective=objective,
        evaluations=100,
    )
    assert 0 < len(plan.streamed) < NUM_LAYERS  # what fits stays
    for device, kib in zip(plan.devices, memory_kib, strict=True):
        assert device.peak_bytes <= kib * 1024
        assert device.weight_bytes + device.buffer_bytes < device.peak_bytes
    resident = sum(device.weight_bytes for device in plan.devices) // WEIGHT_BYTES
    assert resident + len(plan.streamed) == NUM_LAYERS
    for outputs in got:
        np.testing.assert_allclose(outputs[0], run_plain(chain, [{"x0": X}])[0][0], atol=1e-4)
    assert api.simulate(tmp_path / "plan").makespan_s == pytest.approx(plan.makespan_s)


def test_nothing_is_streamed_where_all_fits(chain: onnx.ModelProto) -> None:
    answer = api.place(chain, cluster="2xCPU", evaluations=50)
    assert answer.plan.streamed == ()
    assert all(device.buffer_bytes == 0 for device in answer.plan.devices)
    assert not any("streamed" in warning for warning in answer.warnings)


def test_resident_weights_have_to_fit(chain: onnx.ModelProto, tmp_path: Path) -> None:
    cluster = small_cluster(tmp_path, 900, 900)
    with pytest.raises(MemoryLimitError, match="weights take 2.00 MiB, all of"):
        api.place(chain, cluster=cluster, weights="resident")


def test_all_that_may_be_is_streamed_on_demand(chain: onnx.ModelProto) -> None:
    answer = api.place(chain, cluster="2xCPU", weights="stream", evaluations=50)
    assert {weight.name for weight in answer.plan.streamed} == {
        f"w{at}" for at in range(NUM_LAYERS)
    }
    assert {weight.home for weight in answer.plan.streamed} == {"host"}
    json = answer.as_json()
    assert json["streamed"] == {"count": 8, "bytes": 8 * WEIGHT_BYTES, "homes": ["host"]}
    assert sum(device["streamed_bytes"] for device in json["devices"]) == 8 * WEIGHT_BYTES  # type: ignore[attr-defined]
    assert any("last bits" in warning for warning in answer.warnings)
    assert any("take longer than predicted" in warning for warning in answer.warnings)
    assert not any("read from disk" in warning for warning in answer.warnings)
    assert not answer.plan.exact


def test_fed_matrices_are_packed_at_every_run(chain: onnx.ModelProto) -> None:
    """On one device ops take as long as with resident weights, and packing them besides."""
    streamed_s, resident_s = (
        sum(part.predicted_s for part in plan.parts)
        for plan in (
            api.place(chain, cluster="1xCPU", policy="single", weights=weights).plan
            for weights in ("stream", "resident")
        )
    )
    packing_s = NUM_LAYERS * WEIGHT_BYTES / PACK_BYTES_PER_S[0]
    assert streamed_s == pytest.approx(resident_s + packing_s)


def test_more_than_the_host_holds_is_told_of(
    chain: onnx.ModelProto, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sysconf", lambda name: 1024)  # a page, and how many there are
    answer = api.place(chain, cluster="2xCPU", weights="stream", evaluations=20)
    message = (
        "weights of 2.00 MiB are streamed from the host, which has 0 bytes of its 1.00 MiB of "
        "memory left beside the devices: they are read from disk for each request, which is slower "
        "than predicted"
    )
    assert message in answer.warnings


def test_weights_may_lie_on_another_device(chain: onnx.ModelProto, tmp_path: Path) -> None:
    """All ops on the first device, all weights on the second: a parameter server."""
    plan, got = run_streamed(
        chain,
        [{"x0": X}],
        tmp_path / "plan",
        cluster=small_cluster(tmp_path, 800, 4096),
        placement=from_names({}),
        weights="stream",
        weight_home="cpu:1",
    )
    first, second = plan.devices
    assert first.num_ops == 2 * NUM_LAYERS
    assert first.peak_bytes <= 800 * 1024
    assert second.weight_bytes == 8 * WEIGHT_BYTES
    assert [step.action for step in second.program] == ["send"] * NUM_LAYERS
    assert {weight.home for weight in plan.streamed} == {"cpu:1"}
    assert (tmp_path / "plan/parts/cpu-1.streamed").stat().st_size == 8 * WEIGHT_BYTES
    np.testing.assert_allclose(got[0][0], run_plain(chain, [{"x0": X}])[0][0], atol=1e-4)


def test_a_model_without_large_weights_is_told_of(tmp_path: Path) -> None:
    model = parse("g (float[2,8] x) => (float[2,8] y) { y = MatMul(x, w) }", w=(8, 8))
    answer = api.place(model, cluster="2xCPU", weights="stream", evaluations=20)
    assert answer.plan.streamed == ()
    assert any("no weight of 64 KiB or more" in warning for warning in answer.warnings)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (
            {"weight_home": "cpu:7"},
            InputError,
            "--weight-home cpu:7: no such device; 2xCPU has cpu:0, cpu:1, and host for its memory",
        ),
        ({"weights": "never"}, UsageError, "--weights never: expected resident, stream or auto"),
        (
            {"weights": "resident", "weight_home": "cpu:1"},
            UsageError,
            "--weight-home cpu:1: resident weights lie where they are read",
        ),
        (
            {"weights": "stream", "machine": "placeto"},
            UsageError,
            "--weights stream: needs --machine native, got placeto",
        ),
    ],
)
def test_options_that_cannot_be_are_refused(
    options: dict[str, Any], error: type[Exception], message: str, chain: onnx.ModelProto
) -> None:
    with pytest.raises(error) as raised:
        api.place(chain, cluster="2xCPU", **options)
    assert str(raised.value) == message


def test_a_cost_graph_has_no_weights_to_stream(tmp_path: Path) -> None:
    file = tmp_path / "costs.json"
    file.write_text("{}")
    with pytest.raises(UsageError, match="--weights: .* is a cost graph"):
        api.place(file, cluster="2xCPU", format="dplace", weights="stream")


def test_a_weight_larger_than_every_device_is_told_of(
    chain: onnx.ModelProto, tmp_path: Path
) -> None:
    with pytest.raises(MemoryLimitError) as raised:
        api.place(chain, cluster=small_cluster(tmp_path, 255, 200))
    assert str(raised.value) == (
        "g: op 'p0' reads 256.00 KiB of weights at once and takes 264.00 KiB with what it "
        "computes; the largest device that it may go to has 255.00 KiB, 9.00 KiB missing (with "
        "weights streamed)"
    )


def test_a_home_without_room_is_told_of(chain: onnx.ModelProto, tmp_path: Path) -> None:
    with pytest.raises(MemoryLimitError, match="do not fit on their home cpu:1"):
        api.place(chain, cluster=small_cluster(tmp_path, 800, 800), weight_home="cpu:1")


def test_a_file_of_streamed_weights_that_was_changed_is_refused(
    chain: onnx.ModelProto, tmp_path: Path
) -> None:
    api.place(chain, cluster="2xCPU", weights="stream", out=tmp_path / "plan", evaluations=20)
    file = tmp_path / "plan/parts/host.streamed"
    assert file.stat().st_size == 8 * WEIGHT_BYTES
    with file.open("r+b") as content:
        content.seek(5)
        content.write(b"x")
    with pytest.raises(PlanError, match="parts/host.streamed was changed since the plan was made"):
        PlacedSession(tmp_path / "plan")
    os.truncate(file, 1000)
    with pytest.raises(PlanError, match="parts/host.streamed is too short"):
        PlacedSession(tmp_path / "plan", verify=False)
