"""A placed model computes what the whole one does, to the last bit, wherever it is cut."""

from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dplace import api
from dplace.errors import ModelError
from dplace.runtime.placed_session import PlacedSession
from tests.zoo import SITUATIONS, Feeds, Situation
from tests.zoo.external_data import WELL_PLACED
from tests.zoo.placements import drawn, round_robin
from tests.zoo.plain_session import assert_bit_equal, plain_session, run_plain
from tests.zoo.random_models import WIDTH, DrawnOp, build_model, drawn_ops

MODES: dict[str, dict[str, Any]] = {
    "native-all": {"optimize": "native", "opt_level": "all"},
    "native-none": {"optimize": "native", "opt_level": "none"},
    "as-it-is": {"optimize": "none", "opt_level": "none"},
}
WAYS: dict[str, dict[str, Any]] = {
    "random-0": {"policy": "random", "seed": 0},
    "random-1": {"policy": "random", "seed": 1},
    "round-robin": {"placement": round_robin},
}


def run_placed(
    model: onnx.ModelProto | Path, calls: list[Feeds], folder: Path, **options: Any
) -> list[list[Any]]:
    """Place a model, run the plan, and return the outputs of each call."""
    api.place(model, out=folder, **options)
    with PlacedSession(folder) as session:
        return [session.run(None, feeds) for feeds in calls]


def compare(situation: Situation, folder: Path, mode: dict[str, Any]) -> None:
    """Place one situation in several ways and compare each with the whole session."""
    calls = situation.feeds(np.random.default_rng(7))
    expected = run_plain(situation.plain, calls, mode["opt_level"])
    for way, options in WAYS.items():
        plan = folder / way
        got = run_placed(situation.model, calls, plan, cluster="3xCPU", **mode, **options)
        if situation.only_native and mode["optimize"] == "none":
            np.testing.assert_allclose(np.array(got), np.array(expected), rtol=1e-2)
        elif situation.repeats:
            assert_bit_equal(got, expected, way)
        check_parts(situation, plan)


def check_parts(situation: Situation, plan: Path) -> None:
    """Every part loads by itself, and is one that onnx accepts where the whole is."""
    accepted = not fault_of(situation.model)
    for part in sorted(plan.glob("parts/*.onnx")):
        plain_session(part, "none")
        if accepted:
            assert not fault_of(part), part


def fault_of(model: onnx.ModelProto | Path) -> str:
    """Return what onnx.checker has against a model, or nothing.

    It wants a shape for every input and output, and a part's values need not have a sure one.
    """
    try:
        onnx.checker.check_model(model if isinstance(model, onnx.ModelProto) else str(model))
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        return "" if "Field 'shape' of 'type' is required" in str(error) else str(error)
    return ""


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", SITUATIONS)
def test_situation_is_exact_however_it_is_cut(name: str, mode: str, tmp_path: Path) -> None:
    situation = SITUATIONS[name]()
    if not (situation.may_refuse and is_refused(situation)):
        compare(situation, tmp_path, MODES[mode])


def is_refused(situation: Situation) -> bool:
    """Return whether dplace refuses the model, in one line."""
    try:
        api.place(situation.model, cluster="3xCPU")
    except ModelError as refusal:
        return "\n" not in str(refusal)
    return False


@pytest.mark.parametrize("level", ["basic", "extended"])
@pytest.mark.parametrize(
    "name", ["layers_in_a_row", "convolutions_with_branches", "qdq_net", "float16_net"]
)
def test_levels_between_are_exact_too(name: str, level: str, tmp_path: Path) -> None:
    compare(SITUATIONS[name](), tmp_path, {"optimize": "native", "opt_level": level})


@pytest.mark.parametrize("optimize", ["native", "none"])
@pytest.mark.parametrize("name", WELL_PLACED)
def test_weights_in_other_files_are_found(
    name: str, optimize: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "source"
    source.mkdir()
    path = WELL_PLACED[name](source)
    rng = np.random.default_rng(3)
    shapes = ("x", "late")
    calls: list[Feeds] = [{name: rng.standard_normal((2, 8)).astype(np.float32) for name in shapes}]
    level = "all" if optimize == "native" else "none"
    expected = run_plain(path, calls, level)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    got = run_placed(
        path,
        calls,
        Path("plan"),
        cluster="2xCPU",
        placement=round_robin,
        optimize=optimize,
        opt_level=level,
    )
    assert_bit_equal(got, expected)
    assert not [file for file in Path("plan").rglob("*") if file.is_symlink()]


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    ops=drawn_ops(),
    num_inputs=st.integers(1, 3),
    seed=st.integers(0, 2**32 - 1),
    devices=st.integers(1, 4),
    mode=st.sampled_from(sorted(MODES)),
    choice=st.booleans(),
)
def test_drawn_models_are_exact(
    ops: list[DrawnOp], num_inputs: int, seed: int, devices: int, mode: str, choice: bool
) -> None:
    model = build_model(ops, num_inputs)
    rng = np.random.default_rng(seed)
    calls: list[Feeds] = [
        {f"x{i}": rng.standard_normal((size, WIDTH)).astype(np.float32) for i in range(num_inputs)}
        | {"choice": np.array(choice)}
        for size in (2, 1)
    ]
    expected = run_plain(model, calls, MODES[mode]["opt_level"])
    with TemporaryDirectory() as folder:
        got = run_placed(
            model,
            calls,
            Path(folder) / "plan",
            cluster=f"{devices}xCPU",
            placement=drawn(seed),
            **MODES[mode],
        )
    assert_bit_equal(got, expected)


def test_a_plan_for_one_batch_runs_another(tmp_path: Path) -> None:
    situation = SITUATIONS["convolutions_with_branches"]()
    calls = situation.feeds(np.random.default_rng(0))
    got = run_placed(
        situation.model,
        calls,
        tmp_path / "plan",
        cluster="2xCPU",
        placement=round_robin,
        dims={"N": 8, "H": 8, "W": 8},
    )
    assert_bit_equal(got, run_plain(situation.model, calls))


def test_only_wanted_outputs_come_back(tmp_path: Path) -> None:
    situation = SITUATIONS["RULE_7_outputs_keep_order_and_names"]()
    (feeds,) = situation.feeds(np.random.default_rng(0))
    api.place(situation.model, cluster="3xCPU", out=tmp_path / "plan", placement=round_robin)
    whole = plain_session(situation.model)
    with PlacedSession(tmp_path / "plan") as session:
        for wanted in (["y"], ["w", "b"], ["x"], ["y", "y", "a"], ["k", "x"]):
            assert_bit_equal(session.run(wanted, feeds), whole.run(wanted, feeds))


def test_inputs_and_outputs_are_declared_as_by_onnxruntime(tmp_path: Path) -> None:
    for name, make in SITUATIONS.items():
        situation = make()
        if situation.may_refuse:
            continue
        api.place(situation.model, cluster="2xCPU", out=tmp_path / name, policy="single")
        whole = plain_session(situation.plain)
        with PlacedSession(tmp_path / name) as session:
            assert declared(session.get_inputs()) == declared(whole.get_inputs()), name
            assert declared(session.get_outputs()) == declared(whole.get_outputs()), name


def declared(arguments: Iterable[Any]) -> list[tuple[str, str]]:
    """Return names and types; shapes are as the model has them, where onnxruntime infers more."""
    return [(item.name, item.type) for item in arguments]
