"""Who decides: each policy turns a Problem into a Placement.

Read policy.py first; all policies see the same problem and are judged by the same simulator,
through one ``Evaluator``. A policy is one function in a file of its own; ``placeto`` is learned and
has a folder, and ``learned.py`` asks it. ``PlacementEnv`` poses the same question to agents of
others, through Gymnasium.
"""

from typing import TYPE_CHECKING, Any

from dplace.policies.policy import POLICIES, Answer, Policy, answer_for, default_evaluations, place

if TYPE_CHECKING:
    from dplace.policies.placeto.environment import PlacementEnv

__all__ = [
    "POLICIES",
    "Answer",
    "PlacementEnv",
    "Policy",
    "answer_for",
    "default_evaluations",
    "place",
]


def __getattr__(name: str) -> Any:
    """Return the environment, whose Gymnasium is imported when it is asked for."""
    if name != "PlacementEnv":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from dplace.policies.placeto.environment import PlacementEnv
    except ModuleNotFoundError as error:
        if error.name != "gymnasium":
            raise
        raise ImportError(
            "PlacementEnv needs Gymnasium; install it with pip install 'dplace[gym]'"
        ) from error
    return PlacementEnv
