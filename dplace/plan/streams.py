"""What makes the streamed weights of a plan right: homes, files, the order in which they come."""

from collections import Counter
from pathlib import PurePosixPath

from dplace.plan.records import HOST, Plan, PlannedDevice, Step, StreamedWeight

__all__ = ["is_plain", "stream_problems"]


def stream_problems(plan: Plan) -> list[str]:
    """Return one line for each fault of the streamed weights; whether they find room is not asked.

    That the parts have what they read when they run is for ``stepping.py``.
    """
    devices = {device.name for device in plan.devices}
    made = {name for part in plan.parts for name in part.outputs}
    fed = {value.name for value in (*plan.inputs, *plan.overridable)}
    problems: list[str] = []
    for name, count in Counter(weight.name for weight in plan.streamed).items():
        if count > 1:
            problems.append(f'the weight "{name}" is streamed twice')
    for weight in plan.streamed:
        if weight.home != HOST and weight.home not in devices:
            problems.append(f'the home of the weight "{weight.name}", {weight.home}, is no device')
        if not is_plain(weight.file):
            problems.append(
                f'weight "{weight.name}": the path {weight.file!r} leads out of the plan folder'
            )
        if weight.name in made or weight.name in fed:
            problems.append(f'the weight "{weight.name}" is streamed, and made or fed as well')
        if weight.size_bytes < 0 or weight.offset < 0:
            problems.append(f'the weight "{weight.name}" has a negative size or offset')
    weights = {weight.name: weight for weight in plan.streamed}
    place = {name: index for index, name in enumerate(weights)}
    for device in plan.devices:
        problems.extend(_receive_problems(device, weights, place))
        read = {name for part in plan.parts if part.device == device.name for name in part.inputs}
        problems.extend(
            f'{device.name} receives the weight "{step.subject}", which no part there reads'
            for step in device.program
            if step.action == "receive" and step.subject in weights and step.subject not in read
        )
    return problems


def _receive_problems(
    device: PlannedDevice, weights: dict[str, StreamedWeight], place: dict[str, int]
) -> list[str]:
    """Return what is wrong with the steps of one device that send or receive weights."""
    problems: list[str] = []
    before: Step | None = None
    seen: set[str] = set()
    for step in device.program:
        if step.action == "receive" and step.peer == HOST and step.subject not in weights:
            problems.append(
                f'{device.name} waits for "{step.subject}" from the host: it is no streamed weight'
            )
        if step.action == "run" or step.subject not in weights:
            continue
        weight = weights[step.subject]
        if step.action == "send":
            if weight.home != device.name:
                problems.append(
                    f'{device.name} sends the weight "{weight.name}", whose home is {weight.home}'
                )
            continue
        if step.peer != weight.home:
            problems.append(
                f'{device.name} waits for the weight "{weight.name}" from {step.peer}, and its '
                f"home is {weight.home}"
            )
        if weight.name in seen:
            problems.append(f'{device.name} receives the weight "{weight.name}" twice')
        seen.add(weight.name)
        if weight.size_bytes > device.buffer_bytes:
            problems.append(
                f'the weight "{weight.name}" has {weight.size_bytes} bytes, and the buffers of '
                f"{device.name} {device.buffer_bytes}; place the model again"
            )
        key = (step.priority, place[weight.name])
        if before is not None and key < (before.priority, place[before.subject]):
            problems.append(
                f'{device.name} receives the weight "{weight.name}" of priority {step.priority} '
                f'after "{before.subject}" of priority {before.priority}: weights come in the '
                "order of their priorities; place the model again"
            )
        before = step
    return problems


def is_plain(file: str) -> bool:
    """Return whether a path stays in its folder on any system."""
    path = PurePosixPath(file)
    return not path.is_absolute() and ".." not in path.parts and "\\" not in file
