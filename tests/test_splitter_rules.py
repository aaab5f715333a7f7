"""The thirteen rules of a correct splitter, each seen in the parts that it makes."""

from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import pytest

from dplace import api
from dplace.plan.records import Plan
from dplace.runtime.placed_session import PlacedSession
from tests.zoo import SITUATIONS, Situation
from tests.zoo.external_data import write_chain
from tests.zoo.placements import Placement, from_names, round_robin
from tests.zoo.plain_session import assert_bit_equal, run_plain


def split(
    situation: Situation, folder: Path, placement: Placement = round_robin, devices: int = 2
) -> tuple[Plan, dict[str, onnx.ModelProto]]:
    """Place the model as it is, run it, compare it; return the plan and its parts by name."""
    answer = api.place(
        situation.model,
        cluster=f"{devices}xCPU",
        out=folder,
        placement=placement,
        optimize="none",
        opt_level="none",
    )
    calls = situation.feeds(np.random.default_rng(5))
    with PlacedSession(folder) as session:
        got = [session.run(None, feeds) for feeds in calls]
    if situation.repeats:
        assert_bit_equal(got, run_plain(situation.plain, calls, "none"))
    return answer.plan, {part.name: onnx.load(folder / part.file) for part in answer.plan.parts}


def rule(number: int) -> Situation:
    """Return the situation of a rule."""
    name = next(name for name in SITUATIONS if name.startswith(f"RULE_{number}_"))
    return SITUATIONS[name]()


def op_types(model: onnx.ModelProto) -> list[str]:
    """Return the op types of a model's main graph."""
    return [node.op_type for node in model.graph.node]


def test_RULE_1_a_capture_is_an_input_and_a_shadow_is_none(tmp_path: Path) -> None:
    devices = {"a": 0, "s": 0, "r": 1, "y": 0}
    plan, _ = split(rule(1), tmp_path / "plan", from_names(devices))
    loop = next(part for part in plan.parts if part.device == "cpu:1")
    assert set(loop.inputs) == {"n", "a", "c"}, "s is the body's own, x is not read"


def test_RULE_2_functions_go_where_they_are_called_from_anywhere(tmp_path: Path) -> None:
    devices = {"a": 0, "r": 1, "y": 0}
    _, parts = split(rule(2), tmp_path / "plan", from_names(devices))
    for model in parts.values():
        functions = {(f.domain, f.name, f.overload) for f in model.functions}
        if "If" in op_types(model):
            assert {("local", "only_here", ""), ("local", "below", "")} <= functions
        elif model.graph.node[0].overload == "deep":
            assert {("local", "f", "deep"), ("local", "below", "")} <= functions
        assert Counter(entry.domain for entry in model.opset_import)["local"] == 1


def test_RULE_3_every_part_keeps_imports_and_ir_version(tmp_path: Path) -> None:
    situation = rule(3)
    _, parts = split(situation, tmp_path / "plan")
    wanted = {(entry.domain, entry.version) for entry in situation.model.opset_import}
    assert len(parts) >= 2
    for model in parts.values():
        found = {(entry.domain, entry.version) for entry in model.opset_import}
        assert found >= wanted
        if model.ir_version < 4:
            names = {value.name for value in model.graph.input}
            assert {tensor.name for tensor in model.graph.initializer} <= names


def test_RULE_4_cheap_sources_are_cloned_and_never_sent(tmp_path: Path) -> None:
    plan, parts = split(rule(4), tmp_path / "plan")
    crossing = {name for part in plan.parts for name in part.inputs} - {"x"}
    # Shape itself reads x: its few bytes cross, what is computed from them does not.
    cheap = {"half", "ones", "w", "b", "b1", "rest", "to"}
    assert crossing & cheap == set()
    assert sum("DequantizeLinear" in op_types(model) for model in parts.values()) == 2


def test_RULE_5_a_shared_weight_counts_once_a_device(tmp_path: Path) -> None:
    size = 16 * 16 * 4
    apart = {"a": 0, "b": 0, "c": 1, "y": 1}
    again = {"a": 0, "b": 1, "c": 1, "y": 0}
    plan, _ = split(rule(5), tmp_path / "apart", from_names(apart))
    assert [device.weight_bytes for device in plan.devices] == [size, size]
    plan, parts = split(rule(5), tmp_path / "again", from_names(again))
    assert [device.weight_bytes for device in plan.devices] == [size, 0]
    assert sum("MatMul" in op_types(model) for model in parts.values()) == 2


