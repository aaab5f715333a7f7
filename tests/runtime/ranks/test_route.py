"""What each rank does for some outputs, worked out by hand on plans of a few parts."""

import dataclasses
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto

from dplace.errors import PlanError
from dplace.plan.records import Plan, Step
from dplace.runtime.ranks.route import (
    FEED,
    OUTPUT,
    Crossing,
    Turn,
    Values,
    plan_links,
    rank_routes,
)
from tests.runtime.plans import given, graph, make_plan, node, node_model


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    """cpu:0: a = -x; cpu:1: b = a + x, d = -b; cpu:2: c = -b, v = -u."""
    made = make_plan(
        tmp_path,
        {
            "p": ("cpu:0", node_model("Neg", ["x"], ["a"])),
            "q": ("cpu:1", node_model("Add", ["a", "x"], ["b"])),
            "r": ("cpu:2", node_model("Neg", ["b"], ["c"])),
            "s": ("cpu:1", node_model("Neg", ["b"], ["d"])),
            "t": ("cpu:2", node_model("Neg", ["u"], ["v"])),
        },
        {
            "cpu:0": ["run p", "send a cpu:1"],
            "cpu:1": ["receive a cpu:0", "run q", "send b cpu:2", "run s"],
            "cpu:2": ["receive b cpu:1", "run r", "run t"],
        },
        inputs=[given("x"), given("u")],
        outputs=[given("c"), given("d"), given("v"), given("x")],
        passthrough=[("x", "x")],
    )
    return with_priorities(made, {"a": 5, "b": 7})


def with_priorities(plan: Plan, of: dict[str, int]) -> Plan:
    def step(one: Step) -> Step:
        return dataclasses.replace(one, priority=of.get(one.subject, 0))

    devices = tuple(
        dataclasses.replace(device, program=tuple(map(step, device.program)))
        for device in plan.devices
    )
    return dataclasses.replace(plan, devices=devices)


X, U, A, B, C, D, V = range(7)


def test_values_are_numbered_as_they_are_given_and_made(plan: Plan) -> None:
    assert Values(plan).names == ("x", "u", "a", "b", "c", "d", "v")


def test_links_are_those_of_the_plan_and_of_rank_0(plan: Plan) -> None:
    assert plan_links(plan) == ((0, 1), (0, 2), (1, 0), (1, 2), (2, 0))


def test_all_outputs_take_all_parts(plan: Plan) -> None:
    first, second, third = rank_routes(plan, ["c", "d", "v", "x"])
    # The inputs that others read leave before anything else.
    assert first.feeds == (
        Crossing(value=X, target=1, priority=FEED),
        Crossing(value=U, target=2, priority=FEED),
    )
    assert first.turns == (
        Turn(
            part="p",
            reads=(X,),
            outputs=("a",),
            writes=(A,),
            sends=((0, Crossing(value=A, target=1, priority=5)),),
        ),
    )
    assert first.uses == {X: 1, C: 1, D: 1, V: 1}
    assert first.fetches == (C, D, V, "x")
    assert second.feeds == ()
    assert second.turns == (
        Turn(
            part="q",
            reads=(A, X),
            outputs=("b",),
            writes=(B,),
            sends=((0, Crossing(value=B, target=2, priority=7)),),
        ),
        Turn(
            part="s",
            reads=(B,),
            outputs=("d",),
            writes=(D,),
            sends=((0, Crossing(value=D, target=0, priority=OUTPUT)),),
        ),
    )
    assert second.uses == {A: 1, X: 1, B: 1}
    assert [turn.part for turn in third.turns] == ["r", "t"]
    assert third.uses == {B: 1, U: 1}


def test_parts_that_lead_to_no_output_that_was_asked_for_do_not_run(plan: Plan) -> None:
    first, second, third = rank_routes(plan, ["v", "v"])
    assert (first.turns, second.turns) == ((), ())
    assert first.feeds == (Crossing(value=U, target=2, priority=FEED),)
    assert [turn.part for turn in third.turns] == ["t"]
    assert first.uses == {V: 2}
    assert first.fetches == (V, V)
    assert rank_routes(plan, ["x"])[0].fetches == ("x",)


def test_an_initializer_crosses_only_if_it_is_fed(tmp_path: Path) -> None:
    weight = onnx.helper.make_tensor("w", TensorProto.FLOAT, [1], [2.0])
    scale = graph(
        [node("Mul", ["x", "w"], ["y"])], [given("x"), given("w")], [given("y")], [weight]
    )
    plan = make_plan(
        tmp_path,
        {"scale": ("cpu:1", scale)},
        {"cpu:0": [], "cpu:1": ["run scale"]},
        inputs=[given("x")],
        outputs=[given("y")],
        overridable=[given("w")],
    )
    first, second = rank_routes(plan, ["y"])
    assert [crossing.value for crossing in first.feeds] == [0]
    assert second.turns[0].reads == (0, -1)
    first, second = rank_routes(plan, ["y"], ["w"])
    assert [crossing.value for crossing in first.feeds] == [0, 1]
    assert second.turns[0].reads == (0, 1)


def test_a_map_that_would_have_to_cross_is_refused(tmp_path: Path) -> None:
    maps = onnx.TypeProto()
    maps.map_type.key_type = TensorProto.INT64
    maps.map_type.value_type.CopyFrom(onnx.helper.make_tensor_type_proto(1, None))
    vector = graph(
        [node("DictVectorizer", ["m"], ["v"], domain="ai.onnx.ml", int64_vocabulary=[1])],
        [given("m", maps)],
        [given("v")],
    )
    plan = make_plan(
        tmp_path,
        {"vector": ("cpu:1", vector)},
        {"cpu:0": [], "cpu:1": ["run vector"]},
        inputs=[given("m", maps)],
        outputs=[given("v")],
    )
    with pytest.raises(PlanError, match=r'"m" of type map\(.*from cpu:0 to cpu:1.*one device'):
        rank_routes(plan, ["v"])
