"""What the updates of all trainers have in common."""

import torch
from torch import Tensor

__all__ = ["entropy_of", "fall", "finite"]


def fall(optimiser: torch.optim.Optimizer, first: float, last: float, done: float) -> None:
    """Let the steps of an optimiser fall linearly from the first to the last.

    Args:
        optimiser: Has one rate for all.
        first: Rate at the first update.
        last: Rate at the last update, and after it.
        done: Share of the updates that are done.
    """
    for group in optimiser.param_groups:
        group["lr"] = first + (last - first) * min(1.0, done)


def entropy_of(log_shares: Tensor) -> Tensor:
    """Return the entropy of each choice in nats, shape ``(B,)``.

    Args:
        log_shares: Log-probabilities of shape ``(B, D)``, ``-inf`` where masked.
    """
    return -(log_shares.exp() * finite(log_shares)).sum(1)


def finite(log_shares: Tensor) -> Tensor:
    """Return log-probabilities with 0 where masked: there -inf times 0 would be no number."""
    return log_shares.masked_fill(log_shares.isinf(), 0.0)
