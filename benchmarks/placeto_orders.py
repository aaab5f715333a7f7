"""By how much placements vary over six orders of visits: zero-shot by a policy, and the RNN placer.

``policy`` and ``rnn`` are how much the slowest order is slower than the fastest. The RNN placer is
trained on the family's training members, and reads each test member's groups in those orders. The
policy plays one episode a time. Run it as:

    python -m benchmarks.placeto_orders --policy FAMILY --json orders.json
"""

from statistics import mean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.figures import arguments, report
from benchmarks.placeto_rivals import trained_rnn
from benchmarks.placeto_worlds import CLUSTER, FAMILIES, judged_s, members, network_at, one_episode
from dplace.lowering import Evaluator
from dplace.policies.placeto.network import PlacetoNetwork
from dplace.policies.placeto.world import World, topological
from dplace.policies.rnn.train import placed_by

__all__ = ["orders_of", "varied"]


def main() -> None:
    """Place every test member in every order."""
    options = arguments(
        __doc__ or "",
        policy="",
        families=FAMILIES,
        cluster=CLUSTER,
        rnn_train=30,
    )
    rows: list[dict[str, Any]] = []
    for family in options.families:
        network = network_at(options.policy, family)
        rnn = trained_rnn(family, options)
        for member in members(family, options.cluster):
            plain = World(
                Evaluator(member.problem), is_listed=False, max_groups=rnn.shape.max_groups
            )
            found = [
                judged_s(plain.evaluator, plain.of_ops(placed_by(rnn, plain, order)))
                for order in orders_of(plain)
            ]
            row = {"policy": varied(network, World(Evaluator(member.problem)))}
            rows.append(member.row | row | {"rnn": max(found) / min(found) - 1.0})
    told = {
        f"{family}: {name}, {kind.__name__}": kind(
            row[name] for row in rows if row["family"] == family
        )
        for family in options.families
        for name in ("policy", "rnn")
        for kind in (mean, max)
    }
    report("How run times vary over six orders", rows, told, options.json)


def orders_of(world: World) -> list[NDArray[np.int64]]:
    """Return a topological order, the same backwards, and four that are drawn."""
    order = topological(world.graph)
    rng = np.random.default_rng(0)
    return [order, order[::-1], *(rng.permutation(len(order)) for _ in range(4))]


def varied(network: PlacetoNetwork, world: World) -> float:
    """Return by how much the slowest of six orders is slower than the fastest."""
    found = [
        judged_s(world.evaluator, world.of_ops(one_episode(network, world, order=order)[0]))
        for order in orders_of(world)
    ]
    return max(found) / min(found) - 1.0


if __name__ == "__main__":
    main()
