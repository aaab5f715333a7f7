"""What a problem's ops and transfers cost: measured where a stored measurement fits, else modelled.

A measurement fits an op of the same signature on the same kind of device. Files that the user
names go first, then those in his data folder; among either, those of the same model before others,
of the same sizes before others, and then in the order named, or the newer ones before the older.
The first that has an op's signature gives its time.

The speed of a core changes with what else its machine does, so measurements of CPUs are brought to
one speed: that of the first profile that gives a time, by what the speed probe took beside each.
"""

import dataclasses
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dplace.cluster import Cluster
from dplace.errors import InputError
from dplace.graph_io.build import PlaceableModel
from dplace.graph_io.optimise import OptimisedModel
from dplace.profiles.calls import costs_at
from dplace.profiles.catalogue import device_kind
from dplace.profiles.machine import is_here, setting_here
from dplace.profiles.roofline import modelled_seconds
from dplace.profiles.signature import op_signatures
from dplace.profiles.store import (
    CallCosts,
    LinkCosts,
    ModelProfile,
    ProfileFile,
    Setting,
    read_profile,
    stored_profiles,
)

__all__ = ["Costs", "known_costs"]

_PLAIN_CPUS = re.compile(r"(\d+x)?[^@,+]*", re.IGNORECASE)
"""A cluster whose links nobody has described."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Costs:
    """Times of ops, and the cluster with the best figures that are known for it."""

    seconds: NDArray[np.float64]
    """Shape ``(num_ops, num_devices)``."""
    measured: NDArray[np.bool_]
    """Shape ``(num_ops, num_devices)``: which of the times were measured."""
    cluster: Cluster
    share: float
    """Fraction of the time on one device, the mean of all, that is measured."""
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Source:
    """One file of measurements."""

    path: Path
    content: ProfileFile
    is_given: bool
    """Whether the user named it; others lie in his data folder."""


def known_costs(
    placeable: PlaceableModel,
    optimised: OptimisedModel,
    cluster: Cluster,
    *,
    files: Sequence[Path] = (),
    dims: dict[str, int] | None = None,
) -> Costs:
    """Return the costs of a model on a cluster.

    Args:
        files: Profiles to look at before those in the user's data folder.
        dims: Sizes of dynamic dimensions; a profile made with the same goes first.

    Raises:
        InputError: One of ``files`` is no profile.
    """
    seconds = modelled_seconds(placeable.graph, cluster)
    measured = np.zeros(seconds.shape, dtype=bool)
    kinds = dict.fromkeys(device.kind for device in cluster.devices)
    sources, warnings = _sources(files, kinds)
    if sources:
        digests = [signature.digest for signature in op_signatures(placeable)]
        for kind in kinds:
            columns = [i for i, device in enumerate(cluster.devices) if device.kind == kind]
            times, probe_s, notes = _kind_times(
                kind, digests, seconds[:, columns[0]], sources, optimised, dims or {}
            )
            warnings += notes
            known = ~np.isnan(times)
            for column in columns:
                seconds[known, column] = times[known]
                measured[known, column] = True
        # Links are measured between CPUs only: then there is but one kind.
        cluster = _with_links(cluster, sources, placeable, probe_s)
    totals = seconds.sum(axis=0)
    shares = np.where(measured, seconds, 0.0).sum(axis=0) / np.where(totals > 0, totals, 1.0)
    return Costs(
        seconds=seconds,
        measured=measured,
        cluster=cluster,
        share=float(shares.mean()),
        warnings=tuple(warnings),
    )


def _sources(files: Sequence[Path], kinds: dict[str, None]) -> tuple[list[_Source], list[str]]:
    """Return the files to look at, the first first, and what is wrong with those not named."""
    sources = [_Source(path=path, content=read_profile(path), is_given=True) for path in files]
    warnings: list[str] = []
    for path in stored_profiles(kinds):
        try:
            sources.append(_Source(path=path, content=read_profile(path), is_given=False))
        except InputError as error:
            warnings.append(f"a stored profile is left out: {error}")
    return sources, warnings


def _kind_times(
    kind: str,
    digests: list[str],
    modelled: NDArray[np.float64],
    sources: list[_Source],
    optimised: OptimisedModel,
    dims: dict[str, int],
) -> tuple[NDArray[np.float64], float | None, list[str]]:
    """Return the measured times of the ops on one kind of device, NaN where there is none.

    Second what the speed probe took beside them, None if there are none, and third warnings.
    """
    times = np.full(len(digests), np.nan)
    warnings: list[str] = []
    probe_s: float | None = None
    here = _local_setting(kind)
    foreign: dict[str, float] = {}
    for source in sources:
        profiles = [one for one in source.content.models if one.setting.device == kind]
        if source.is_given and source.content.models:
            covered = _covered(profiles, digests, modelled, optimised)
            if note := _fault(source, profiles, kind, here, optimised, covered):
                warnings.append(note)
    candidates = [
        (source, profile)
        for source in sources
        for profile in source.content.models
        if profile.setting.device == kind and _is_alike(profile, optimised)
    ]
    candidates.sort(key=lambda pair: _rank(*pair, optimised=optimised, dims=dims))
    for source, profile in candidates:
        if not source.is_given and here is not None and profile.setting != here:
            differences = "; ".join(profile.setting.differences(here))
            share = _covered([profile], digests, modelled, optimised)
            foreign[differences] = max(share, foreign.get(differences, 0.0))
            continue
        by_signature = {op.signature: op.seconds for op in profile.ops}
        for op, digest in enumerate(digests):
            if np.isnan(times[op]) and digest in by_signature:
                probe_s = probe_s or profile.probe_s
                speed = probe_s / profile.probe_s if kind == "CPU" else 1.0
                times[op] = by_signature[digest] * speed
    for differences, share in foreign.items():
        if share > 0:
            warnings.append(
                f"stored profiles of other conditions are left out ({differences}): they match "
                f"{share * 100:.0f} % of the predicted time; measure again with dplace profile"
            )
    return times, probe_s, warnings


def _local_setting(kind: str) -> Setting | None:
    """Return what a profile must have been made with to be of this machine.

    None where devices of the kind are elsewhere, so that any profile of them is.
    """
    found = device_kind(kind)
    return setting_here(found) if is_here(found) else None


def _is_alike(profile: ModelProfile, optimised: OptimisedModel) -> bool:
    """Return whether a profile's ops are run as this model's are.

    The ops of a ``native`` graph run as they are. Others are optimised where they run, so a
    signature says what runs only together with the level.
    """
    if "native" in (profile.optimize, optimised.mode):
        return profile.optimize == optimised.mode
    return profile.opt_level == optimised.opt_level


def _rank(
    source: _Source, profile: ModelProfile, *, optimised: OptimisedModel, dims: dict[str, int]
) -> tuple[bool, bool, bool]:
    return (
        not source.is_given,
        profile.model_digest != optimised.original.digest,
        dict(profile.dims) != dims,
    )


def _covered(
    profiles: Sequence[ModelProfile],
    digests: list[str],
    modelled: NDArray[np.float64],
    optimised: OptimisedModel,
) -> float:
    """Return the fraction of the modelled time whose ops the profiles have."""
    known = {op.signature for one in profiles if _is_alike(one, optimised) for op in one.ops}
    total = float(modelled.sum())
    found = sum(
        time for digest, time in zip(digests, modelled.tolist(), strict=True) if digest in known
    )
    return found / total if total > 0 else 0.0


def _fault(
    source: _Source,
    profiles: Sequence[ModelProfile],
    kind: str,
    here: Setting | None,
    optimised: OptimisedModel,
    covered: float,
) -> str | None:
    """Return why a file that the user named fits less than fully, if so."""
    share = f"matches {covered * 100:.0f} % of the predicted time on {kind}"
    if not profiles:
        kinds = sorted({one.setting.device for one in source.content.models})
        return f"profile {source.path}: is of {', '.join(kinds)}, so it {share}"
    reasons: list[str] = []
    if here is not None:
        reasons += profiles[0].setting.differences(here)
    if covered < 0.995:
        if all(one.model_digest != optimised.original.digest for one in profiles):
            names = list(dict.fromkeys(one.model for one in profiles))
            reasons.append(f"it is of the model {', '.join(names[:3])}")
        if not any(_is_alike(one, optimised) for one in profiles):
            first = profiles[0]
            reasons.append(
                f"it was made with --optimize {first.optimize} --opt-level {first.opt_level}, "
                f"and this is {optimised.mode}, {optimised.opt_level}"
            )
        elif not reasons:
            reasons.append("it was made for other sizes or another optimization level")
    return f"profile {source.path}: {share}: {'; '.join(reasons)}" if reasons else None


def _with_links(
    cluster: Cluster, sources: list[_Source], placeable: PlaceableModel, probe_s: float | None
) -> Cluster:
    """Return the cluster with measured costs of calls and hand-overs, if it is plain CPUs.

    Args:
        probe_s: What the speed probe took beside the ops' times; None if none are measured.
    """
    kinds = {device.kind for device in cluster.devices}
    # A link that the user has described himself is not replaced.
    is_file = cluster.spec.endswith((".yaml", ".yml"))
    if kinds != {"CPU"} or is_file or not _PLAIN_CPUS.fullmatch(cluster.spec):
        return cluster
    here = setting_here(device_kind("CPU"))

    def first(fits: Callable[[LinkCosts], bool]) -> LinkCosts | None:
        for source in sources:
            for links in source.content.links:
                if fits(links) and (source.is_given or links.setting == here):
                    return links
        return None

    within = first(lambda links: links.between == "devices")
    if within is not None and probe_s is not None:
        within = _at_speed(within, probe_s)
    between = first(lambda links: links.between == "hosts")
    latency_s, bytes_per_s = cluster.latency_s.copy(), cluster.bytes_per_s.copy()
    for links, is_network in ((within, False), (between, True)):
        if links is None:
            continue
        for row, source in enumerate(cluster.devices):
            for column, target in enumerate(cluster.devices):
                if row != column and (source.host != target.host) == is_network:
                    latency_s[row, column] = links.latency_s
                    bytes_per_s[row, column] = links.bytes_per_s
    cluster = dataclasses.replace(cluster, latency_s=latency_s, bytes_per_s=bytes_per_s)
    return _with_calls(cluster, within.calls, placeable) if within and within.calls else cluster


def _at_speed(links: LinkCosts, probe_s: float) -> LinkCosts:
    """Return the costs as they are while the speed probe takes ``probe_s``."""
    factor = probe_s / links.probe_s
    return dataclasses.replace(
        links,
        calls=tuple(
            CallCosts(
                working_set_bytes=costs.working_set_bytes,
                call_overhead_s=costs.call_overhead_s * factor,
                single_call_overhead_s=costs.single_call_overhead_s * factor,
                request_s=costs.request_s * factor,
            )
            for costs in links.calls
        ),
        latency_s=links.latency_s * factor,
        bytes_per_s=links.bytes_per_s / factor,
        probe_s=probe_s,
    )


def _with_calls(
    cluster: Cluster, calls: tuple[CallCosts, ...], placeable: PlaceableModel
) -> Cluster:
    """Return the cluster with measured costs of calls and requests."""
    graph = placeable.graph
    # Each device has its share of the model, more or less: the placement is still to be found.
    total_bytes = int(graph.weight_bytes.sum()) + int(graph.value_bytes.sum())
    costs = costs_at(calls, total_bytes / cluster.num_devices)
    single_s = costs_at(calls, total_bytes).single_call_overhead_s
    host_latency_s = cluster.host_latency_s
    if len({device.host for device in cluster.devices}) == 1:
        # One hand-over brings all inputs, and one returns all outputs; the simulator copies
        # value by value, so each is given its part of it.
        values = max(1, len(graph.graph_inputs), len(graph.graph_outputs))
        host_latency_s = np.full(cluster.num_devices, costs.request_s / 2 / values)
    return dataclasses.replace(
        cluster,
        devices=tuple(
            dataclasses.replace(
                device, call_overhead_s=costs.call_overhead_s, single_call_overhead_s=single_s
            )
            for device in cluster.devices
        ),
        host_latency_s=host_latency_s,
    )
