"""The network knows graphs, not names: what is only numbered otherwise is scored the same."""

import dataclasses
import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from dplace.errors import UsageError
from dplace.lowering import Evaluator
from dplace.policies.placeto.batch import Edges, _sums_by_torch, make_batch, moment
from dplace.policies.placeto.checkpoint import weights_of
from dplace.policies.placeto.episode import State
from dplace.policies.placeto.network import PlacetoNetwork, of_moment
from dplace.policies.placeto.scorer import Scorer
from dplace.policies.placeto.shape import Pool, Shape, weight_shapes
from dplace.policies.placeto.world import World, reach
from dplace.problem import Problem
from tests.random_problems import make_cluster, make_graph, make_problem, random_problem

POOLS: tuple[Pool, ...] = ("ancestors", "descendants", "parallel", "self")


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def network(shape: Shape | None = None, seed: int = 0) -> PlacetoNetwork:
    # One that looks ahead begins by believing what it sees there, and scores by that alone.
    shape = shape or Shape(is_ahead=False)
    return PlacetoNetwork(shape, generator=torch.Generator().manual_seed(seed))


def world(seed: int, num_devices: int, *, num_ops: int = 40, max_groups: int = 15) -> World:
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, num_ops, num_devices, window=8, unlike=True)
    seconds = problem.seconds.copy()
    seconds[:: num_ops // 3, num_devices - 1] = np.inf
    if num_devices == 1:
        seconds = problem.seconds
    return World(Evaluator(dataclasses.replace(problem, seconds=seconds)), max_groups=max_groups)


def state(of: World, seed: int = 0) -> State:
    rng = np.random.default_rng(seed)
    devices = of.random(rng)
    return State(
        devices,
        rng.random(of.num_groups) < 0.5,
        int(rng.integers(of.num_groups)),
        of.outcome(devices),
    )


def logits(net: PlacetoNetwork, worlds: list[World], states: list[State]) -> Tensor:
    batch = make_batch([one.graph for one in worlds])
    with torch.no_grad():
        found: Tensor = net(batch, moment(batch, states))
    return found


@pytest.mark.parametrize("seed", range(12))
def test_without_torch_the_scores_are_the_same(seed: int) -> None:
    rng = np.random.default_rng(seed)
    pools = tuple(pool for pool in POOLS if rng.random() < 0.8)
    shape = Shape(
        width=int(rng.integers(1, 9)),
        rounds=int(rng.integers(0, 5)),
        pools=pools,
        moments=seed % 2 == 0,
        is_ahead=seed % 3 == 0,
    )
    net = network(shape, seed)
    for parameter in net.parameters():  # none zero, as some are at first
        torch.nn.init.normal_(parameter, std=0.5, generator=torch.Generator().manual_seed(seed))
    weights = weights_of(net)
    assert weight_shapes(shape) == {name: array.shape for name, array in weights.arrays.items()}
    for num_devices in (1, 2, 5):
        here = world(seed, num_devices)
        scorer = Scorer(weights, here.graph)
        for draw in range(3):
            now = state(here, draw)
            if shape.is_ahead:
                now = now._replace(ahead=here.ahead(now.placement, now.current))
            np.testing.assert_allclose(
                scorer.logits(now), logits(net, [here], [now])[0].numpy(), rtol=1e-4, atol=1e-4
            )


def test_without_torch_odd_graphs_are_scored_the_same() -> None:
    """Circles between groups, one group, groups that nobody feeds, all sets of pools, width 1."""
    whole, circles = world(3, 3), np.arange(40, dtype=np.int32) % 7
    odd = [
        World(whole.evaluator, circles),
        World(whole.evaluator, np.zeros(40, dtype=np.int32)),
        World(Evaluator(random_problem(np.random.default_rng(0), 6, 1))),
        diamond_world(),
    ]
    assert (reach(odd[0].graph) & reach(odd[0].graph).T).any()
    assert not reach(odd[0].graph).diagonal().any()
    assert odd[1].num_groups == 1
    sets = (pools for num in range(5) for pools in itertools.combinations(POOLS, num))
    for seed, pools in enumerate(sets):
        net = network(Shape(width=1, pools=pools, is_ahead=False), seed)
        for here in odd:
            now = state(here, seed)
            np.testing.assert_allclose(
                Scorer(weights_of(net), here.graph).logits(now),
                logits(net, [here], [now])[0].numpy(),
                rtol=1e-4,
                atol=1e-4,
            )


def permuted(problem: Problem, order: NDArray[np.int64]) -> Problem:
    """Return the problem with device ``order[i]`` at place ``i``."""
    cluster = problem.cluster
    return dataclasses.replace(
        problem,
        cluster=dataclasses.replace(
            cluster,
            devices=tuple(cluster.devices[index] for index in order),
            latency_s=cluster.latency_s[np.ix_(order, order)],
            bytes_per_s=cluster.bytes_per_s[np.ix_(order, order)],
            host_latency_s=cluster.host_latency_s[order],
            host_bytes_per_s=cluster.host_bytes_per_s[order],
        ),
        seconds=np.ascontiguousarray(problem.seconds[:, order]),
    )


@pytest.mark.parametrize("seed", range(3))
def test_numbering_groups_otherwise_changes_nothing(seed: int) -> None:
    one = world(seed, 3)
    numbers = np.random.default_rng(seed).permutation(one.num_groups).astype(np.int32)
    other = World(one.evaluator, numbers[one.group])
    seen = state(one)
    places = np.argsort(numbers)
    devices = seen.placement[places]
    renumbered = State(
        devices, seen.visited[places], int(numbers[seen.current]), other.outcome(devices)
    )
    found = logits(network(), [one], [seen])
    again = logits(network(), [other], [renumbered])
    torch.testing.assert_close(found, again, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("seed", range(3))
def test_numbering_devices_otherwise_renumbers_the_scores_and_no_more(seed: int) -> None:
    one = world(seed, 4)
    order = np.random.default_rng(seed).permutation(4)
    other = World(Evaluator(permuted(one.problem, order)), one.group)
    seen = state(one, seed)
    devices = np.argsort(order)[seen.placement].astype(np.int32)
    # Ties on the clock go to the lower device, so the outcome is told, not simulated again.
    outcome = seen.outcome._replace(busy=seen.outcome.busy[order], full=seen.outcome.full[order])
    renumbered = seen._replace(placement=devices, outcome=outcome)
    found = logits(network(), [one], [seen])
    again = logits(network(), [other], [renumbered])
    torch.testing.assert_close(found[:, order], again, rtol=1e-4, atol=1e-5)


def test_devices_that_are_alike_in_all_are_scored_alike() -> None:
    problem = random_problem(np.random.default_rng(0), 30, 4)
    one = World(Evaluator(problem), max_groups=12)
    seen = state(one)
    devices = np.zeros(one.num_groups, dtype=np.int32)
    found = logits(
        network(), [one], [seen._replace(placement=devices, outcome=one.outcome(devices))]
    )
    assert found[0, 1] == pytest.approx(found[0, 2].item()) == pytest.approx(found[0, 3].item())
    assert found[0, 0] != pytest.approx(found[0, 1].item())


def test_a_batch_scores_as_each_graph_alone() -> None:
    worlds = [world(0, 2), world(1, 5), world(2, 1, num_ops=6), world(3, 3, max_groups=4)]
    states = [state(one, seed) for seed, one in enumerate(worlds)]
    net = network()
    together = logits(net, worlds, states)
    assert together.shape == (4, 5)
    for row, one, seen in zip(together, worlds, states, strict=True):
        alone = logits(net, [one], [seen])[0]
        torch.testing.assert_close(row[: one.num_devices], alone, rtol=1e-4, atol=1e-5)
        assert (row[one.num_devices :] == -torch.inf).all()


def test_several_steps_at_once_score_as_one_after_another() -> None:
    worlds = [world(0, 2), world(1, 3)]
    net = network()
    steps = [[state(one, 10 * step) for one in worlds] for step in range(3)]
    batch = make_batch([one.graph for one in worlds])
    repeated = batch.repeat(3)
    with torch.no_grad():
        at_once = net(repeated, moment(repeated, [seen for step in steps for seen in step]))
        one_by_one = torch.cat([net(batch, moment(batch, step)) for step in steps])
    torch.testing.assert_close(at_once, one_by_one, rtol=1e-4, atol=1e-5)


def test_where_dgl_cannot_go_torch_adds_up_the_same() -> None:
    worlds = [world(0, 2), world(1, 3)]
    batch = make_batch([one.graph for one in worlds]).repeat(2)
    rows = torch.rand(len(batch.graph_of), 6, generator=torch.Generator().manual_seed(0))
    kinds: tuple[tuple[Edges, Tensor], ...] = (
        ("feeds", batch.feeds),
        ("fed_by", batch.feeds.flip(0)),
    )
    for edges, pairs in kinds:
        by_torch = _sums_by_torch(pairs, rows) * batch.shrink[edges]
        torch.testing.assert_close(batch.arrivals(edges, rows), by_torch)
        plain = torch.zeros_like(rows)
        for group in range(len(rows)):
            made = [rows[source] for source, target in pairs.T.tolist() if target == group]
            if made:
                plain[group] = sum(made) / len(made) ** 0.5
        torch.testing.assert_close(by_torch, plain)


def test_devices_that_cannot_take_the_group_are_masked() -> None:
    one = world(1, 3)
    for current in range(one.num_groups):
        found = logits(network(), [one], [state(one)._replace(current=current)])[0]
        assert torch.isfinite(found).tolist() == one.graph.allowed[current].tolist()


def diamond_world() -> World:
    """Return 0 -> (1, 2) -> 3 and a lone op 4, each a group of its own."""
    graph = make_graph(
        [["x"], ["a"], ["a"], ["b", "c"], ["x"]],
        [["a"], ["b"], ["c"], ["d"], ["e"]],
        value_bytes=dict.fromkeys("abcde", 8),
    )
    cluster = make_cluster(2, latency_s=1.0, bytes_per_s=8.0)
    return World(Evaluator(make_problem(graph, cluster, [1.0, 2.0, 3.0, 4.0, 5.0])))


# What changes the score of group 1 through one pool alone, with no messages at all.
SEEN_BY: dict[Pool, int] = {"ancestors": 0, "descendants": 3, "parallel": 4, "self": 1}


@pytest.mark.parametrize("pool", POOLS)
def test_a_pool_sees_its_own_groups_and_no_others(pool: Pool) -> None:
    one = diamond_world()
    seen = state(one)._replace(current=1, visited=np.zeros(5, dtype=np.bool_))
    net = network(Shape(pools=(pool,), rounds=0, moments=False, is_ahead=False))
    before = logits(net, [one], [seen])
    for group in range(5):
        visited = np.arange(5) == group
        after = logits(net, [one], [seen._replace(visited=visited)])
        is_parallel = pool == "parallel" and group in (2, 4)
        sees = group == SEEN_BY[pool] or is_parallel
        assert torch.equal(before, after) != sees


def test_messages_travel_an_edge_a_round_in_either_direction() -> None:
    one = diamond_world()
    seen = state(one)._replace(current=0, visited=np.zeros(5, dtype=np.bool_))
    last = seen._replace(visited=np.arange(5) == 3)
    lone = seen._replace(visited=np.arange(5) == 4)
    for rounds in range(4):
        net = network(Shape(pools=("self",), rounds=rounds, moments=False, is_ahead=False))
        before = logits(net, [one], [seen])
        assert torch.equal(before, logits(net, [one], [last])) == (rounds < 2)
        assert torch.equal(before, logits(net, [one], [lone]))


def test_the_moments_of_list_scheduling_by_hand() -> None:
    one = diamond_world()
    # Group 0 (1 s) ran on device 0, group 1 (2 s) on device 1; a hand-over takes 2 s.
    placement = np.array([0, 1, 0, 0, 0], dtype=np.int32)
    outcome = one.outcome(placement)._replace(
        end=np.array([0.1, 0.5, 1.0, 1.0, 1.0], dtype=np.float32), length=10.0
    )
    seen = State(placement, np.array([True, True, False, False, False]), 2, outcome)
    batch = make_batch([one.graph])
    unit_s = one.graph.unit_s
    assert unit_s == pytest.approx(3.0)
    found = of_moment(batch, moment(batch, [seen]))[0]
    ready = np.array([1.0, 1.0 + 2.0 / unit_s])
    free = np.array([1.0, 5.0])
    finish = np.maximum(ready, free) + 1.0
    told = np.stack([ready, free, finish], axis=1) - finish.min()
    wanted = np.sign(told) * np.log1p(np.abs(told))
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-5, atol=1e-6)


def test_what_the_simulator_says_of_a_choice_is_seen_where_it_is_asked_for() -> None:
    one = world(0, 3)
    seen = state(one)
    said = seen._replace(ahead=one.ahead(seen.placement, seen.current))
    net, blind = network(Shape()), network()
    assert not torch.equal(logits(net, [one], [seen]), logits(net, [one], [said]))
    assert torch.equal(logits(blind, [one], [seen]), logits(blind, [one], [said]))
    untrained = logits(net, [one], [said])[0]
    allowed = np.flatnonzero(one.graph.allowed[seen.current])
    assert said.ahead is not None
    assert int(untrained.argmax()) == allowed[said.ahead[allowed].argmin()]


@pytest.mark.parametrize("left_out", POOLS)
def test_each_pool_can_be_left_out(left_out: Pool) -> None:
    pools = tuple(pool for pool in POOLS if pool != left_out)
    net = network(Shape(width=4, rounds=2, pools=pools))
    one = world(0, 3)
    scores = net(batch := make_batch([one.graph]), moment(batch, [state(one)]))
    torch.autograd.backward(torch.logsumexp(scores, 1).sum())
    assert all(weight.grad is not None for weight in net.parameters())


def test_no_op_can_be_told_by_its_name_or_type() -> None:
    one = world(0, 3)
    graph = dataclasses.replace(
        one.problem.graph,
        name="other",
        op_names=tuple(f"other{op}" for op in range(40)),
        op_types=("Other",) * 40,
    )
    other = World(Evaluator(dataclasses.replace(one.problem, graph=graph)), one.group)
    found, again = (logits(network(), [w], [state(w)]) for w in (one, other))
    assert torch.equal(found, again)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"width": 0}, "width must be at least 1, got 0"),
        ({"rounds": -1}, "rounds must be from 0 to 1000, got -1"),
        ({"rounds": 10**9}, "rounds must be from 0 to 1000, got 1000000000"),
        ({"pools": ("self", "self")}, "pools must be some of"),
        ({"pools": ("others",)}, "pools must be some of"),
    ],
)
def test_a_shape_cannot_be_wrong(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        Shape(**changes)


def test_equal_seeds_make_equal_networks() -> None:
    for one, other in zip(network(seed=3).parameters(), network(seed=3).parameters(), strict=True):
        assert torch.equal(one, other)
    assert not torch.equal(next(network(seed=3).parameters()), next(network(seed=4).parameters()))
