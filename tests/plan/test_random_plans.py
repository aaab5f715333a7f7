"""Whatever is lowered becomes a plan that ends and takes the time that was predicted."""

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dplace.comm_order import schedule
from dplace.errors import MemoryLimitError
from dplace.lowering import Evaluator
from dplace.plan.records import Plan, Step
from dplace.plan.replay import replay_plan
from dplace.plan.validate import plan_problems
from dplace.schedule.orders import ORDERS
from tests.plan.random_plans import plan_of
from tests.random_problems import make_cluster, make_graph, make_problem, stream
from tests.simulator.test_ordered import WORLDS, World

Programs = list[list[Step]]


@settings(max_examples=80, deadline=None)
@given(world=WORLDS, name=st.sampled_from(ORDERS))
def test_every_plan_ends_and_takes_what_was_predicted(world: World, name: str) -> None:
    problem, placement, _ = world
    try:
        scheduled = schedule(Evaluator(problem), placement, name)
    except MemoryLimitError:
        assume(False)
    plan = plan_of(problem, scheduled.lowered, scheduled.timeline)
    assert plan_problems(plan) == []
    again = replay_plan(plan)
    assert again.makespan_s == plan.makespan_s
    assert again.bottleneck_s == plan.bottleneck_s
    assert [device.busy_s for device in again.devices] == scheduled.timeline.busy_s.tolist()


def streamed_plan(*, room: int = 6, home: int = 2) -> Plan:
    """Return a plan in which devices 0 and 1 read weights of 4 and 2 bytes, and 1 reads of 0."""
    graph = make_graph(
        [["x"], ["a"], ["a"], ["c"]],
        [["a"], ["b"], ["c"], ["d"]],
        weights=[["u"], ["v"], ["w"], ["z"]],
        weight_bytes={"u": 4, "v": 2, "w": 4, "z": 2},
        value_bytes={"a": 1},
    )
    cluster = make_cluster(3, overhead_s=1.0, bytes_per_s=1.0)
    problem = make_problem(graph, cluster, [1.0] * 4)
    homes = dict.fromkeys("uvwz", home)
    problem = stream(problem, homes, buffer_bytes=[room, room, 0])
    placement = np.array([0, 0, 1, 1], dtype=np.int32)
    scheduled = schedule(Evaluator(problem), placement, "tac")
    plan = plan_of(problem, scheduled.lowered, scheduled.timeline)
    assert plan_problems(plan) == []
    return plan


def edited(plan: Plan, change: Callable[[Programs], None]) -> Plan:
    """Return a plan with other programs."""
    programs = [list(device.program) for device in plan.devices]
    change(programs)
    devices = zip(plan.devices, programs, strict=True)
    return dataclasses.replace(
        plan,
        devices=tuple(dataclasses.replace(it, program=tuple(program)) for it, program in devices),
    )


def at(program: list[Step], action: str, subject: str) -> int:
    """Return the place of a step."""
    found = [i for i, it in enumerate(program) if (it.action, it.subject) == (action, subject)]
    return found[0]


def problem_of(plan: Plan) -> str:
    """Return the first fault of a plan."""
    problems = plan_problems(plan)
    assert problems
    return problems[0]


def test_weights_are_sent_first_and_received_before_what_reads_them() -> None:
    plan = streamed_plan()
    home = [(step.action, step.subject, step.peer) for step in plan.devices[2].program]
    assert sorted(home) == [
        ("send", "u", "test:0"),
        ("send", "v", "test:0"),
        ("send", "w", "test:1"),
        ("send", "z", "test:1"),
    ]
    order = [step.priority for step in plan.devices[2].program]
    assert order == sorted(order)
    words = [f"{it.action} {it.subject}" for it in plan.devices[0].program if it.action != "send"]
    assert words[:2] == ["receive u", "run test-0-000"]
    assert words[2:] in ([], ["receive v", "run test-0-001"])
    hosted = streamed_plan(home=-1)
    assert hosted.devices[2].program == ()
    received = [it.subject for it in hosted.devices[1].program if it.peer == "host"]
    assert received == ["w", "z"]


