"""The two backends: one session of the whole model, and a plan over two CPU devices."""

import tempfile
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import onnx
from onnx.backend.base import Backend, BackendRep

from tests.zoo.placements import round_robin
from tests.zoo.plain_session import plain_session

__all__ = ["BACKENDS", "DplaceBackend", "PlainBackend"]

MEMORY = Path("/dev/shm")


class Prepared(BackendRep):  # type: ignore[misc, unused-ignore]
    """A model that is ready to run, whichever session drives it."""

    def __init__(self, session: Any) -> None:
        self.session = session
        self.names = [value.name for value in session.get_inputs()]

    def run(self, inputs: Sequence[Any], **kwargs: Any) -> tuple[Any, ...]:
        feeds = dict(zip(self.names, inputs, strict=False))
        return tuple(self.session.run(None, feeds))


class CpuBackend(Backend):  # type: ignore[misc, unused-ignore]
    """What both have in common: they run on the CPU and nowhere else."""

    @classmethod
    def supports_device(cls, device: str) -> bool:
        return device == "CPU"


class PlainBackend(CpuBackend):
    """The whole model in one onnxruntime session of one thread."""

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> Prepared:
        return Prepared(plain_session(model))


class DplaceBackend(CpuBackend):
    """The model's ops in turn on one of two CPU devices: place, write the plan, run it."""

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> Prepared:
        from dplace import api
        from dplace.runtime.placed_session import PlacedSession

        parent = MEMORY if MEMORY.is_dir() else None
        folder = tempfile.TemporaryDirectory(prefix="dplace-", dir=parent)
        try:
            plan = Path(folder.name) / "plan"
            api.place(model, cluster="2xCPU", out=plan, placement=round_robin)
            session = PlacedSession(plan)
        except BaseException:
            folder.cleanup()
            raise
        prepared = Prepared(session)
        weakref.finalize(prepared, end, session, folder)
        return prepared


def end(session: Any, folder: "tempfile.TemporaryDirectory[str]") -> None:
    """Stop a session's workers and remove its plan."""
    session.__exit__(None, None, None)
    folder.cleanup()


BACKENDS: dict[str, type[CpuBackend]] = {"plain": PlainBackend, "dplace": DplaceBackend}
