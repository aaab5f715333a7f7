"""Routes over accelerators, with parts that only note what they are given."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dplace.errors import PlanError
from dplace.plan.records import Plan
from dplace.runtime.devices import RunDevice
from dplace.runtime.request import Request
from dplace.runtime.route import HOST, Route, compile_route
from dplace.runtime.worker import Worker
from tests.runtime.plans import given, make_plan, node_model

GPU = "CUDAExecutionProvider"
CPU = "CPUExecutionProvider"


class NotingPart:
    """A part whose outputs say how they were made."""

    def __init__(self, name: str, inputs: Sequence[str]) -> None:
        self.name = name
        self.inputs = tuple(inputs)

    def run(self, outputs: Sequence[str], feeds: Sequence[Any], _options: Any) -> list[str]:
        return [f"{name}={self.name}({','.join(feeds)})" for name in outputs]


def devices(**providers: str) -> list[RunDevice]:
    return [
        RunDevice(name=name.replace("_", ":"), provider=provider, index=index, core=None)
        for index, (name, provider) in enumerate(providers.items())
    ]


def compiled(
    plan: Plan, on: Sequence[RunDevice], outputs: Sequence[str], monkeypatch: pytest.MonkeyPatch
) -> Route:
    def copy_from(target: RunDevice | None) -> Any:
        place = HOST if target is None or target.is_cpu else target.name
        return lambda held: f"{held}->{place}"

    monkeypatch.setattr("dplace.runtime.route.copy_from", copy_from)
    parts: dict[str, Any] = {part.name: NotingPart(part.name, part.inputs) for part in plan.parts}
    return compile_route(plan, on, parts, outputs)


def run(route: Route, on: Sequence[RunDevice], **feeds: str) -> list[Any]:
    """Run a route with real workers and return its outputs."""
    workers = [Worker(device) for device in on]
    for worker in workers:
        worker.start(lambda: None, lambda _: None)
    held: dict[str, tuple[Any, object]] = {name: (value, None) for name, value in feeds.items()}
    values = Request(0, route, workers, held, None).run(lone=None)
    for worker in workers:
        worker.stop()
        worker.join()
    return [values[fetch] if isinstance(fetch, int) else feeds[fetch] for fetch in route.fetches]


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    """gpu:0 makes a for gpu:1 and for the caller, gpu:1 makes b for the CPU."""
    return make_plan(
        tmp_path,
        {
            "p": ("gpu:0", node_model("Neg", ["x"], ["a"])),
            "q": ("gpu:1", node_model("Add", ["a", "x"], ["b"])),
            "r": ("cpu:0", node_model("Neg", ["b"], ["c"])),
            "s": ("gpu:1", node_model("Add", ["c", "b"], ["d"])),
        },
        {
            "gpu:0": ["run p", "send a gpu:1"],
            "gpu:1": ["receive a gpu:0", "run q", "send b cpu:0", "receive c cpu:0", "run s"],
            "cpu:0": ["receive b gpu:1", "run r", "send c gpu:1"],
        },
        inputs=[given("x", shape=["N"])],
        outputs=[given("a", shape=["N"]), given("d", shape=["N"])],
    )


def test_values_are_copied_out_of_an_accelerator_once_for_each_memory(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    on = devices(gpu_0=GPU, gpu_1=GPU, cpu_0=CPU)
    route = compiled(plan, on, ["a", "d"], monkeypatch)
    assert [[route.tasks[number].label for number in order] for order in route.orders] == [
        ["part p", 'copy of "a" to host', 'copy of "a" to gpu:1'],
        ["part q", 'copy of "b" to host', "part s", 'copy of "d" to host'],
        ["part r"],
    ]
    a, d = run(route, on, x="x")
    assert a == "a=p(x)->host"
    b = "b=q(a=p(x)->gpu:1,x)"
    assert d == f"d=s(c=r({b}->host),{b})->host"


def test_only_the_copies_for_the_wanted_outputs_are_made(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    on = devices(gpu_0=GPU, gpu_1=GPU, cpu_0=CPU)
    route = compiled(plan, on, ["a"], monkeypatch)
    assert [task.label for task in route.tasks] == ["part p", 'copy of "a" to host']
    assert run(route, on, x="x") == ["a=p(x)->host"]


def test_cpu_devices_hand_over_without_a_copy(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    on = devices(gpu_0=CPU, gpu_1=CPU, cpu_0=CPU)
    route = compiled(plan, on, ["d"], monkeypatch)
    assert [task.label for task in route.tasks] == ["part p", "part q", "part s", "part r"]
    assert run(route, on, x="x") == ["d=s(c=r(b=q(a=p(x),x)),b=q(a=p(x),x))"]


def test_a_value_that_nobody_sends_is_named(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    silent = tuple(
        dataclasses.replace(
            device, program=tuple(step for step in device.program if step.action != "send")
        )
        for device in plan.devices
    )
    with pytest.raises(PlanError, match='the value "a" is needed on gpu:1, but no step brings it'):
        compiled(
            dataclasses.replace(plan, devices=silent),
            devices(gpu_0=GPU, gpu_1=GPU, cpu_0=CPU),
            ["d"],
            monkeypatch,
        )


def test_earlier_requests_go_first_and_within_one_the_programs_order() -> None:
    done: list[str] = []
    worker = Worker(devices(cpu_0=CPU)[0])
    request: Any = SimpleNamespace(
        take=lambda _task: [], complete=lambda _task, _results: None, options=None
    )

    def put_all() -> None:
        for number, position in ((1, 0), (0, 2), (1, 1), (0, 1)):

            def work(_feeds: Any, _options: Any, name: str = f"{number}.{position}") -> list[Any]:
                done.append(name)
                return []

            task: Any = SimpleNamespace(work=work, is_part=True)
            worker.put((number, position, request, task))

    worker.drive(put_all)
    assert done == ["0.1", "0.2", "1.0", "1.1"]
    assert worker.calls == 4
