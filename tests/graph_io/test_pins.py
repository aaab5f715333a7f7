"""Pins go by the original model's names and follow their ops through optimisation."""

import onnx
import pytest

from dplace.errors import ClusterError, InputError
from dplace.graph_io.pins import resolve_pins
from dplace.profiles import read_cluster
from tests.graph_io.models import parse, prepare


@pytest.fixture
def model() -> onnx.ModelProto:
    model = parse(
        """g (float[1,3,8,8] x) => (float[1,4,8,8] y) {
            c = Conv<pads = [1,1,1,1]>(x, conv_w)
            r = Relu(c)
            d = Conv<pads = [1,1,1,1]>(r, next_w)
            y = Sigmoid(d)
        }""",
        conv_w=(4, 3, 3, 3),
        next_w=(4, 4, 3, 3),
    )
    names = ("layer0/conv", "layer0/relu", "layer1/conv", "layer1/act")
    for node, name in zip(model.graph.node, names, strict=True):
        node.name = name
    return model


def pinned(model: onnx.ModelProto, *pins: tuple[str, str], mode: str = "native") -> dict[str, int]:
    optimised, placeable = prepare(model, mode=mode)  # type: ignore[arg-type]
    devices = resolve_pins(
        pins,
        original=optimised.original.ir.graph,
        placeable=placeable,
        cluster=read_cluster("2xCPU"),
    )
    return dict(zip(placeable.graph.op_types, devices.tolist(), strict=False))


@pytest.mark.parametrize("pattern", ["layer0/*", "c", "layer0/relu", "conv_w", "layer0/conv"])
@pytest.mark.parametrize("mode", ["native", "portable", "none"])
def test_a_pin_finds_its_op_by_node_output_or_weight(
    model: onnx.ModelProto, pattern: str, mode: str
) -> None:
    optimised, placeable = prepare(model, mode=mode)  # type: ignore[arg-type]
    devices = resolve_pins(
        [(pattern, "cpu:1")],
        original=optimised.original.ir.graph,
        placeable=placeable,
        cluster=read_cluster("2xCPU"),
    )
    assert 1 in devices.tolist()
    assert devices.tolist()[-1] == -1


def test_no_pins_leave_every_op_free(model: onnx.ModelProto) -> None:
    assert set(pinned(model).values()) == {-1}


def test_members_of_a_fused_op_pinned_apart_are_both_named(model: onnx.ModelProto) -> None:
    with pytest.raises(InputError) as caught:
        pinned(model, ("layer0/conv", "cpu:0"), ("layer0/relu", "cpu:1"))
    assert '"layer0/conv" goes to cpu:0 and "layer0/relu" to cpu:1' in str(caught.value)


def test_a_pin_that_matches_nothing_names_what_is_near(model: onnx.ModelProto) -> None:
    with pytest.raises(InputError, match="near names: layer0/conv"):
        pinned(model, ("layer0/cnv", "cpu:0"))


def test_a_pin_to_an_unknown_device_names_the_known(model: onnx.ModelProto) -> None:
    with pytest.raises(ClusterError, match="no device 'gpu:0'; it has cpu:0, cpu:1"):
        pinned(model, ("c", "gpu:0"))