def test_priorities_that_differ_between_two_devices_are_refused() -> None:
    def change(programs: Programs) -> None:
        place = at(programs[0], "send", "a")
        programs[0][place] = dataclasses.replace(programs[0][place], priority=77)

    words = 'test:0 and test:1 disagree on the order: "a" has priority'
    assert problem_of(edited(streamed_plan(), change)).startswith(words)


def test_weights_received_in_another_order_than_sent_are_refused() -> None:
    def change(programs: Programs) -> None:
        first, last = at(programs[1], "receive", "w"), at(programs[1], "receive", "z")
        one, other = programs[1][first], programs[1][last]
        programs[1][first], programs[1][last] = other, one

    words = 'test:1 receives the weight "w" of priority'
    assert problem_of(edited(streamed_plan(), change)).startswith(words)


def test_a_circle_of_receives_is_refused() -> None:
    def change(programs: Programs) -> None:
        # Device 0 waits for d before it makes a, which device 1 needs to make d.
        programs[0].insert(0, Step(action="receive", subject="d", peer="test:1"))
        programs[1].append(Step(action="send", subject="d", peer="test:0"))

    words = problem_of(edited(streamed_plan(), change))
    assert words.startswith("the programs deadlock: ")
    assert 'test:0 waits for "d" from test:1' in words
    assert 'test:1 waits for "a" from test:0' in words


def test_a_circle_through_the_room_for_weights_is_refused() -> None:
    # v is read last and comes first: it takes the room that u needs.
    def change(programs: Programs) -> None:
        for program in (programs[0], programs[2]):
            for place, step in enumerate(program):
                if step.subject == "v" and step.action != "run":
                    program[place] = dataclasses.replace(step, priority=-1)
        place = at(programs[0], "receive", "v")
        programs[0].insert(0, programs[0].pop(place))

    assert plan_problems(edited(streamed_plan(room=6), change)) == []
    words = problem_of(edited(streamed_plan(room=5), change))
    assert words == (
        'the programs deadlock: test:0 waits for "u" from test:2, and "u" for room: 4 bytes where '
        '3 are free, test:1 waits for "a" from test:0'
    )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"home": "cpu:9"}, 'the home of the weight "u", cpu:9, is no device'),
        ({"file": "../u"}, "weight \"u\": the path '../u' leads out of the plan folder"),
        ({"home": "host"}, 'waits for the weight "u" from test:2, and its home is host'),
        ({"size_bytes": 7}, 'the weight "u" has 7 bytes, and the buffers of test:0 6'),
    ],
)
def test_a_streamed_weight_that_is_wrong_is_named(change: dict[str, object], words: str) -> None:
    plan = streamed_plan()
    first, *others = plan.streamed
    assert first.name == "u"
    wrong = dataclasses.replace(first, **change)  # type: ignore[arg-type]  # fields of its own
    problems = plan_problems(dataclasses.replace(plan, streamed=(wrong, *others)))
    assert any(words in problem for problem in problems), problems


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("w", 'the weight "w" is streamed twice'),
        ("a", 'the weight "a" is streamed, and made or fed as well'),
    ],
)
def test_a_weight_has_a_name_of_its_own(name: str, words: str) -> None:
    plan = streamed_plan()
    more = dataclasses.replace(plan.streamed[0], name=name)
    assert problem_of(dataclasses.replace(plan, streamed=(*plan.streamed, more))) == words


def test_a_weight_that_nobody_reads_or_that_does_not_come_is_named() -> None:
    plan = streamed_plan(home=-1)

    def leave_out(programs: Programs) -> None:
        programs[0].pop(at(programs[0], "receive", "v"))

    assert 'before it has "v"' in problem_of(edited(plan, leave_out))

    def add(programs: Programs) -> None:
        programs[0].append(Step(action="receive", subject="z", peer="host", priority=99))

    words = 'test:0 receives the weight "z", which no part there reads'
    assert problem_of(edited(plan, add)) == words

    def ask(programs: Programs) -> None:
        programs[0].insert(0, Step(action="receive", subject="b", peer="host"))

    words = 'test:0 waits for "b" from the host: it is no streamed weight'
    assert problem_of(edited(plan, ask)) == words
