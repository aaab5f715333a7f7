"""The proof that a plan ends: all programs are stepped through at once.

Each device does the steps of its program one after another, and a receive waits until the value
has been sent. Streamed weights come to a device one after another in the order of its receives,
ahead of them as far as there is room, and leave when the last part there that reads them has run.
Every step that can be done now can still be done after any other: so in whichever order steps are
done, the same ones are left at the end, and if none are left, none are in any real run.
"""

from collections import deque

from dplace.plan.records import HOST, Plan, PlannedDevice, StreamedWeight

__all__ = ["stepping_problems"]

Crossing = tuple[str, str, str]


def stepping_problems(plan: Plan) -> list[str]:
    """Return a line on what cannot go on: a deadlock, or a value that is missing."""
    return _Stepper(plan).run()


class _Buffer:
    """The room for streamed weights on one device, and what has still to come there."""

    def __init__(self, device: PlannedDevice, plan: Plan) -> None:
        weights = {weight.name: weight for weight in plan.streamed}
        self.room = device.buffer_bytes
        self.coming: deque[StreamedWeight] = deque(
            weights[step.subject]
            for step in device.program
            if step.action == "receive" and step.subject in weights
        )
        self.readers = {
            weight.name: sum(
                part.device == device.name and weight.name in part.inputs for part in plan.parts
            )
            for weight in self.coming
        }
        self.there: dict[str, StreamedWeight] = {}

    def use(self, names: tuple[str, ...]) -> None:
        """Note that a part that reads some values has run."""
        for name in names:
            if name in self.readers:
                self.readers[name] -= 1
                if self.readers[name] == 0 and name in self.there:
                    self.room += self.there[name].size_bytes


class _Stepper:
    """How far each device has come."""

    def __init__(self, plan: Plan) -> None:
        self._parts = {part.name: part for part in plan.parts}
        self._programs = {device.name: device.program for device in plan.devices}
        self._position = dict.fromkeys(self._programs, 0)
        given = {value.name for value in plan.inputs}
        self._held = {name: set(given) for name in self._programs}
        self._buffers = {device.name: _Buffer(device, plan) for device in plan.devices}
        self._sent: set[Crossing] = set()
        self._weights = {weight.name for weight in plan.streamed}
        for weight in plan.streamed:
            if weight.home != HOST:
                self._held[weight.home].add(weight.name)

    def run(self) -> list[str]:
        """Do all steps that can be done and return a line on what is left."""
        active = deque(self._programs)
        while active:
            name = active.popleft()
            program = self._programs[name]
            while self._position[name] < len(program):
                step = program[self._position[name]]
                if step.action == "run":
                    part = self._parts[step.subject]
                    lacking = [value for value in part.inputs if value not in self._held[name]]
                    if lacking:
                        return [f'{name} runs {part.name} before it has "{lacking[0]}"']
                    self._held[name].update(part.outputs)
                    self._buffers[name].use(part.inputs)
                elif step.action == "send":
                    if step.subject not in self._held[name]:
                        return [f'{name} sends "{step.subject}" before it has it']
                    self._sent.add((step.subject, name, step.peer or ""))
                    if step.peer in self._programs:
                        active.append(step.peer)
                elif not self._has_come(name, step.subject, step.peer or ""):
                    break
                else:
                    self._held[name].add(step.subject)
                self._position[name] += 1
        stuck = [self._wait(name) for name in self._programs if not self._is_done(name)]
        return ["the programs deadlock: " + ", ".join(stuck)] if stuck else []

    def _has_come(self, name: str, value: str, source: str) -> bool:
        """Return whether a value is there; weights come as far as there is room."""
        if value not in self._weights:
            return (value, source, name) in self._sent
        buffer = self._buffers[name]
        while buffer.coming:
            weight = buffer.coming[0]
            is_sent = weight.home == HOST or (weight.name, weight.home, name) in self._sent
            if not is_sent or weight.size_bytes > buffer.room:
                break
            buffer.room -= weight.size_bytes
            buffer.there[weight.name] = buffer.coming.popleft()
        return value in buffer.there

    def _is_done(self, name: str) -> bool:
        return self._position[name] == len(self._programs[name])

    def _wait(self, name: str) -> str:
        """Return what a device waits for that cannot go on."""
        step = self._programs[name][self._position[name]]
        words = f'{name} waits for "{step.subject}" from {step.peer}'
        buffer = self._buffers[name]
        if step.subject in self._weights and buffer.coming:
            weight = buffer.coming[0]
            if weight.size_bytes > buffer.room:
                words += (
                    f', and "{weight.name}" for room: {weight.size_bytes} bytes where '
                    f"{buffer.room} are free"
                )
        return words
