"""The decision process of Placeto: an episode visits every group once and may move it.

The state is the whole current placement; the action is the device of the group that is visited;
the reward of a step is what the move takes off the log run time. With ``final`` rewards all of it
comes at the last step; the sum over an episode is the same.

Departures: run times are logs told in the work of all ops and penalties in shares of memory, so
that rewards of all graphs compare; and episodes start from the best of one device and two list
schedules by default, where the paper's start from one device or a random placement.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dplace.errors import UsageError
from dplace.lowering import Score
from dplace.policies.placeto.world import Outcome, World, topological

__all__ = ["Episode", "EpisodeRules", "Order", "Reward", "Start", "State"]

Placement = NDArray[np.int32]
Float = NDArray[np.float32]

Order = Literal["topological", "random", "mixed"]
Reward = Literal["each-move", "final"]
Start = Literal["listed", "single", "random", "mixed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeRules:
    """How episodes go."""

    order: Order = "topological"
    """In which order groups are visited, or one of the two by chance; ``reset`` takes any other."""
    reward: Reward = "each-move"
    """What each move gains, or the same in one at the end."""
    start: Start = "listed"
    """The placement before the first move: where the world has its start, the best single device,
    a random one, or, by chance, one of these or the best placement met so far."""


class State(NamedTuple):
    """What a policy sees at one step beside the graph."""

    placement: Placement
    """Shape ``(num_groups,)``: the device of each group."""
    visited: NDArray[np.bool_]
    """Shape ``(num_groups,)``: whether the episode has passed each group."""
    current: int
    """The group whose device is to be chosen."""
    outcome: Outcome
    """Of the placement."""
    ahead: Float | None = None
    """Shape ``(num_devices,)``, for policies that look ahead: see ``World.ahead``."""

    @property
    def num_groups(self) -> int:
        """Return the number of groups."""
        return len(self.placement)


class Episode:
    """One episode after another in one world."""

    def __init__(
        self, world: World, rules: EpisodeRules | None = None, *, rng: np.random.Generator
    ) -> None:
        """Take a world and start the first episode.

        Args:
            world: The problem in groups.
            rules: How episodes go.
            rng: Of random orders and starts.
        """
        self.world = world
        self.rules = rules or EpisodeRules()
        self._rng = rng
        self._topological = topological(world.graph)
        self.best: Placement = world.start
        """The best placement of the groups met in any episode, by its score."""
        self.best_score: Score = world.outcome(world.start).score
        self.reset()

    def reset(
        self, *, order: NDArray[np.int64] | None = None, start: Placement | None = None
    ) -> State:
        """Start an episode and return its first state.

        Args:
            order: Every group once; by default as the rules say.
            start: Shape ``(num_groups,)``: the first placement; by default as the rules say.

        Raises:
            UsageError: ``order`` is not every group once, ``start`` not a device for each, or one
                where a group may not be.
        """
        world = self.world
        every = np.arange(world.num_groups)
        if order is None:
            order = self._first_order()
        elif not np.array_equal(np.sort(order, axis=None), every) or order.ndim != 1:
            raise UsageError(f"order: expected each of {world.num_groups} groups once")
        if start is None:
            start = self._first_placement()
        else:
            if start.shape != every.shape or not np.isin(start, range(world.num_devices)).all():
                raise UsageError(
                    f"start: expected for each of {world.num_groups} groups a device from 0 to "
                    f"{world.num_devices - 1}"
                )
            start = start.astype(np.int32)
            if not world.graph.allowed[every, start].all():
                raise UsageError("start: some group is on a device that it may not go to")
        self.order = order.astype(np.int64)
        self.step_index = 0
        self._placement = start.copy()
        self._visited = np.zeros(world.num_groups, dtype=np.bool_)
        self._outcome = self._first = world.outcome(self._placement)
        self._note()
        return self.state

    def _first_order(self) -> NDArray[np.int64]:
        order = self.rules.order
        if order == "mixed":
            order = "random" if self._rng.random() < 0.5 else "topological"
        if order == "random":
            return self._rng.permutation(self.world.num_groups)
        return self._topological

    def _first_placement(self) -> Placement:
        start = self.rules.start
        if start == "mixed":
            draw = self._rng.random()
            if draw < 0.3:
                return self.best
            start = "listed" if draw < 0.7 else "single" if draw < 0.85 else "random"
        if start == "random":
            return self.world.random(self._rng)
        return self.world.single if start == "single" else self.world.start

    @property
    def is_over(self) -> bool:
        """Return whether every group has been visited."""
        return self.step_index == self.world.num_groups

    @property
    def current(self) -> int:
        """Return the group whose device is to be chosen; after the end, the last one."""
        return int(self.order[min(self.step_index, self.world.num_groups - 1)])

    @property
    def state(self) -> State:
        """Return what the policy sees now."""
        return State(self._placement.copy(), self._visited.copy(), self.current, self._outcome)

    def seen(self, *, is_ahead: bool) -> State:
        """Return what the policy sees now, and what each of its choices would change if asked."""
        state = self.state
        if not is_ahead or self.is_over:
            return state
        return state._replace(ahead=self.world.ahead(state.placement, state.current))

    @property
    def mask(self) -> NDArray[np.bool_]:
        """Return which devices the current group may go to, shape ``(num_devices,)``."""
        mask: NDArray[np.bool_] = self.world.graph.allowed[self.current]
        return mask

    def step(self, device: int) -> float:
        """Put the current group on a device, go on to the next, and return the reward.

        Raises:
            UsageError: The episode is over, or the group may not go there.
        """
        if self.is_over:
            raise UsageError("the episode is over; reset it")
        current, mask = self.current, self.mask
        if device not in range(len(mask)) or not mask[device]:
            raise UsageError(f"group {current} may not go to device {device}")
        before = self._outcome
        if self._placement[current] != device:
            self._placement[current] = device
            self._outcome = self.world.outcome(self._placement)
            self._note()
        self._visited[current] = True
        self.step_index += 1
        if self.rules.reward == "each-move":
            return before.log_time - self._outcome.log_time
        is_last = self.step_index == self.world.num_groups
        return self._first.log_time - self._outcome.log_time if is_last else 0.0

    def _note(self) -> None:
        if self._outcome.score < self.best_score:
            self.best, self.best_score = self._placement.copy(), self._outcome.score
