"""What a policy is made of and what it sees; see network.py. Nothing here needs torch."""

from dataclasses import dataclass
from typing import Literal, get_args

from dplace.errors import UsageError
from dplace.graph_io.group_graph import DEVICE_FEATURES, GROUP_FEATURES

__all__ = ["AHEAD", "MOMENT_FEATURES", "NODE_FEATURES", "Pool", "Shape", "weight_shapes"]

Pool = Literal["ancestors", "descendants", "parallel", "self"]

NODE_FEATURES = (
    *GROUP_FEATURES,
    *("visited", "current", "start", "run-here"),
    *("on", "run", "allowed", "away"),
)
"""Of a group from a device's point of view. ``start`` is told from the current group's start,
``run-here`` is the time where the group is, ``run`` that on the device, ``away`` that of bringing
its values there; the last three times through ``log1p``."""

MOMENT_FEATURES = ("busy", "full", "ready", "free", "finish", "ahead")
"""Of a device at one step: how long it works and how full it is; when the current group has its
inputs there, when what was visited there ends, and when the group would end there; and what going
there would change in log run time, in hundredths."""

MAX_ROUNDS = 1000
"""More than any graph of groups is long; a file that asks for more would never come to an end."""

AHEAD = 0.003
"""By how much in log run time a choice must be better to seem e times as good."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What a network is made of; a checkpoint needs nothing else to be built again."""

    width: int = 8
    """Numbers in a message."""
    rounds: int = 4
    """How many edges a message travels, in each direction; 0 for none. The paper's are 8; 4 are as
    good here and take half the time."""
    pools: tuple[Pool, ...] = get_args(Pool)
    """What the classifier sees beside the devices, each at most once."""
    moments: bool = True
    """Whether it sees what list scheduling decides by: ``ready``, ``free`` and ``finish``."""
    is_ahead: bool = True
    """Whether it sees what the simulator says of each choice: ``ahead``. The paper's sees neither
    of the two."""

    def __post_init__(self) -> None:
        if self.width < 1:
            raise UsageError(f"width must be at least 1, got {self.width}")
        if not 0 <= self.rounds <= MAX_ROUNDS:
            raise UsageError(f"rounds must be from 0 to {MAX_ROUNDS}, got {self.rounds}")
        if sorted(set(self.pools) & set(get_args(Pool))) != sorted(self.pools):
            raise UsageError(f"pools must be some of {get_args(Pool)}, got {self.pools}")

    @property
    def others(self) -> list[Pool]:
        """Return the pools of more than the current group."""
        return [name for name in self.pools if name != "self"]

    @property
    def num_seen(self) -> int:
        """Return how many figures of a device the classifier sees."""
        told = 2 + 3 * self.moments + self.is_ahead
        pooled = 2 * self.width * len(self.pools)
        return pooled + len(self.others) + len(DEVICE_FEATURES) + told


def weight_shapes(shape: Shape) -> dict[str, tuple[int, ...]]:
    """Return names and shapes of a network's weights."""
    width = shape.width
    found: dict[str, tuple[int, ...]] = {}

    def layer(name: str, width_in: int, width_out: int, *, has_bias: bool = True) -> None:
        found[f"{name}.weight"] = (width_out, width_in)
        if has_bias:
            found[f"{name}.bias"] = (width_out,)

    def two_layers(name: str, width_in: int, width_out: int) -> None:
        layer(f"{name}.0", width_in, width_out)
        layer(f"{name}.2", width_out, width_out)

    two_layers("transform", len(NODE_FEATURES), width)
    for direction in ("down", "up"):
        two_layers(f"{direction}.send", width, width)
        two_layers(f"{direction}.receive", width, width)
    for pool in shape.others:
        two_layers(f"before_pool.{pool}", 2 * width, 2 * width)
        two_layers(f"after_pool.{pool}", 2 * width, 2 * width)
    layer("of_device", shape.num_seen, 16 * width)
    layer("of_all", shape.num_seen, 16 * width, has_bias=False)
    layer("classify.1", 16 * width, 8 * width)
    layer("classify.3", 8 * width, 1)
    return found
