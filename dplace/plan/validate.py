"""What makes a plan runnable: names that exist, sends that meet receives, no deadlock."""

from collections import Counter

from dplace.plan.records import HOST, Plan
from dplace.plan.stepping import stepping_problems
from dplace.plan.streams import is_plain, stream_problems

__all__ = ["plan_problems"]

Crossing = tuple[str, str, str]
"""A value, the device that sends it, and the one that receives it."""


def plan_problems(plan: Plan) -> list[str]:
    """Return one line for each fault of the plan's structure; the files are not looked at."""
    problems = _name_problems(plan)
    for check in (_transfer_problems, stream_problems, stepping_problems):
        if not problems:
            problems = check(plan)
    return problems


def _name_problems(plan: Plan) -> list[str]:
    problems: list[str] = []
    devices = [device.name for device in plan.devices]
    for name, count in Counter(devices).items():
        if count > 1:
            problems.append(f"device {name} is listed twice")
        if name == HOST:
            problems.append(f"a device is called {HOST}, which stands for host memory")
    parts = {part.name: part for part in plan.parts}
    if len(parts) != len(plan.parts):
        problems.append("two parts have one name")
    typed = {value.name for value in (*plan.values, *plan.inputs, *plan.overridable)}
    typed.update(weight.name for weight in plan.streamed)
    for part in plan.parts:
        if part.device not in devices:
            problems.append(f"part {part.name} names the unknown device {part.device}")
        for file in (part.file, part.weights_file):
            if file is not None and not is_plain(file):
                problems.append(f"part {part.name}: the path {file!r} leads out of the plan folder")
        problems.extend(
            f'part {part.name} reads "{name}", whose type the plan does not give'
            for name in part.inputs
            if name not in typed
        )
    runs = Counter(
        (step.subject, device.name)
        for device in plan.devices
        for step in device.program
        if step.action == "run"
    )
    for (name, device), count in runs.items():
        if name not in parts:
            problems.append(f"the program of {device} runs the unknown part {name}")
        elif parts[name].device != device:
            problems.append(f"the program of {device} runs part {name} of {parts[name].device}")
        elif count > 1:
            problems.append(f"the program of {device} runs part {name} {count} times")
    problems.extend(
        f"part {name} is in no program" for name in parts if (name, parts[name].device) not in runs
    )
    made = Counter(name for part in plan.parts for name in part.outputs)
    problems.extend(f'value "{name}" is made by {n} parts' for name, n in made.items() if n > 1)
    given = {value.name for value in plan.inputs} | {name for name, _ in plan.passthrough}
    problems.extend(
        f'no part makes the output "{value.name}"'
        for value in plan.outputs
        if value.name not in made and value.name not in given
    )
    return problems


def _transfer_problems(plan: Plan) -> list[str]:
    """Return the sends without a receive, the reverse, and those with two priorities."""
    sends: Counter[Crossing] = Counter()
    receives: Counter[Crossing] = Counter()
    priority: dict[Crossing, int] = {}
    agreed: list[str] = []
    for device in plan.devices:
        for step in device.program:
            peer = step.peer or ""
            if step.action == "send":
                crossing = (step.subject, device.name, peer)
                sends[crossing] += 1
            elif step.action == "receive" and peer != HOST:
                crossing = (step.subject, peer, device.name)
                receives[crossing] += 1
            else:
                continue
            if priority.setdefault(crossing, step.priority) != step.priority:
                value, source, target = crossing
                ends = sorted((priority[crossing], step.priority))
                agreed.append(
                    f'{source} and {target} disagree on the order: "{value}" has priority '
                    f"{ends[0]} on one side and {ends[1]} on the other; place the model again"
                )
    problems: list[str] = []
    for value, source, target in sorted((sends - receives).keys()):
        problems.append(f'{source} sends "{value}" to {target}, which does not receive it')
    for value, source, target in sorted((receives - sends).keys()):
        problems.append(f'{target} waits for "{value}" from {source}, which does not send it')
    return problems or agreed
