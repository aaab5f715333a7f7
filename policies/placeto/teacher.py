"""What a policy may learn from before it tries anything itself: the placements that search finds.

A placement tells more than it means: which of two equal devices takes which half is chance. So
before a target is shown, its devices are renumbered, equal ones among each other, to fit the
placement that the episode is at.
"""

import numpy as np
from numpy.typing import NDArray

from dplace.errors import MemoryLimitError
from dplace.graph_io.group_graph import GroupGraph
from dplace.lowering import Evaluator
from dplace.policies.grouping import grouped
from dplace.policies.placeto.world import World
from dplace.policies.search import search
from dplace.policies.walk import Walker

__all__ = ["Tutor", "classes_of", "matched", "renumbered", "taught"]

Placement = NDArray[np.int32]

HEAT = 0.01, 5e-4
"""First and last temperature of a tutor's annealing, in shares of the makespan."""


def taught(world: World, *, evaluations: int, seed: int = 0) -> Placement | None:
    """Return the best placement of the groups that search finds, shape ``(num_groups,)``.

    It is ``None`` where nothing fits. It is never worse than the best single device.
    """
    evaluator = Evaluator(grouped(world.problem, world.group))
    try:
        found = search(evaluator, rng=np.random.default_rng(seed), evaluations=evaluations)
    except MemoryLimitError:
        return None
    target = world.of_groups(found)
    return min((target, world.single), key=lambda devices: world.outcome(devices).score)


class Tutor:
    """Improves placements of one world's groups a little, by a short and cold annealing.

    The best placement of all may be far from what a policy does; this one is at hand.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._walker: Walker | None = None

    def improved(self, devices: Placement, *, steps: int, seed: int) -> Placement:
        """Return a placement of the groups that is as good or better.

        Args:
            devices: Shape ``(num_groups,)``.
            steps: Placements to judge.
            seed: Of all moves; nothing else but the arguments changes the answer.
        """
        world = self._world
        if self._walker is None:
            tied = Evaluator(grouped(world.problem, world.group))
            self._walker = Walker(tied, np.random.default_rng(0), world.of_ops(devices))
        self._walker.reseed(seed)
        start = world.of_ops(devices)
        hot, cold = HEAT
        found = self._walker.anneal(start, world.rule, steps=steps, hot=hot, cold=cold, slope=0.0)
        better = world.of_groups(found)
        return min((better, devices), key=world.log_time)


def classes_of(graph: GroupGraph) -> list[list[int]]:
    """Return the devices in lists of those that are equal in all that a policy sees."""
    found: dict[bytes, list[int]] = {}
    for device in range(graph.num_devices):
        seen = (
            graph.device_features[device],
            graph.run[:, device],
            graph.allowed[:, device],
            np.sort(graph.link[device]),
            np.sort(graph.link[:, device]),
        )
        found.setdefault(b"".join(array.tobytes() for array in seen), []).append(device)
    return list(found.values())


def renumbered(
    target: Placement, devices: Placement, order: NDArray[np.int64], classes: list[list[int]]
) -> Placement:
    """Return the target with devices numbered so that what is visited first need not move.

    Args:
        target: Shape ``(num_groups,)``.
        devices: Where the groups are, of the same shape.
        order: In which they are visited.
        classes: Of devices, as ``classes_of`` returns them.
    """
    class_of = {device: members for members in classes for device in members}
    new: dict[int, int] = {}
    taken: set[int] = set()
    for group in order.tolist():
        old = int(target[group])
        if old in new:
            continue
        free = [device for device in class_of[old] if device not in taken]
        here = int(devices[group])
        new[old] = here if here in free else free[0]
        taken.add(new[old])
        if len(new) == len(class_of):
            break
    return np.array([new[device] for device in target.tolist()], dtype=np.int32)


def matched(
    target: Placement,
    devices: Placement,
    weight: NDArray[np.float64],
    classes: list[list[int]],
) -> Placement:
    """Return the target with devices numbered so that it agrees most with where groups are.

    Args:
        target: Shape ``(num_groups,)``.
        devices: Where the groups are, of the same shape.
        weight: What agreement on each group is worth, of the same shape.
        classes: Of devices, as ``classes_of`` returns them.
    """
    from scipy.optimize import linear_sum_assignment

    num = sum(map(len, classes))
    agreement = np.zeros((num, num))
    np.add.at(agreement, (target, devices), weight)
    new = np.arange(num, dtype=np.int32)
    for members in classes:
        if len(members) > 1:
            rows, columns = linear_sum_assignment(agreement[np.ix_(members, members)], True)
            new[np.array(members)[rows]] = np.array(members)[columns]
    return new[target]
