"""onnxruntime as a reader of graphs: it optimises them and knows the type of every value."""

import re
from pathlib import Path
from typing import Any, Literal

from dplace.errors import DplaceError, ModelError

__all__ = ["OptLevel", "open_session"]

OptLevel = Literal["all", "extended", "basic", "none"]
"""onnxruntime's graph optimisation levels, by the names its documentation uses."""


def open_session(
    serialized: bytes,
    *,
    label: str,
    level: OptLevel,
    provider: str = "CPUExecutionProvider",
    save_to: Path | None = None,
    weights_folder: Path | None = None,
) -> Any:
    """Return an ``onnxruntime.InferenceSession`` with one thread and a closed mouth.

    Args:
        serialized: The model; its external data is looked up in ``weights_folder``.
        label: What to call the model in a message.
        save_to: Where to write the optimised graph; its weights go to a file beside it.

    Raises:
        ModelError: onnxruntime does not take the model.
        DplaceError: The optimised graph could not be written.
    """
    import onnxruntime

    levels = onnxruntime.GraphOptimizationLevel
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = {
        "all": levels.ORT_ENABLE_ALL,
        "extended": levels.ORT_ENABLE_EXTENDED,
        "basic": levels.ORT_ENABLE_BASIC,
        "none": levels.ORT_DISABLE_ALL,
    }[level]
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    # Nothing big is computed here, so packed copies of the weights would only cost memory.
    options.add_session_config_entry("session.disable_prepacking", "1")
    if save_to is not None:
        options.optimized_model_filepath = str(save_to)
        options.add_session_config_entry(
            "session.optimized_model_external_initializers_file_name", save_to.stem + ".weights"
        )
        options.add_session_config_entry(
            "session.optimized_model_external_initializers_min_size_in_bytes", "1024"
        )
    if weights_folder is not None:
        options.add_session_config_entry(
            "session.model_external_initializers_file_folder_path", str(weights_folder.resolve())
        )
    try:
        return onnxruntime.InferenceSession(serialized, options, providers=[provider])
    # onnxruntime's errors share no base below Exception, nor do those of its Python layer.
    except Exception as error:
        if save_to is not None and "Failed to write" in str(error):
            raise DplaceError(
                f"{label}: the optimised graph could not be written to {save_to.parent}: the disk "
                "is full or the file too large; set TMPDIR to a folder with room"
            ) from error
        raise ModelError(f"{label}: onnxruntime refuses the model: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    """Return onnxruntime's message as one line, without its code and its source files."""
    text = " ".join(str(error).split())
    for mark in (" : FAIL : ", " : INVALID_GRAPH : ", " : NOT_IMPLEMENTED : ", " : "):
        if text.startswith("[ONNXRuntimeError]") and mark in text:
            text = text.split(mark, maxsplit=1)[1]
            break
    text = re.sub(r"^/\S+\.(cc|h):\d+ .*?\)( const)? ", "", text)
    return text[:400]
