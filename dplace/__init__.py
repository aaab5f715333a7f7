"""Place the ops of an ONNX model over devices, write one ONNX file per part, and run the parts.

The road: ``place`` reads a model, decides which device runs each op and writes a plan folder;
``PlacedSession`` runs it like an ``onnxruntime.InferenceSession``; ``simulate`` predicts its time.
Read ``api.py`` first: it is the road as functions. Names are imported when they are first used.
"""

from importlib import import_module
from importlib.metadata import version

__all__ = [
    "ClusterError",
    "DeviceLostError",
    "DplaceError",
    "InputError",
    "MemoryLimitError",
    "ModelError",
    "PlacedSession",
    "PlanError",
    "UsageError",
    "__version__",
    "compare",
    "doctor",
    "finetune",
    "generate",
    "inspect",
    "place",
    "pretrain",
    "profile",
    "profile_links",
    "run",
    "shipped_policies",
    "simulate",
]

__version__ = version("dplace")

_HOMES = {
    "PlacedSession": "dplace.runtime",
    **dict.fromkeys(
        (
            "compare",
            "doctor",
            "finetune",
            "generate",
            "inspect",
            "place",
            "pretrain",
            "profile",
            "profile_links",
            "run",
            "shipped_policies",
            "simulate",
        ),
        "dplace.api",
    ),
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'dplace' has no attribute {name!r}")
    return getattr(import_module(_HOMES.get(name, "dplace.errors")), name)
