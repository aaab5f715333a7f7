"""Measurements made by hand."""

import dataclasses
from typing import Any

from dplace.profiles import device_kind
from dplace.profiles.machine import setting_here
from dplace.profiles.store import CallCosts, LinkCosts, ModelProfile, OpTime

__all__ = ["links", "model_profile", "op_time"]


def op_time(**changes: Any) -> OpTime:
    """Return the time of an op: 1 ms."""
    made = OpTime(
        signature="0123456789abcdef",
        op_type="Relu",
        attributes="",
        inputs=("float[4]",),
        outputs=("float[4]",),
        seconds=0.001,
        relative_error=0.01,
        runs=24,
        ops=1,
    )
    return dataclasses.replace(made, **changes)


def model_profile(*ops: OpTime, **changes: Any) -> ModelProfile:
    """Return a profile of a model on this machine's CPU."""
    made = ModelProfile(
        setting=setting_here(device_kind("CPU")),
        date="2026-05-01T12:00:00Z",
        model="small.onnx",
        model_digest="sha256:00ff",
        optimize="native",
        opt_level="all",
        dims={},
        call_s=0.001,
        relative_error=0.01,
        probe_s=4e-5,
        ops=ops,
    )
    return dataclasses.replace(made, **changes)


def links(**changes: Any) -> LinkCosts:
    """Return costs of this machine's hand-overs, round numbers."""
    made = LinkCosts(
        setting=setting_here(device_kind("CPU")),
        date="2026-05-01T12:00:00Z",
        calls=(
            CallCosts(
                working_set_bytes=10**6,
                call_overhead_s=1e-4,
                single_call_overhead_s=2e-4,
                request_s=4e-4,
            ),
        ),
        latency_s=3e-4,
        bytes_per_s=1e9,
        relative_error=0.1,
        sizes_bytes=(1000, 2000),
        between="devices",
        probe_s=4e-5,
    )
    return dataclasses.replace(made, **changes)
