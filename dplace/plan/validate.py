"""What makes a plan runnable: names that exist, sends that meet receives, no deadlock."""

from collections import Counter
from pathlib import PurePosixPath

from dplace.plan.records import Plan

__all__ = ["plan_problems"]


def plan_problems(plan: Plan) -> list[str]:
    """Return one line for each fault of the plan's structure; the files are not looked at."""
    problems = _name_problems(plan)
    if not problems:
        problems = _transfer_problems(plan)
    if not problems:
        problems = _order_problems(plan)
    return problems


def _name_problems(plan: Plan) -> list[str]:
    problems: list[str] = []
    devices = [device.name for device in plan.devices]
    for name, count in Counter(devices).items():
        if count > 1:
            problems.append(f"device {name} is listed twice")
    parts = {part.name: part for part in plan.parts}
    if len(parts) != len(plan.parts):
        problems.append("two parts have one name")
    typed = {value.name for value in (*plan.values, *plan.inputs, *plan.overridable)}
    for part in plan.parts:
        if part.device not in devices:
            problems.append(f"part {part.name} names the unknown device {part.device}")
        for file in (part.file, part.weights_file):
            if file is not None and not _is_plain(file):
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


def _is_plain(file: str) -> bool:
    path = PurePosixPath(file)
    return not path.is_absolute() and ".." not in path.parts and "\\" not in file


def _transfer_problems(plan: Plan) -> list[str]:
    """Return the sends without a receive, and the reverse."""
    sends: Counter[tuple[str, str, str]] = Counter()
    receives: Counter[tuple[str, str, str]] = Counter()
    for device in plan.devices:
        for step in device.program:
            if step.action == "send":
                sends[step.subject, device.name, step.peer or ""] += 1
            elif step.action == "receive":
                receives[step.subject, step.peer or "", device.name] += 1
    problems: list[str] = []
    for value, source, target in sorted((sends - receives).keys()):
        problems.append(f'{source} sends "{value}" to {target}, which does not receive it')
    for value, source, target in sorted((receives - sends).keys()):
        problems.append(f'{target} waits for "{value}" from {source}, which does not send it')
    return problems


def _order_problems(plan: Plan) -> list[str]:
    """Step through all programs at once; what cannot go on is a deadlock or a missing value."""
    parts = {part.name: part for part in plan.parts}
    given = {value.name for value in plan.inputs}
    position = {device.name: 0 for device in plan.devices}
    held: dict[str, set[str]] = {device.name: set(given) for device in plan.devices}
    sent: set[tuple[str, str, str]] = set()
    waiting: dict[tuple[str, str, str], str] = {}
    programs = {device.name: device.program for device in plan.devices}
    active = list(programs)
    while active:
        name = active.pop()
        program = programs[name]
        while position[name] < len(program):
            step = program[position[name]]
            if step.action == "run":
                part = parts[step.subject]
                lacking = [value for value in part.inputs if value not in held[name]]
                if lacking:
                    return [f'{name} runs {part.name} before it has "{lacking[0]}"']
                held[name].update(part.outputs)
            elif step.action == "send":
                if step.subject not in held[name]:
                    return [f'{name} sends "{step.subject}" before it has it']
                key = (step.subject, name, step.peer or "")
                sent.add(key)
                if key in waiting:
                    active.append(waiting.pop(key))
            else:
                key = (step.subject, step.peer or "", name)
                if key not in sent:
                    waiting[key] = name
                    break
                held[name].add(step.subject)
            position[name] += 1
    stuck = [
        f'{name} waits for "{programs[name][at].subject}" from {programs[name][at].peer}'
        for name, at in position.items()
        if at < len(programs[name])
    ]
    return ["the programs deadlock: " + ", ".join(stuck)] if stuck else []
