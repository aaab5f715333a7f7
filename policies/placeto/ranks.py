"""Several processes that train one network together, as torchrun starts them.

Every process draws the same graphs, plays its share of the episodes and adds up gradients with the
others, so that all have the same network at any time, and the same, up to rounding, as one process
that plays all. What all have to know of each other's episodes, rewards and the best placements, is
added up as well: each process fills in its own rows. No pickle is sent.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.distributed.distributed_c10d import Store

from dplace.errors import DeviceLostError, UsageError
from dplace.policies.placeto.batch import Batch, make_batch
from dplace.policies.placeto.episode import Episode
from dplace.policies.placeto.network import PlacetoNetwork
from dplace.policies.placeto.rollout import Played, Seats, play
from dplace.runtime.ranks.gathering import on_thread
from dplace.runtime.ranks.interface import choose_interface
from dplace.runtime.ranks.launch import Launch, launch_of
from dplace.runtime.ranks.store import no_answer, open_store

__all__ = ["ALONE", "Ranks", "play_together", "ranks_of_torchrun"]

COME_S = 60.0
"""How long to wait for the other processes."""


class Ranks:
    """Which of how many processes this is."""

    def __init__(self, rank: int = 0, size: int = 1) -> None:
        self.rank = rank
        self.size = size

    @property
    def is_first(self) -> bool:
        """Return whether this process writes."""
        return self.rank == 0

    def share(self, num: int) -> slice:
        """Return which of so many rows are this process's; there may be none.

        >>> [Ranks(rank, 3).share(4) for rank in range(3)]
        [slice(0, 1, None), slice(1, 2, None), slice(2, 4, None)]
        """
        return slice(num * self.rank // self.size, num * (self.rank + 1) // self.size)

    def total(self, tensor: Tensor) -> Tensor:
        """Return the sum of a tensor over all processes; it is changed in place.

        Raises:
            DeviceLostError: One of them is gone.
        """
        if self.size > 1:
            try:
                dist.all_reduce(tensor)
            except RuntimeError as error:  # as torch says that a connection broke
                raise DeviceLostError(
                    "lost another process of the training: its connection broke; start all of them "
                    "again, and they go on from what was kept last"
                ) from error
        return tensor

    def from_first(self, content: bytes) -> bytes:
        """Return what the first process has; the others give nothing."""
        if self.size == 1:
            return content
        length = int(self.total(torch.tensor([len(content)]))[0])
        found = torch.zeros(length, dtype=torch.uint8)
        if content:
            found[:] = torch.frombuffer(bytearray(content), dtype=torch.uint8)
        return self.total(found).numpy().tobytes()

    def rows(self, placements: Sequence[NDArray[np.int32]]) -> list[NDArray[np.int32]]:
        """Return placements, each as the process knows it whose share it is in.

        Args:
            placements: In all processes as many, and each of the same length.
        """
        if self.size == 1:
            return list(placements)
        own = self.share(len(placements))
        rows = torch.zeros(len(placements), max(map(len, placements)), dtype=torch.int32)
        for row, placement in zip(rows[own], placements[own], strict=True):
            row[: len(placement)] = torch.from_numpy(placement)
        found = self.total(rows).numpy()
        return [
            row[: len(placement)].copy() for row, placement in zip(found, placements, strict=True)
        ]

    def add_gradients(self, network: nn.Module) -> None:
        """Let every process have the sum of all their gradients."""
        if self.size == 1:
            return
        parameters = list(network.parameters())
        for parameter in parameters:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        summed = self.total(torch.cat([gradient.flatten() for gradient in gradients]))
        parts = torch.split(summed, [gradient.numel() for gradient in gradients])
        for gradient, part in zip(gradients, parts, strict=True):
            gradient.copy_(part.view_as(gradient))


ALONE = Ranks()


@contextmanager
def ranks_of_torchrun(device: str) -> Iterator[tuple[Ranks, torch.device]]:
    """Yield which process this is, and the device of torch's that is its own.

    Args:
        device: ``cpu`` or ``cuda``.

    Raises:
        UsageError: There is no such device, or what a launcher sets is no number.
        DeviceLostError: Some process did not come.
        InputError: The port that the launcher names is in use.
    """
    launch = launch_of(os.environ)
    own = torch.device(device)
    if own.type == "cuda":
        if not torch.cuda.is_available():
            raise UsageError(f"--device {device}: torch finds no CUDA device; use cpu")
        # So that equal seeds do equal things there as well.
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(True, warn_only=True)
        own = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        torch.cuda.set_device(own)
    if launch is None or launch.size == 1:
        yield ALONE, own
        return
    store = _meeting_place(launch)
    try:
        dist.init_process_group(
            "cpu:gloo,cuda:nccl" if own.type == "cuda" else "gloo",
            store=store,
            rank=launch.rank,
            world_size=launch.size,
        )
    except RuntimeError as error:
        raise DeviceLostError(
            "lost another process of the training: it cannot be reached by what "
            "GLOO_SOCKET_IFNAME names"
        ) from error
    try:
        yield Ranks(launch.rank, launch.size), own
    finally:
        dist.destroy_process_group()


def _meeting_place(launch: Launch) -> Store:
    """Return the store that all processes are at by now."""
    choose_interface(launch.address)
    found = on_thread(lambda: open_store(launch, COME_S, clients=1), COME_S)
    if found is None:  # torch keeps no time where a host drops what is sent to it
        raise no_answer(launch, COME_S)
    (client,) = found
    keys = [f"training/{rank}" for rank in range(launch.size)]

    def wait() -> bool:
        client.set(keys[launch.rank], "")
        client.wait(keys, COME_S)
        return True

    try:
        on_thread(wait, None)
    except RuntimeError as error:
        try:
            missing = next((rank for rank, key in enumerate(keys) if not client.has([key])), 0)
        except RuntimeError:
            raise DeviceLostError("lost rank 0: its store does not answer any more") from error
        raise DeviceLostError(
            f"lost rank {missing} of {launch.size}: it did not come within {COME_S:g} s"
        ) from error
    return client.store


def play_together(
    network: PlacetoNetwork,
    episodes: Sequence[Episode],
    *,
    generator: torch.Generator | None,
    ranks: Ranks,
    device: torch.device,
) -> tuple[Batch | None, Played]:
    """Play episodes, just reset, each in one of the processes.

    Args:
        network: The policy.
        episodes: All of them, in all processes the same.
        generator: Draws devices; in all processes at the same place, before and after. Without it
            the most probable is taken.
        ranks: The processes.
        device: That of the network.

    Returns:
        The graphs of this process's episodes, None if it has none, and what happened. States and
        actions are those of its own, rewards are of all.
    """
    own = ranks.share(len(episodes))
    mine = list(episodes[own])
    graphs = [episode.world.graph for episode in episodes]
    batch = make_batch(graphs[own], device=device) if mine else None
    if ranks.size == 1 and batch is not None:
        return batch, play(network, batch, mine, generator=generator)
    lengths = torch.tensor([graph.num_groups for graph in graphs])
    num_steps = int(lengths.max())
    seats = Seats(own, len(graphs), max(graph.num_devices for graph in graphs), num_steps)
    if batch is None:
        if generator is not None:
            for _ in range(num_steps):
                seats.noise(generator)
        played = Played([], torch.zeros(0, 0, dtype=torch.int64), torch.zeros(0, 0), lengths)
    else:
        played = play(network, batch, mine, generator=generator, seats=seats)
    rewards = torch.zeros(num_steps, len(episodes))
    rewards[: len(played.rewards), own] = played.rewards
    is_on = (torch.arange(num_steps)[:, None] < lengths).float()
    for episode, best in zip(episodes, ranks.rows([e.best for e in episodes]), strict=True):
        if (best != episode.best).any():
            episode.best, episode.best_score = best, episode.world.outcome(best).score
    return batch, Played(played.states, played.actions, ranks.total(rewards), is_on, own)
