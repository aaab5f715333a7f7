"""The decision process as a Gymnasium environment, so that agents of others can place.

Needs the extra ``gym``: ``pip install dplace[gym]``. As ``dplace.policies.PlacementEnv``.
"""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from dplace.errors import UsageError
from dplace.lowering import Evaluator
from dplace.policies.placeto.episode import Episode, EpisodeRules
from dplace.policies.placeto.world import MAX_GROUPS, World
from dplace.problem import Problem

__all__ = ["PlacementEnv"]

Observation = dict[str, Any]


class PlacementEnv(gymnasium.Env[Observation, np.int64]):
    """Places one problem, a group of ops a step.

    Observations, static ones as in ``dplace/graph_io/group_graph.py``:

    - ``groups``, ``run`` (through ``log1p``), ``devices``, ``link``, ``edges``: features of groups,
      of groups on devices, of devices and of pairs of devices; which group feeds which;
    - ``placement``, ``visited``, ``current``: device of each group, whether it was visited, and the
      group to place now;
    - ``start``, ``busy``, ``full``: when groups start, how long devices work and how full they
      are, as shares of the makespan and of memory;
    - ``action_mask``: 1 for devices that the current group may go to; also in ``info``.

    The action is a device; with one that is masked the group stays where it is. The reward is the
    drop in log run time, with a penalty above memory: of each move, or of the episode at its end.
    An episode ends when every group has been visited once, and is never truncated. ``info`` has
    ``makespan_s`` and ``overflow_bytes`` of the placement and ``best_makespan_s``, the shortest
    that fits so far (``inf`` for none).
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012  (as Gymnasium declares it)

    def __init__(
        self,
        problem: Problem,
        *,
        rules: EpisodeRules | None = None,
        max_groups: int = MAX_GROUPS,
        render_mode: None = None,
    ) -> None:
        """Group the ops of a problem.

        Args:
            problem: What to place, where.
            rules: Order of visits, kind of reward, first placement.
            max_groups: Steps of an episode, at most.
            render_mode: There is none; Gymnasium asks for the argument.

        Raises:
            UsageError: There are no ops.
            InputError: Some op can go nowhere.
        """
        self.render_mode = render_mode
        self.world = World(Evaluator(problem), max_groups=max_groups, is_listed=False)
        self._rules = rules or EpisodeRules()
        self._episode = Episode(self.world, self._rules, rng=self.np_random)
        graph = self.world.graph
        num_groups, num_devices = graph.allowed.shape
        self.action_space = spaces.Discrete(num_devices)
        self._static: Observation = {
            "groups": graph.features,
            "run": np.minimum(np.log1p(graph.run), 8.0),
            "devices": graph.device_features,
            "link": graph.link,
            "edges": graph.edges,
        }

        def box(low: float, high: float, shape: tuple[int, ...]) -> spaces.Box:
            return spaces.Box(low, high, shape, dtype=np.float32)

        self.observation_space = spaces.Dict(
            {
                "groups": box(-8.0, 8.0, graph.features.shape),
                "run": box(0.0, 8.0, graph.run.shape),
                "devices": box(-8.0, 8.0, graph.device_features.shape),
                "link": box(0.0, 8.0, graph.link.shape),
                "edges": spaces.Box(0, num_groups - 1, graph.edges.shape, dtype=np.int64),
                "placement": spaces.MultiDiscrete(np.full(num_groups, num_devices)),
                "visited": spaces.MultiBinary(num_groups),
                "current": spaces.Discrete(num_groups),
                "start": box(0.0, 1.0, (num_groups,)),
                "busy": box(0.0, 2.0, (num_devices,)),
                "full": box(0.0, 2.0, (num_devices,)),
                "action_mask": spaces.MultiBinary(num_devices),
            }
        )

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start an episode.

        Args:
            seed: Of random orders and starts.
            options: ``order``, every group once, and ``start``, a device for each group.

        Raises:
            UsageError: Options of other names, or not of that kind.
        """
        super().reset(seed=seed)
        if seed is not None:
            self._episode = Episode(self.world, self._rules, rng=self.np_random)
        given = {name: np.asarray(array) for name, array in (options or {}).items()}
        if unknown := sorted(given.keys() - {"order", "start"}):
            raise UsageError(f"options: expected order or start, got {', '.join(unknown)}")
        self._episode.reset(**given)
        return self._observation(), self._info()

    def step(self, action: np.int64) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Put the current group on a device.

        Raises:
            UsageError: There is no such device, or the episode is over.
        """
        episode = self._episode
        if not self.action_space.contains(action):
            last = self.world.num_devices - 1
            raise UsageError(f"action: expected a device from 0 to {last}, got {action!r}")
        device = int(action)
        if not episode.mask[device]:
            device = int(episode.state.placement[episode.current])
        reward = episode.step(device)
        return self._observation(), reward, episode.is_over, False, self._info()

    def _observation(self) -> Observation:
        state = self._episode.state
        outcome = state.outcome
        return {
            **{name: array.copy() for name, array in self._static.items()},
            "placement": state.placement.astype(np.int64),
            "visited": state.visited.astype(np.int8),
            "current": np.int64(state.current),
            "start": np.clip(outcome.start, 0.0, 1.0),
            "busy": outcome.busy.copy(),
            "full": outcome.full.copy(),
            "action_mask": self._episode.mask.astype(np.int8),
        }

    def _info(self) -> dict[str, Any]:
        score, best = self._episode.state.outcome.score, self._episode.best_score
        return {
            "makespan_s": score.makespan_s,
            "overflow_bytes": score.overflow_bytes,
            "best_makespan_s": np.inf if best.overflow_bytes else best.makespan_s,
            "action_mask": self._episode.mask.astype(np.int8),
        }
