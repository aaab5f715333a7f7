"""A plan is refused where its programs cannot run: a second opinion on each fault."""

import dataclasses

import pytest

from dplace.plan.records import Part, Plan, PlannedDevice, PlannedLinks, Step, ValueType
from dplace.plan.validate import plan_problems


def part(name: str, device: str, inputs: tuple[str, ...], outputs: tuple[str, ...]) -> Part:
    return Part(
        name=name,
        file=f"parts/{name}.onnx",
        device=device,
        inputs=inputs,
        outputs=outputs,
        overridable=(),
        digest="",
        weights_file=None,
        weights_digest=None,
        num_ops=1,
        predicted_s=1.0,
    )


def device(name: str, *program: Step) -> PlannedDevice:
    return PlannedDevice(
        name=name,
        kind="CPU",
        provider="CPUExecutionProvider",
        index=0,
        host=0,
        memory_bytes=1,
        call_overhead_s=0.0,
        num_ops=1,
        weight_bytes=0,
        peak_bytes=0,
        busy_s=0.0,
        program=program,
    )


def run(name: str) -> Step:
    return Step(action="run", subject=name)


def send(value: str, to: str) -> Step:
    return Step(action="send", subject=value, peer=to)


def receive(value: str, source: str) -> Step:
    return Step(action="receive", subject=value, peer=source)


def value(name: str) -> ValueType:
    return ValueType(name=name, type="tensor(float)", shape=None)


def two_devices(*programs: tuple[Step, ...]) -> Plan:
    """x -> a on d0 -> v -> b on d1 -> w -> c on d0 -> y."""
    return Plan(
        model="m",
        model_digest="",
        cluster="2xCPU",
        objective="latency",
        policy="given",
        optimize="native",
        opt_level="all",
        exact=True,
        runtime={},
        makespan_s=1.0,
        bottleneck_s=1.0,
        bound_s=1.0,
        best_single_device_s=1.0,
        inputs=(value("x"),),
        outputs=(value("y"),),
        overridable=(),
        passthrough=(),
        devices=tuple(device(f"d{i}", *program) for i, program in enumerate(programs)),
        parts=(
            part("a", "d0", ("x",), ("v",)),
            part("b", "d1", ("v",), ("w",)),
            part("c", "d0", ("w",), ("y",)),
        ),
        values=(value("v"), value("w")),
        links=PlannedLinks(
            latency_s=((0.0, 0.0), (0.0, 0.0)),
            bytes_per_s=((1.0, 1.0), (1.0, 1.0)),
            host_latency_s=(0.0, 0.0),
            host_bytes_per_s=(1.0, 1.0),
            contention="link",
        ),
        dims={},
        index_limits={},
    )


GOOD_0 = (run("a"), send("v", "d1"), receive("w", "d1"), run("c"))
GOOD_1 = (receive("v", "d0"), run("b"), send("w", "d0"))


def test_a_plan_that_can_run_has_no_problems() -> None:
    assert plan_problems(two_devices(GOOD_0, GOOD_1)) == []


@pytest.mark.parametrize(
    ("programs", "words"),
    [
        ((GOOD_0, (receive("v", "d0"), run("b"))), 'd0 waits for "w" from d1, which does not send'),
        ((GOOD_0[:1] + GOOD_0[2:], GOOD_1), 'd1 waits for "v" from d0, which does not send'),
        ((GOOD_0[:2] + GOOD_0[3:], GOOD_1), 'd1 sends "w" to d0, which does not receive'),
        (((receive("w", "d1"), *GOOD_0[:2], run("c")), GOOD_1), "deadlock"),
        (((GOOD_0[1], GOOD_0[0], *GOOD_0[2:]), GOOD_1), 'd0 sends "v" before it has it'),
        (((*GOOD_0[:2], run("c"), GOOD_0[2]), GOOD_1), 'd0 runs c before it has "w"'),
        ((GOOD_0[:3], GOOD_1), "part c is in no program"),
        (((*GOOD_0, run("c")), GOOD_1), "runs part c 2 times"),
        ((GOOD_0, (*GOOD_1, run("zzz"))), "runs the unknown part zzz"),
        (((*GOOD_0, run("b")), GOOD_1), "runs part b of d1"),
    ],
)
def test_a_program_that_cannot_run_is_named(
    programs: tuple[tuple[Step, ...], tuple[Step, ...]], words: str
) -> None:
    problems = plan_problems(two_devices(*programs))
    assert any(words in problem for problem in problems), problems


def test_a_deadlock_names_who_waits_for_what() -> None:
    stuck = two_devices(
        (receive("w", "d1"), run("a"), send("v", "d1"), run("c")),
        (receive("v", "d0"), run("b"), send("w", "d0")),
    )
    (problem,) = plan_problems(stuck)
    assert 'd0 waits for "w" from d1' in problem
    assert 'd1 waits for "v" from d0' in problem


def test_paths_that_leave_the_folder_are_refused() -> None:
    plan = two_devices(GOOD_0, GOOD_1)
    parts = (dataclasses.replace(plan.parts[0], file="../a.onnx"), *plan.parts[1:])
    (problem,) = plan_problems(dataclasses.replace(plan, parts=parts))
    assert "leads out of the plan folder" in problem


def test_an_output_that_nobody_makes_is_named() -> None:
    plan = dataclasses.replace(two_devices(GOOD_0, GOOD_1), outputs=(value("y"), value("z")))
    assert plan_problems(plan) == ['no part makes the output "z"']
