"""``dplace compare --comm-order``: a row for each order of communication."""

from pathlib import Path
from typing import Any

import pytest

from dplace import api
from dplace.errors import UsageError
from tests.commands.conftest import Dplace
from tests.graph_io.cost_graphs.files import diamond, text


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    """Return a small graph with costs."""
    path = tmp_path / "a.json"
    path.write_text(text(diamond()))
    return path


def test_a_row_for_each_order_of_communication(graph: Path, dplace: Dplace) -> None:
    options: dict[str, Any] = {"cluster": "2xV100", "machine": "native", "evaluations": 50}
    comparison = api.compare([graph], policies=["heft"], comm_order="all", seeds=2, **options)
    (compared,) = comparison.models
    assert [row.comm_order for row in compared.rows] == [
        "fifo",
        "random",
        "tic",
        "tac",
        "critical-path",
        "searched",
    ]
    for row in compared.rows:
        assert row.policy == "heft"
        assert row.best_s * row.throughput_per_s == pytest.approx(1.0)
        assert 0.0 <= row.straggler_effect < 1.0
    assert compared.rows[-1].best_s == min(row.best_s for row in compared.rows)
    (one,) = api.compare([graph], policies=["heft"], comm_order="tac", **options).models
    assert one.rows[0].comm_order == "tac"
    assert one.rows[0].makespans_s[0] == compared.rows[3].makespans_s[0]

    shown = dplace(
        *("compare", str(graph), "--cluster", "2xV100", "--machine", "native"),
        *("--policies", "heft", "--evaluations", "50", "--comm-order", "all"),
    ).out.splitlines()
    head = next(line for line in shown if line.startswith("Policy"))
    assert head.split()[:5] == ["Policy", "Order", "Best", "Rate", "Straggling"]
    assert [line.split()[1] for line in shown[shown.index(head) + 1 :]] == [
        row.comm_order for row in compared.rows
    ]
    assert max(map(len, shown)) <= 80


def test_machines_of_others_and_unknown_orders_are_refused(graph: Path) -> None:
    for order in ("tac", "all"):
        (compared,) = api.compare(
            [graph], cluster="2xV100", machine="baechi", policies=["all"], comm_order=order
        ).models
        assert compared.error == (
            f"--comm-order {order}: the machine baechi has an order of its own; leave the option "
            "out, or take --machine native"
        )
        assert (compared.exit_code, compared.rows) == (2, ())
    with pytest.raises(UsageError, match="--comm-order quick: expected one of best, fifo"):
        api.compare([graph], cluster="2xV100", comm_order="quick")
