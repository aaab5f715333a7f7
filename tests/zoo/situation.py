"""The record of a situation, and the few words that the zoo's models are written with."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import onnx.numpy_helper
import onnx.parser
from numpy.typing import NDArray

__all__ = ["Feeds", "Situation", "calls", "parse", "set_initializers", "weight"]

Feeds = dict[str, Any]
"""Input name to array, or to a list of arrays, or to None for an empty optional."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """A small model that once broke a tool of this kind."""

    model: onnx.ModelProto
    feeds: Callable[[np.random.Generator], list[Feeds]]
    """Makes the feeds of one or more calls, in the order in which to make them."""
    source: str
    """Where it was reported (``ort`` is microsoft/onnxruntime), or the rule that it is for."""
    mended: onnx.ModelProto | None = None
    """What plain onnxruntime can run in its stead, where it refuses the model itself."""
    may_refuse: bool = False
    """Whether to refuse the model, with a clear error, is as good an answer."""
    is_checked: bool = True
    """Whether onnx.checker accepts it; onnxruntime may be more generous."""
    repeats: bool = True
    """Whether any two sessions compute the same numbers; unseeded random ops need not."""
    only_native: bool = False
    """Whether parts of the graph as it is may differ in last bits: onnxruntime casts around
    float16 ops even where it optimises nothing, and does so part by part."""

    @property
    def plain(self) -> onnx.ModelProto:
        """Return the model that plain onnxruntime runs."""
        return self.mended or self.model


def parse(text: str, initializers: Mapping[str, NDArray[Any]] | None = None) -> onnx.ModelProto:
    """Return the model that ``text`` describes in ONNX's own textual syntax.

    Args:
        text: What ``onnx.parser`` reads; node names stand in brackets before the node.
        initializers: Weights to add, too large to write out.
    """
    model = onnx.parser.parse_model(text)
    set_initializers(model.graph, initializers or {})
    return model


def set_initializers(graph: onnx.GraphProto, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Append each array to the graph's initializers under its name."""
    for name, array in arrays.items():
        graph.initializer.append(onnx.numpy_helper.from_array(array, name))


def weight(*shape: int, seed: int = 0, dtype: str = "float32") -> NDArray[Any]:
    """Return a weight: normal numbers of the given shape, scaled to keep activations near 1."""
    rng = np.random.default_rng((seed, *shape))
    fan_in = int(np.prod(shape[1:])) if len(shape) > 1 else 1
    return np.asarray(rng.standard_normal(shape) / np.sqrt(max(fan_in, 1)), dtype=dtype)


def calls(
    *shapes: Mapping[str, Sequence[int]], dtype: str = "float32", **fixed: Any
) -> Callable[[np.random.Generator], list[Feeds]]:
    """Return a maker of feeds: one call for each mapping of input name to shape.

    Args:
        shapes: Inputs that get normal numbers.
        dtype: Their type.
        fixed: Inputs that are the same in every call.
    """

    def make(rng: np.random.Generator) -> list[Feeds]:
        return [
            {name: rng.standard_normal(shape).astype(dtype) for name, shape in call.items()} | fixed
            for call in shapes or ({},)
        ]

    return make