def test_RULE_6_every_value_that_crosses_has_a_type(tmp_path: Path) -> None:
    plan, parts = split(rule(6), tmp_path / "plan", devices=3)
    types = {value.name: value.type for value in plan.values}
    assert types["a"] == "tensor(float)"
    assert types["b"] == "tensor(float16)"
    assert types["s"] == "seq(tensor(float))"
    for model in parts.values():
        for value in (*model.graph.input, *model.graph.output):
            assert value.type.WhichOneof("value") is not None, value.name
    assert not [value for value in plan.values if value.name == "e" and value.shape == (1, 1)]


def test_RULE_7_outputs_keep_their_order_and_names(tmp_path: Path) -> None:
    situation = rule(7)
    plan, _ = split(situation, tmp_path / "plan", devices=3)
    wanted = [value.name for value in situation.model.graph.output]
    assert [value.name for value in plan.outputs] == wanted


def test_RULE_8_holes_stay_and_nodes_need_no_names(tmp_path: Path) -> None:
    _, parts = split(rule(8), tmp_path / "plan")
    nodes = [node for model in parts.values() for node in model.graph.node]
    (lstm,) = [node for node in nodes if node.op_type == "LSTM"]
    assert list(lstm.output) == ["", "", "c"]
    assert [bool(name) for name in lstm.input] == [True, True, True, False, False, True]
    for node in nodes:
        if node.op_type == "Clip":
            assert [bool(name) for name in node.input] == [True, False, True]


def test_RULE_9_no_part_is_empty(tmp_path: Path) -> None:
    plan, parts = split(rule(9), tmp_path / "plan", devices=4)
    assert parts
    for part in plan.parts:
        assert parts[part.name].graph.node
        assert part.outputs
    plan, parts = split(SITUATIONS["no_nodes"](), tmp_path / "none")
    assert all(model.graph.output for model in parts.values())


def test_RULE_10_a_device_is_visited_as_often_as_it_takes(tmp_path: Path) -> None:
    devices = {name: int(name.startswith(("b", "z"))) for name in ("a1", "b1", "a2", "b2")}
    devices |= {"a3": 0, "b3": 1, "y": 0, "z": 1}
    plan, _ = split(rule(10), tmp_path / "plan", from_names(devices))
    makers = {name: part.name for part in plan.parts for name in part.outputs}
    before = {
        part.name: {makers[name] for name in part.inputs if name in makers} for part in plan.parts
    }
    done: set[str] = set()
    while before:
        ready = [name for name, needs in before.items() if needs <= done]
        assert ready, f"these wait for each other: {before}"
        done |= set(ready)
        before = {name: needs for name, needs in before.items() if name not in done}
    assert max(Counter(part.device for part in plan.parts).values()) >= 2


def test_RULE_11_unseeded_random_ops_are_told() -> None:
    for name in ("RULE_11_random_ops", "unseeded_random"):
        warnings = api.place(SITUATIONS[name]().model, cluster="2xCPU").warnings
        assert any("random" in warning.lower() for warning in warnings)
    warnings = api.place(SITUATIONS["seeded_random"]().model, cluster="2xCPU").warnings
    assert not any("random" in warning.lower() for warning in warnings)


def test_RULE_12_what_a_model_carries_is_carried(tmp_path: Path) -> None:
    _, parts = split(rule(12), tmp_path / "plan")
    for model in parts.values():
        assert {entry.key: entry.value for entry in model.metadata_props}["licence"] == "none"
        for node in model.graph.node:
            if node.op_type in ("Sin", "MatMul", "Mul"):
                assert node.doc_string == "a node"
                assert [entry.value for entry in node.metadata_props] == [node.op_type]


def test_RULE_13_weights_outside_stay_outside(tmp_path: Path) -> None:
    eye = np.eye(1000, dtype=np.float32)
    model = write_chain(tmp_path / "m", num_weights=4, size=1000, weights={0: eye, 3: 2 * eye})
    plan = tmp_path / "plan"
    devices = {"h1": 0, "h2": 1, "h3": 0, "h4": 1}
    api.place(model, cluster="2xCPU", out=plan, placement=from_names(devices))
    parts = sorted(plan.glob("parts/*.onnx"))
    assert sum(part.stat().st_size for part in parts) < 20_000
    locations = set()
    for part in parts:
        proto = onnx.load(part, load_external_data=False)
        for tensor in proto.graph.initializer:
            assert tensor.data_location == onnx.TensorProto.EXTERNAL
            where = {entry.key: entry.value for entry in tensor.external_data}
            locations.add(where["location"])
            assert (part.parent / where["location"]).is_file()
    assert all(Path(location).name == location for location in locations)


@pytest.mark.parametrize("number", range(1, 14))
def test_every_rule_has_its_situation(number: int) -> None:
    assert rule(number).source
