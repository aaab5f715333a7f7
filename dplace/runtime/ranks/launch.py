"""Which of how many processes this is, as torchrun or another launcher says in the environment."""

from collections.abc import Mapping
from dataclasses import dataclass

from dplace.errors import UsageError

__all__ = ["Launch", "half_launched", "launch_of"]

VARIABLES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
MAX_PORT = 65535
MAX_RANKS = 2**16
MAX_DIGITS = 18
RESTARTS = "TORCHELASTIC_RESTART_COUNT"


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """One process of a run."""

    rank: int
    size: int
    address: str
    """Of the host where the store is, in the run's network."""
    port: int
    agent_has_store: bool = False
    """Whether torchrun's agent keeps the store; else rank 0 does."""
    attempt: int = 0
    """How often torchrun has started the ranks anew."""

    @property
    def keeps_store(self) -> bool:
        """Return whether the store ends with this process."""
        return self.rank == 0 and not self.agent_has_store


def launch_of(environment: Mapping[str, str]) -> Launch | None:
    """Return the process that the environment describes, None without a launcher.

    >>> launch_of({"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "10.0.0.1"}) is None
    True

    Raises:
        UsageError: A variable holds no number, or one that cannot be.
    """
    if not all(environment.get(name) for name in VARIABLES):
        return None
    size = _number(environment, "WORLD_SIZE", 1, MAX_RANKS)
    return Launch(
        rank=_number(environment, "RANK", 0, size - 1),
        size=size,
        address=environment["MASTER_ADDR"],
        port=_number(environment, "MASTER_PORT", 1, MAX_PORT),
        agent_has_store=environment.get("TORCHELASTIC_USE_AGENT_STORE") == "True",
        attempt=_number(environment, RESTARTS, 0, None) if environment.get(RESTARTS) else 0,
    )


def half_launched(environment: Mapping[str, str]) -> str | None:
    """Return a warning where a launcher may be meant and is not: some of what it sets is missing.

    >>> half_launched({"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "10.0.0.1"})
    'RANK, WORLD_SIZE, MASTER_ADDR are set and MASTER_PORT is not: run as one process'
    """
    there = [name for name in VARIABLES if environment.get(name)]
    missing = [name for name in VARIABLES if name not in there]
    if not there or not missing:
        return None
    are, is_not = ("are" if len(names) > 1 else "is" for names in (there, missing))
    return f"{', '.join(there)} {are} set and {', '.join(missing)} {is_not} not: run as one process"


def _number(environment: Mapping[str, str], name: str, least: int, most: int | None) -> int:
    text = environment[name]
    wanted = f"from {least} to {most}" if most is not None else f"of at least {least}"
    # Python refuses to read numbers of thousands of digits.
    is_number = text.isascii() and text.isdecimal() and len(text) <= MAX_DIGITS
    if not is_number or int(text) < least or (most is not None and int(text) > most):
        raise UsageError(f"{name}={text} in the environment: expected a number {wanted}")
    return int(text)
