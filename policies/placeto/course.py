"""A whole training: targets by search and imitation of them if asked, then trials.

Read ``Course.step``. A course can be kept after any step; one that is taken up again goes on bit by
bit as it would have.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from dplace.bounds import best_bound
from dplace.lowering import Score
from dplace.policies.placeto.imitate import Imitation, ImitationSettings
from dplace.policies.placeto.kept import Kept
from dplace.policies.placeto.network import PlacetoNetwork
from dplace.policies.placeto.ranks import ALONE, Ranks
from dplace.policies.placeto.teacher import taught
from dplace.policies.placeto.train import Settings, Trainer
from dplace.policies.placeto.world import World

__all__ = ["Course", "CourseSettings", "Stage", "Step"]

Placement = NDArray[np.int32]

Stage = Literal["search", "imitation", "trials"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CourseSettings:
    """What a course is made of."""

    trials: Settings = field(default_factory=Settings)
    """The last stage, learning by trials as is published; no updates leave it out."""
    imitation: ImitationSettings | None = None
    """The stage before it; None, or no updates, for trials alone."""
    evaluations: int = 8_000
    """What the search may take for each target of that stage."""
    seed: int = 0


class Step(NamedTuple):
    """What one step did."""

    stage: Stage
    number: int
    """Of the step in its stage, from 0."""
    of: int
    """Steps of the stage."""
    figures: dict[str, float]
    """``loss`` and ``agreement`` of an update by imitation; ``returns``, ``entropy`` and
    ``gradient_norm`` of one by trials."""
    best_s: tuple[float, ...]
    """For each world, the shortest makespan met so far that fits; ``inf`` for none."""
    gap: float
    """How far these are above their bounds, on average over the worlds that have both."""


class Course:
    """Trains one network on some worlds; equal seeds do equal things."""

    def __init__(
        self,
        network: PlacetoNetwork,
        worlds: Sequence[World],
        settings: CourseSettings,
        *,
        ranks: Ranks = ALONE,
    ) -> None:
        """Take a network, which is trained in place, on the device that it is on.

        Args:
            network: The policy.
            worlds: What it is trained on.
            settings: How.
            ranks: The processes that share the work, all with the same arguments else.
        """
        self.network = network
        self.worlds = tuple(worlds)
        self.settings = settings
        self.ranks = ranks
        self.steps_done = 0
        self.bound_s = [best_bound(w.problem, w.evaluator.tables).seconds for w in self.worlds]
        self.single_s = [_fitting_s(w.outcome(w.single).score) for w in self.worlds]
        self.best_s = list(self.single_s)
        imitation = settings.imitation
        self._imitations = 0 if imitation is None else imitation.updates
        self._searches = -(-len(self.worlds) // ranks.size) if self._imitations else 0
        self._targets: list[Placement | None] = []
        self._imitation: Imitation | None = None
        self._trainer: Trainer | None = None

    @property
    def num_steps(self) -> int:
        """Return the steps of the whole course."""
        return self._searches + self._imitations + self.settings.trials.updates

    @property
    def is_over(self) -> bool:
        """Return whether all steps are done."""
        return self.steps_done >= self.num_steps

    def step(self) -> Step:
        """Find one target, or learn by one update."""
        number = self.steps_done
        if number < self._searches:
            return self._told("search", number, self._searches, self._search(number))
        number -= self._searches
        if number < self._imitations:
            return self._told("imitation", number, self._imitations, self._imitate())
        number -= self._imitations
        return self._told("trials", number, self.settings.trials.updates, self._try())

    def _told(self, stage: Stage, number: int, of: int, figures: dict[str, float]) -> Step:
        self.steps_done += 1
        best_s = tuple(self.best_s)
        return Step(stage, number, of, figures, best_s, mean_gap(best_s, self.bound_s))

    def _search(self, number: int) -> dict[str, float]:
        """Let each process find the target of one world."""
        size = self.ranks.size
        worlds = self.worlds[number * size : (number + 1) * size]
        # Devices count from 1 here, so that 0 is no target.
        found = torch.zeros(size, max(w.num_groups for w in worlds), dtype=torch.int32)
        for index, world in enumerate(worlds):
            if index == self.ranks.rank:
                settings = self.settings
                target = taught(world, evaluations=settings.evaluations, seed=settings.seed)
                if target is not None:
                    found[index, : world.num_groups] = torch.from_numpy(target) + 1
        self.ranks.total(found)
        for index, world in enumerate(worlds):
            row = found[index, : world.num_groups].numpy() - 1
            target = None if (row < 0).any() else row
            self._targets.append(target)
            if target is not None:
                self._note(number * size + index, _fitting_s(world.outcome(target).score))
        return {}

    def _imitate(self) -> dict[str, float]:
        self._imitation = self._imitation or self._new_imitation()
        if self._imitation is None:  # nothing fits anywhere
            return {}
        done = self._imitation.update()
        return {"loss": done.loss, "agreement": done.agreement}

    def _new_imitation(self) -> Imitation | None:
        pairs = [
            (world, target)
            for world, target in zip(self.worlds, self._targets, strict=True)
            if target is not None
        ]
        if not pairs:
            return None
        return Imitation(
            self.network,
            [world for world, _ in pairs],
            [target for _, target in pairs],
            self.settings.imitation,
            seed=self.settings.seed,
            ranks=self.ranks,
        )

    def _try(self) -> dict[str, float]:
        self._imitation = None  # its time is over
        self._trainer = self._trainer or self._new_trainer()
        done = self._trainer.update()
        for index, best_s in enumerate(done.best_s):
            self._note(index, best_s)
        return {
            "returns": done.returns,
            "entropy": done.entropy,
            "gradient_norm": done.gradient_norm,
        }

    def _new_trainer(self) -> Trainer:
        settings, ranks = self.settings, self.ranks
        return Trainer(self.network, self.worlds, settings.trials, seed=settings.seed, ranks=ranks)

    def _note(self, index: int, best_s: float) -> None:
        self.best_s[index] = min(self.best_s[index], best_s)

    def state(self) -> Kept:
        """Return all that later steps depend on, beside worlds and settings."""
        kept = Kept({}, {"steps_done": self.steps_done, "best_s": list(self.best_s)})
        kept.put_row("weights", self.network.parameters())
        kept.told["has_target"] = [target is not None for target in self._targets]
        kept.put_row("targets", [torch.from_numpy(t) for t in self._targets if t is not None])
        for name, stage in (("imitation", self._imitation), ("trials", self._trainer)):
            if stage is not None:
                kept.put_all(name, stage.state())
        return kept

    def restore(self, kept: Kept) -> None:
        """Go on from a state, with worlds and settings as they were."""
        self.steps_done = kept.told["steps_done"]
        self.best_s = list(kept.told["best_s"])
        with torch.no_grad():
            for parameter, weight in zip(
                self.network.parameters(), kept.row("weights"), strict=True
            ):
                parameter.copy_(weight)
        found = iter(kept.row("targets"))
        self._targets = [
            next(found).numpy() if has_target else None for has_target in kept.told["has_target"]
        ]
        self._imitation = self._trainer = None
        if "imitation" in kept.told:
            self._imitation = self._new_imitation()
            if self._imitation is not None:
                self._imitation.restore(kept.all_of("imitation"))
        if "trials" in kept.told:
            self._trainer = self._new_trainer()
            self._trainer.restore(kept.all_of("trials"))


def _fitting_s(score: Score) -> float:
    return float("inf") if score.overflow_bytes else score.makespan_s


def mean_gap(best_s: Sequence[float], bound_s: Sequence[float]) -> float:
    """Return how far times are above their bounds on average; 0 where there are none."""
    gaps = [
        best / bound - 1.0
        for best, bound in zip(best_s, bound_s, strict=True)
        if bound > 0 and np.isfinite(best)
    ]
    return float(np.mean(gaps)) if gaps else 0.0
