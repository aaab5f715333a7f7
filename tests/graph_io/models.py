"""Words for building placeable models in a line or two."""

import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnx.numpy_helper
import onnx.parser

from dplace.graph_io.build import PlaceableModel, build_op_graph
from dplace.graph_io.fusion import fused_groups
from dplace.graph_io.observe import observe
from dplace.graph_io.optimise import OptimisedModel, OptimizeMode, optimise
from dplace.graph_io.read import read_model
from dplace.graph_io.session import OptLevel
from dplace.graph_io.skeleton import check_dims

__all__ = ["parse", "prepare"]


def parse(text: str, **weights: tuple[int, ...]) -> onnx.ModelProto:
    """Return the model whose graph is written in ONNX's textual syntax.

    Args:
        weights: Shape of each initializer to fill with normal numbers.
    """
    header = '<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>'
    model = onnx.parser.parse_model(header + text)
    rng = np.random.default_rng(0)
    for name, shape in weights.items():
        array = rng.standard_normal(shape).astype(np.float32)
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    return model


def prepare(
    model: onnx.ModelProto,
    mode: OptimizeMode = "none",
    opt_level: OptLevel = "all",
    dims: dict[str, int] | None = None,
) -> tuple[OptimisedModel, PlaceableModel]:
    """Take the road up to the op graph; weights that stay on disk are gone afterwards."""
    source = read_model(model)
    with tempfile.TemporaryDirectory() as scratch:
        optimised = optimise(source, mode=mode, opt_level=opt_level, scratch=Path(scratch))
        sizes, _ = check_dims(source, dims or {})
        observed = observe(optimised.model, sizes)
        groups = fused_groups(optimised, Path(scratch)) if mode == "portable" else ()
        return optimised, build_op_graph(optimised.model, observed, groups)
