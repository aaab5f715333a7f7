from collections.abc import Iterator
from pathlib import Path

import pytest

from dplace.plan.records import Plan
from dplace.runtime.placed_session import PlacedSession
from tests.runtime.plans import given, make_plan, node_model


@pytest.fixture
def there_and_back(tmp_path: Path) -> Plan:
    """w = exp(-relu(x)), with Neg on cpu:1; y = relu(x) is an output as well."""
    return make_plan(
        tmp_path,
        {
            "first": ("cpu:0", node_model("Relu", ["x"], ["y"])),
            "middle": ("cpu:1", node_model("Neg", ["y"], ["z"])),
            "last": ("cpu:0", node_model("Exp", ["z"], ["w"])),
        },
        {
            "cpu:0": ["run first", "send y cpu:1", "receive z cpu:1", "run last"],
            "cpu:1": ["receive y cpu:0", "run middle", "send z cpu:0"],
        },
        inputs=[given("x", shape=["N"])],
        outputs=[given("w", shape=["N"]), given("y", shape=["N"])],
    )


@pytest.fixture
def session(there_and_back: Plan, tmp_path: Path) -> Iterator[PlacedSession]:
    with PlacedSession(there_and_back, folder=tmp_path) as opened:
        yield opened
