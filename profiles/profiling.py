"""Make the profile of a model: measure its ops here, and gather them by signature."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from dplace.graph_io.build import PlaceableModel
from dplace.graph_io.observe import index_limits
from dplace.graph_io.optimise import OptimisedModel
from dplace.graph_io.summary import interface, value_sizes
from dplace.profiles.catalogue import DeviceKind
from dplace.profiles.machine import date_now, setting_here
from dplace.profiles.measure import Effort, OpTimes, measure_ops
from dplace.profiles.measured_graph import measured_graph
from dplace.profiles.probe import BUSY
from dplace.profiles.signature import OpSignature, op_signatures
from dplace.profiles.store import ModelProfile, OpTime
from dplace.runtime.devices import RunDevice, usable_cores
from dplace.runtime.inputs import InputCheck, draw_inputs
from dplace.runtime.values import Value

__all__ = ["local_device", "profile_model"]


def profile_model(
    placeable: PlaceableModel,
    optimised: OptimisedModel,
    *,
    kind: DeviceKind,
    dims: Mapping[str, int],
    folder: Path,
    inputs: Mapping[str, Value] | None = None,
    seed: int = 0,
    effort: Effort | None = None,
) -> tuple[ModelProfile, tuple[str, ...]]:
    """Return what the ops of a model take on a device of this machine, and warnings.

    Args:
        dims: A size for each dynamic dimension.
        folder: A folder for files of the moment.
        inputs: Values by name; those of other inputs are drawn from ``seed``.

    Raises:
        InputError: An input is unknown or of another type or shape.
        ModelError: The model does not run on the inputs.
    """
    graph = measured_graph(placeable, optimised, dims=dims, provider=kind.provider, folder=folder)
    records, _, overridable = interface(
        optimised.original, placeable.observed.types, value_sizes(placeable.graph)
    )
    given = dict(inputs or {})
    feeds = given | draw_inputs(
        [record for record in records if record.name not in given],
        rng=np.random.default_rng(seed),
        dims=dims,
        index_limits=index_limits(optimised.original.ir),
    )
    InputCheck(records, overridable).hold(feeds)
    times = measure_ops(
        graph,
        feeds,
        num_ops=placeable.graph.num_ops,
        device=local_device(kind),
        fixed_shapes=not dims,
        folder=folder,
        effort=effort,
    )
    made = ModelProfile(
        setting=setting_here(kind),
        date=date_now(),
        model=optimised.original.name,
        model_digest=optimised.original.digest,
        optimize=optimised.mode,
        opt_level=optimised.opt_level,
        dims=dict(dims),
        call_s=times.call_s,
        relative_error=times.relative_call_error,
        probe_s=times.probe_s,
        ops=_by_signature(op_signatures(placeable), times),
    )
    return made, (f"{made.model}: {BUSY}",) if times.was_disturbed else ()


def local_device(kind: DeviceKind) -> RunDevice:
    """Return a device of a kind, pinned to the last of the cores if it is a CPU.

    The first core is the one that most of the system's own work is done on.
    """
    return RunDevice(name=kind.name, provider=kind.provider, index=0, core=usable_cores()[-1])


def _by_signature(signatures: tuple[OpSignature, ...], times: OpTimes) -> tuple[OpTime, ...]:
    """Return the mean over the ops of each signature, so that the model's sum stays what it is."""
    members: dict[OpSignature, list[int]] = {}
    for op, signature in enumerate(signatures):
        if not np.isnan(times.seconds[op]):
            members.setdefault(signature, []).append(op)
    found: list[OpTime] = []
    for signature, ops in members.items():
        seconds = times.seconds[ops]
        mean_s = float(seconds.mean())
        # Of independent ops errors add as squares; what they share, the call's error, does not.
        own_s = float(np.sqrt(np.sum((times.relative_error[ops] * seconds) ** 2))) / len(ops)
        relative = own_s / mean_s if mean_s > 0 else 0.0
        found.append(
            OpTime(
                signature=signature.digest,
                op_type=signature.op_type,
                attributes=signature.attributes,
                inputs=signature.inputs,
                outputs=signature.outputs,
                seconds=mean_s,
                relative_error=float(np.hypot(relative, times.relative_call_error)),
                runs=times.runs * len(ops),
                ops=len(ops),
            )
        )
    return tuple(found)
