"""A plan's time can be predicted again from the folder alone, and comes out the same."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from dplace import api
from dplace.problem import Problem
from tests.graph_io.models import parse

BRANCHES = """g (float[8,64] x) => (float[8,64] y) {
    a = MatMul(x, w)  b = Relu(a)   c = MatMul(b, w)
    d = MatMul(x, v)  e = Tanh(d)   f = MatMul(e, v)
    s = Add(c, f)     y = Sigmoid(s)
}"""


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("cluster", ["3xCPU", "2x2xV100@pcie3,10gbe"])
def test_simulate_agrees_with_place(tmp_path: Path, cluster: str, seed: int) -> None:
    model = parse(BRANCHES, w=(64, 64), v=(64, 64))

    def placement(problem: Problem) -> NDArray[np.int32]:
        rng = np.random.default_rng(seed)
        return rng.integers(0, problem.num_devices, problem.num_ops).astype(np.int32)

    placed = api.place(model, cluster=cluster, out=tmp_path / "plan", placement=placement)
    simulated = api.simulate(tmp_path / "plan")
    assert simulated.makespan_s == pytest.approx(placed.plan.makespan_s, rel=1e-12)
    assert simulated.bottleneck_s == pytest.approx(placed.plan.bottleneck_s, rel=1e-12)
    assert [device.busy_s for device in simulated.devices] == pytest.approx(
        [device.busy_s for device in placed.plan.devices], rel=1e-12
    )
    assert simulated.transfers == placed.transfers
    assert simulated.transfer_bytes == placed.transfer_bytes


@pytest.mark.parametrize("cluster", ["2xCPU", "3xV100@pcie3"])
def test_a_plan_for_a_stream_says_how_often_a_result_comes(tmp_path: Path, cluster: str) -> None:
    model = parse(BRANCHES, w=(64, 64), v=(64, 64))
    placed = api.place(model, cluster=cluster, objective="throughput", out=tmp_path / "plan")
    plan = placed.plan
    assert placed.scores["auto"] == plan.objective_s == plan.bottleneck_s
    assert plan.bound_s <= plan.bottleneck_s <= plan.best_single_device_s
    assert api.simulate(tmp_path / "plan").objective_s == pytest.approx(plan.objective_s, rel=1e-12)
