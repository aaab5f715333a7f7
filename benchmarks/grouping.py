"""What placing groups of ops instead of ops costs, on members of Placeto's families.

The same search, simulated annealing from the best start, has the same evaluations twice: to move
ops, and to move groups. Below 0 groups are better, for a search with few evaluations gets further
with them. Run it as:

    python -m benchmarks.grouping --json grouping.json
"""

import time
from collections.abc import Iterator
from statistics import mean
from typing import Any

from benchmarks.figures import arguments, report
from benchmarks.placeto_worlds import members
from dplace.lowering import Evaluator
from dplace.policies.auto import auto
from dplace.policies.grouping import group_ops, grouping_loss
from dplace.problem import Problem


def rows_of(name: str, problem: Problem, options: Any) -> Iterator[dict[str, Any]]:
    """Yield a row for each number of groups."""
    evaluator = Evaluator(problem)
    for groups in options.groups:
        begun = time.perf_counter()
        group = group_ops(evaluator, groups)
        seconds = time.perf_counter() - begun
        found = [
            grouping_loss(problem, group, auto, evaluations=options.evaluations, seed=seed)
            for seed in range(options.seeds)
        ]
        yield {
            "member": name,
            "ops": problem.num_ops,
            "groups": found[0].num_groups,
            "grouping_s": seconds,
            "ops_ms": mean(loss.ops_s for loss in found) * 1e3,
            "groups_ms": mean(loss.groups_s for loss in found) * 1e3,
            "loss": mean(loss.loss for loss in found),
        }


def main() -> None:
    """Measure the loss of every member and the mean for each number of groups."""
    options = arguments(
        __doc__ or "",
        families=("cifar10", "ptb", "nmt"),
        cluster="4xV100",
        groups=(64, 128, 256),
        members=2,
        evaluations=2000,
        seeds=2,
    )
    rows: list[dict[str, Any]] = []
    losses: dict[int, list[float]] = {}
    for family in options.families:
        for member in members(family, options.cluster, count=options.members):
            found = rows_of(member.name, member.problem, options)
            for groups, row in zip(options.groups, found, strict=True):
                rows.append(row)
                losses.setdefault(groups, []).append(row["loss"])
    summary = {f"mean loss, at most {groups} groups": mean(v) for groups, v in losses.items()}
    report(f"Groups against ops on {options.cluster}", rows, summary, options.json)


if __name__ == "__main__":
    main()
