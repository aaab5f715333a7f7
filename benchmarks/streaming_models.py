"""The models that benchmarks of transfers run: as many samples at once as a server would take.

With one sample a core has computed a ResNet-50 in the time in which 12 Gbit/s bring its weights.
So the image classifiers of the onnx package, which are written for one image, are given more, and
the two language models, exported from torch, read several sequences. All weights are random: the
onnx package's own are all equal.
"""

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from tests.zoo.exports import write_language_model
from tests.zoo.real_models import LIGHT, light

__all__ = ["MODELS", "Batch", "write_model"]

LANGUAGE: dict[str, Any] = {"attn_implementation": "eager", "vocab_size": 8192}
WIDTH, LAYERS, HEADS = 768, 4, 12


@dataclass(frozen=True, slots=True)
class Batch:
    """What a model is fed."""

    samples: int
    tokens: int = 0
    """Of each sequence; 0 for images."""

    @property
    def dims(self) -> dict[str, int]:
        """Return the sizes of dynamic dimensions."""
        return {"batch": self.samples, "sequence": self.tokens} if self.tokens else {}


MODELS = {
    "inception_v2": Batch(16),
    "resnet50": Batch(16),
    "vgg19": Batch(4),
    "gpt2": Batch(8, 128),
    "bert": Batch(8, 128),
}
"""The names of the models and what each is fed."""


def write_model(name: str, path: Path) -> None:
    """Write a model to a file."""
    if not MODELS[name].tokens:
        model = onnx.load(light(name, LIGHT[name]).path)
        onnx.save(with_batch(model, name), path)
        return
    # Exporting is full of warnings, and torch would stay in this process.
    words = [sys.executable, "-m", "benchmarks.streaming_models", name, str(path)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{name} cannot be exported: {done.stderr[-2000:]}")


def with_batch(model: onnx.ModelProto, name: str) -> onnx.ModelProto:
    """Give a model for one image several, and weights; its Reshape keeps as many as come."""
    graph = model.graph
    constants = {tensor.name: tensor for tensor in graph.initializer}
    for value in (*graph.input, *graph.output):
        if value.name == LIGHT[name] or value in graph.output:
            value.type.tensor_type.shape.dim[0].dim_value = MODELS[name].samples
    rng = np.random.default_rng(0)
    for node in list(graph.node):
        if node.op_type == "Reshape":
            shape = numpy_helper.to_array(constants[node.input[1]]).copy()
            shape[0] = 0
            constants[node.input[1]].CopyFrom(numpy_helper.from_array(shape, node.input[1]))
        elif node.op_type == "ConstantOfShape":
            weight = drawn(rng, numpy_helper.to_array(constants[node.input[0]]))
            graph.initializer.append(numpy_helper.from_array(weight, node.output[0]))
            graph.node.remove(node)
    del graph.value_info[:]
    return model


def drawn(rng: np.random.Generator, shape: np.ndarray) -> np.ndarray:
    """Return a weight: matrices and kernels as after He, scales and variances about 1."""
    if len(shape) < 2:
        return rng.uniform(0.5, 1.5, shape).astype(np.float32)
    deviation = np.float32(np.sqrt(2 / np.prod(shape[1:])))
    return rng.standard_normal(shape, dtype=np.float32) * deviation


def export(name: str, path: Path) -> None:
    """Export a language model from torch."""
    if name == "gpt2":
        from transformers import GPT2Config, GPT2LMHeadModel

        sizes = {"n_embd": WIDTH, "n_layer": LAYERS, "n_head": HEADS, "n_positions": 128}
        ends = {"bos_token_id": 0, "eos_token_id": 0}
        gpt2 = GPT2LMHeadModel(GPT2Config(**LANGUAGE, **sizes, **ends))
        write_language_model(gpt2, path, use_cache=False)
        return
    from transformers import BertConfig, BertModel

    config = BertConfig(
        **LANGUAGE,
        hidden_size=WIDTH,
        intermediate_size=4 * WIDTH,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        max_position_embeddings=128,
    )
    write_language_model(BertModel(config, add_pooling_layer=False), path)


if __name__ == "__main__":
    export(sys.argv[1], Path(sys.argv[2]))
