"""The RNN placer: probabilities of whole placements, masks, and that it learns small worlds."""

import itertools

import numpy as np
import pytest
import torch

from dplace.policies.placeto.world import topological
from dplace.policies.rnn.network import RnnNetwork, RnnShape, sequence_of
from dplace.policies.rnn.train import RnnSettings, RnnTrainer, placed_by
from tests.policies.placeto.test_train import chains, random_world


def network(num_devices: int, max_groups: int = 12, seed: int = 0) -> RnnNetwork:
    shape = RnnShape(max_groups=max_groups, num_devices=num_devices, width=16)
    return RnnNetwork(shape, generator=torch.Generator().manual_seed(seed))


def test_a_row_tells_neighbours_by_their_place_in_the_order() -> None:
    world = chains(1, 3)
    assert world.num_groups == 3
    order = np.array([2, 0, 1])
    rows = sequence_of(world.graph, order, 4).numpy()[:, world.graph.features.shape[1] :]
    position = {2: 0, 0: 1, 1: 2}
    for source, target in world.graph.edges.tolist():
        assert rows[position[source], position[target]] == 1.0
        assert rows[position[target], 4 + position[source]] == 1.0
    assert rows.sum() == 2 * len(world.graph.edges)


def test_the_probabilities_of_all_placements_sum_to_one() -> None:
    world = random_world(0, 2)
    net, num = network(2), 5
    order = topological(world.graph)[:num]
    sequence = sequence_of(world.graph, topological(world.graph), 12)[:num]
    allowed = torch.from_numpy(world.graph.allowed[order])
    found: dict[tuple[int, ...], float] = {}
    generator = torch.Generator().manual_seed(0)
    while len(found) < 2**num:
        with torch.no_grad():
            drawn = net(sequence, allowed, num_samples=64, generator=generator)
        for row, log in zip(drawn.devices.tolist(), drawn.log_probability.tolist(), strict=True):
            found[tuple(row)] = log
    assert sum(map(np.exp, found.values())) == pytest.approx(1.0, abs=1e-5)


def test_a_masked_device_is_never_written() -> None:
    world = random_world(0, 3)
    allowed = torch.ones(world.num_groups, 3, dtype=torch.bool)
    allowed[:, 1] = False
    drawn = network(3)(
        sequence_of(world.graph, topological(world.graph), 12),
        allowed,
        num_samples=50,
        generator=torch.Generator().manual_seed(0),
    )
    assert (drawn.devices != 1).all()
    assert torch.isfinite(drawn.log_probability).all()
    assert torch.isfinite(drawn.entropy).all()


@pytest.mark.parametrize("seed", range(3))
def test_two_chains_are_taken_apart(seed: int) -> None:
    world = chains(2)
    least = min(
        world.outcome(np.array(devices, dtype=np.int32)).score.makespan_s
        for devices in itertools.product(range(2), repeat=world.num_groups)
    )
    net = network(2, seed=seed)
    trainer = RnnTrainer(net, [world], RnnSettings(updates=150, samples=16), seed=seed)
    for _ in range(150):
        told = trainer.update()
    assert told.best[0].makespan_s == pytest.approx(least)
    assert world.outcome(placed_by(net, world)).score.makespan_s == pytest.approx(least)


def test_equal_seeds_do_equal_things() -> None:
    def told() -> list[float]:
        worlds = [chains(2), random_world(1, 2), random_world(2, 2)]
        trainer = RnnTrainer(network(2), worlds, RnnSettings(updates=6, graphs=2), seed=3)
        return [trainer.update().log_time for _ in range(6)]

    assert told() == told()
