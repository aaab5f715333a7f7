"""Models that torch exports, small and with random weights; nothing is downloaded.

``exported`` returns the file of one of them and makes it first where it is missing, in a process
of its own: exporting is slow and full of warnings. Run as a program, this module is that process:

    python -m tests.zoo.exports gpt2 gpt2.onnx
"""

import hashlib
import importlib.metadata
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

__all__ = ["EXPORTS", "exported"]

ROOT = Path(__file__).parents[2]
OPSET = 20
VOCABULARY = 500
LAYERS: dict[str, Any] = {"num_hidden_layers": 4, "num_attention_heads": 4}
WIDTHS: dict[str, Any] = {"hidden_size": 128, "intermediate_size": 256}


def write_onnx(
    module: "torch.nn.Module",
    example: "torch.Tensor",
    path: Path,
    *,
    dynamic: tuple[str, ...],
    names: tuple[str, str],
) -> None:
    """Export a module of one input and one output; its first dimensions are dynamic."""
    import torch

    dims = {axis: torch.export.Dim(name, min=1, max=128) for axis, name in enumerate(dynamic)}
    torch.onnx.export(
        module.eval(),
        (example,),
        path,
        dynamo=True,
        opset_version=OPSET,
        dynamic_shapes=(dims,),
        input_names=[names[0]],
        output_names=[names[1]],
        external_data=False,
        verbose=False,
    )


def first_output(model: Any, input_name: str, **fixed: Any) -> "torch.nn.Module":
    """Return a module that gives the first output of a transformers model."""
    import torch

    class FirstOutput(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, value: torch.Tensor) -> torch.Tensor:
            outputs = self.model(**{input_name: value}, return_dict=False, **fixed)
            first: torch.Tensor = outputs[0]
            return first

    return FirstOutput()


def write_language_model(model: Any, path: Path, **fixed: Any) -> None:
    """Export a model of token ids with dynamic batch and sequence."""
    import torch

    write_onnx(
        first_output(model, "input_ids", **fixed),
        torch.randint(0, VOCABULARY, (2, 8)),
        path,
        dynamic=("batch", "sequence"),
        names=("input_ids", "hidden"),
    )


def write_gpt2(path: Path) -> None:
    """Export GPT-2: 4 layers of width 128."""
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=VOCABULARY,
        n_positions=128,
        n_embd=128,
        n_layer=4,
        n_head=4,
        bos_token_id=0,
        eos_token_id=0,
        attn_implementation="eager",
    )
    write_language_model(GPT2LMHeadModel(config), path, use_cache=False)


def write_llama(path: Path) -> None:
    """Export Llama: 4 layers, 4 heads that share 2 key-value heads."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=VOCABULARY,
        num_key_value_heads=2,
        max_position_embeddings=128,
        attn_implementation="eager",
        **LAYERS,
        **WIDTHS,
    )
    write_language_model(LlamaForCausalLM(config), path, use_cache=False)


def write_bert(path: Path) -> None:
    """Export BERT: 4 layers of width 128, without the pooler."""
    from transformers import BertConfig, BertModel

    config = BertConfig(
        vocab_size=VOCABULARY,
        max_position_embeddings=128,
        attn_implementation="eager",
        **LAYERS,
        **WIDTHS,
    )
    write_language_model(BertModel(config, add_pooling_layer=False), path)


def write_bert_int8(path: Path) -> None:
    """Quantise BERT dynamically, with onnxruntime's own tool."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    quantize_dynamic(exported("bert"), path, weight_type=QuantType.QInt8)


def write_lstm(path: Path) -> None:
    """Export two layers of a bidirectional LSTM, and a Linear."""
    import torch

    class Tagger(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm = torch.nn.LSTM(64, 64, 2, batch_first=True, bidirectional=True)
            self.out = torch.nn.Linear(128, 10)

        def forward(self, frames: torch.Tensor) -> torch.Tensor:
            tags: torch.Tensor = self.out(self.lstm(frames)[0])
            return tags

    write_onnx(
        Tagger(), torch.randn(2, 8, 64), path, dynamic=("batch", "time"), names=("frames", "tags")
    )


def write_vit_float16(path: Path) -> None:
    """Export ViT in half precision: 4 layers of width 128 on 64 x 64 pixels."""
    import torch
    from transformers import ViTConfig, ViTModel

    config = ViTConfig(
        image_size=64, patch_size=16, attn_implementation="eager", **LAYERS, **WIDTHS
    )
    module = first_output(ViTModel(config, add_pooling_layer=False), "pixel_values")
    pixels = torch.randn(2, 3, 64, 64).half()
    write_onnx(module.half(), pixels, path, dynamic=("batch",), names=("pixels", "hidden"))


EXPORTS: dict[str, Callable[[Path], None]] = {
    "gpt2": write_gpt2,
    "llama": write_llama,
    "bert": write_bert,
    "bert_int8": write_bert_int8,
    "lstm": write_lstm,
    "vit_float16": write_vit_float16,
}


def cache_folder() -> Path:
    """Return the folder of the exports of these versions and of this very file."""
    parts = [Path(__file__).read_text()]
    for package in ("torch", "transformers", "onnxscript", "onnx"):
        parts.append(f"{package} {importlib.metadata.version(package)}")
    digest = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"dplace-test-exports-{os.getuid()}-{digest}"


def exported(name: str) -> Path:
    """Return the file of an export, made on the first call on this machine."""
    path = cache_folder() / f"{name}.onnx"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_suffix(f".{os.getpid()}.tmp")
        command = [sys.executable, "-W", "ignore", "-m", __name__, name, str(beside)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"the export of {name} failed:\n{done.stdout}{done.stderr}")
        beside.replace(path)
    return path


def main() -> None:
    """Export the model that the command line names."""
    import torch

    name, path = sys.argv[1:]
    torch.manual_seed(0)
    EXPORTS[name](Path(path))


if __name__ == "__main__":
    main()
