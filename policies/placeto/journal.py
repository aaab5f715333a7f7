"""What a training tells while it lasts: a line of JSON a step, and TensorBoard's files if asked."""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dplace.errors import UsageError
from dplace.policies.placeto.course import Course, Step

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

__all__ = ["Journal", "check_tensorboard"]


def check_tensorboard() -> None:
    """Make sure that TensorBoard's files can be written.

    Raises:
        UsageError: Its package is missing.
    """
    try:
        import torch.utils.tensorboard  # noqa: F401
    except ModuleNotFoundError as error:
        raise UsageError(
            "--logdir: TensorBoard's files need the package tensorboard; install it with "
            "pip install 'dplace[tensorboard]'"
        ) from error


def _writer(logdir: Path, steps_done: int) -> "SummaryWriter":
    from torch.utils.tensorboard import SummaryWriter

    return SummaryWriter(str(logdir), purge_step=steps_done)


class Journal:
    """Collects steps, and writes them when the training is kept, so that both agree."""

    def __init__(
        self, log: Path, course: Course, names: Sequence[str], logdir: Path | None
    ) -> None:
        """Take where to write; what was written of steps that are yet to be done is dropped.

        Args:
            log: The file of lines.
            course: What is told about, as it is when the journal begins.
            names: Of the worlds.
            logdir: The folder for TensorBoard.
        """
        self._log = log
        self._course = course
        self._names = names
        self._lines: list[str] = []
        self._is_cut = False
        self._steps_before = course.steps_done
        self._writer = None
        if logdir is not None and course.ranks.is_first:
            self._writer = _writer(logdir, course.steps_done)

    def note(self, step: Step) -> None:
        """Take down a step that was just done."""
        number = self._course.steps_done - 1
        line = {
            "step": number,
            "stage": step.stage,
            "number": step.number,
            **step.figures,
            "gap": step.gap,
            "best_s": [best if math.isfinite(best) else None for best in step.best_s],
        }
        self._lines.append(json.dumps(line) + "\n")
        if self._writer is None:
            return
        for name, figure in step.figures.items():
            self._writer.add_scalar(f"{step.stage}/{name}", figure, number)
        self._writer.add_scalar("best/gap", step.gap, number)
        for index, (name, best) in enumerate(zip(self._names, step.best_s, strict=True)):
            if math.isfinite(best):
                self._writer.add_scalar(f"best_s/{index}-{name}", best, number)

    def flush(self) -> None:
        """Write what was noted."""
        if not self._is_cut:
            kept: list[str] = []
            if self._steps_before and self._log.exists():
                text = self._log.read_text(encoding="utf-8", errors="replace")
                kept = text.splitlines(keepends=True)[: self._steps_before]
            self._log.write_text("".join(kept), encoding="utf-8")
            self._is_cut = True
        with self._log.open("a", encoding="utf-8") as file:
            file.writelines(self._lines)
        self._lines.clear()
        if self._writer is not None:
            self._writer.flush()

    def close(self) -> None:
        """End TensorBoard's files."""
        if self._writer is not None:
            self._writer.close()
