"""``dplace inspect``: a model in, a summary out."""

import json

import pytest

from tests.commands.conftest import Dplace, Record
from tests.report.plans import summary


def test_defaults(dplace: Dplace, record: Record) -> None:
    inspect = record("inspect", summary(warnings=("batch is taken as 1",)))
    result = dplace("inspect", "m.onnx")
    assert result.code == 0
    assert inspect.calls == [(("m.onnx",), {"dims": {}, "optimize": "none", "opt_level": "all"})]
    assert result.out.startswith("Model      towers.onnx\n")
    assert result.err == "dplace: warning: batch is taken as 1\n"


def test_options(dplace: Dplace, record: Record) -> None:
    inspect = record("inspect", summary())
    out = dplace(
        *("inspect", "-", "--dim", "n=3", "--optimize", "native", "--opt-level", "basic"),
        *("--top", "1"),
    ).out
    expected = {"dims": {"n": 3}, "optimize": "native", "opt_level": "basic"}
    assert inspect.calls == [(("-",), expected)]
    assert "and 2 more; --top 3 shows all\n" in out


def test_json_has_all_op_types_whatever_top_is(dplace: Dplace, record: Record) -> None:
    record("inspect", summary())
    answer = json.loads(dplace("inspect", "m.onnx", "--top", "1", "--json").out)
    assert answer == {
        "model": "towers.onnx",
        "ir_version": 8,
        "producer": "pytorch 2.4",
        "opset_imports": {"ai.onnx": 17, "com.microsoft": 1},
        "functions": ["local:gate"],
        "optimize": "none",
        "nodes": 9,
        "ops": 6,
        "flop": 8e6,
        "weights": {"count": 4, "bytes": 4_000_900},
        "inputs": [{"name": "x", "type": "tensor(float)", "shape": ["batch", None, 4]}],
        "outputs": [{"name": "y", "type": "tensor(float)", "shape": None}],
        "dynamic_dims": {"batch": 1},
        "op_types": [
            {"op_type": "Relu", "count": 2, "flop": 2e6, "bytes": 8e6},
            {"op_type": "MatMul", "count": 3, "flop": 6e6, "bytes": 12e6},
            {"op_type": "If", "count": 1, "flop": 0, "bytes": 0},
        ],
        "captures": [{"op": "y", "op_type": "If", "values": ["h", "w"]}],
        "uncut": [{"reason": "control-flow", "op": "y", "detail": "2 bodies with 5 nodes"}],
        "warnings": [],
    }


@pytest.mark.parametrize("argument", ["auto", "all"])
def test_a_model_is_not_inspected_for_a_cluster(dplace: Dplace, argument: str) -> None:
    assert dplace("inspect", "m.onnx", "--optimize", argument).code == 2
