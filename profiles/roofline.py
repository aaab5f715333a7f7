"""Op times by the roofline model, for what nobody has measured."""

import numpy as np
from numpy.typing import NDArray

from dplace.cluster import Cluster
from dplace.op_graph import OpGraph
from dplace.profiles.catalogue import DeviceKind, device_kind

__all__ = ["modelled_seconds"]

MATRIX_CLASSES = frozenset({"conv", "matmul", "gemv", "attention", "recurrent"})
"""Kernel classes that run on matrix units, and so read float32 as tf32 where a GPU can."""


def modelled_seconds(graph: OpGraph, cluster: Cluster) -> NDArray[np.float64]:
    """Return the modelled time of every op on every device, in seconds.

    The roofline model (Williams, Waterman and Patterson, Communications of the ACM 52(4), 2009):
    a kernel is bound either by arithmetic or by memory, so it takes the longer of
    ``flop / (peak * efficiency)`` and ``bytes / (bandwidth * efficiency)``. Each kernel launched
    adds the device's launch overhead; a node that launches none (class ``free``) costs what it
    takes to step over it.

    Returns:
        Shape ``(num_ops, num_devices)``.
    """
    seconds = np.empty((graph.num_ops, cluster.num_devices))
    class_names, classes = _codes(graph.op_classes)
    dtype_names, dtypes = _codes(graph.op_dtypes)
    by_kind: dict[str, NDArray[np.float64]] = {}
    for column, device in enumerate(cluster.devices):
        if device.kind not in by_kind:
            kind = device_kind(device.kind)
            by_kind[device.kind] = _kind_seconds(
                graph, kind, class_names, classes, dtype_names, dtypes
            )
        seconds[:, column] = by_kind[device.kind]
    return seconds


def _kind_seconds(
    graph: OpGraph,
    kind: DeviceKind,
    class_names: list[str],
    classes: NDArray[np.intp],
    dtype_names: list[str],
    dtypes: NDArray[np.intp],
) -> NDArray[np.float64]:
    """Return the time of every op on one kind of device; shape ``(num_ops,)``."""
    rows = [kind.efficiency.get(name, kind.efficiency["other"]) for name in class_names]
    peaks = np.array(
        [[_peak(kind, kernel, dtype) for dtype in dtype_names] for kernel in class_names]
    ).reshape(len(class_names), len(dtype_names))
    flop_per_s = peaks * np.array([row.flop for row in rows])[:, None]  # (classes, dtypes)
    of_bandwidth = np.array([row.bytes for row in rows])  # (classes,)
    overheads = np.array(
        [kind.view_overhead_s if name == "free" else kind.launch_overhead_s for name in class_names]
    )

    is_cached = graph.op_bytes <= kind.cache_bytes
    bytes_per_s = np.where(is_cached, kind.cache_bytes_per_s, kind.bytes_per_s)
    if kind.cache_bytes == 0:
        bytes_per_s = np.full(graph.num_ops, kind.bytes_per_s)
    if graph.num_ops == 0:
        return np.zeros(0)
    compute_s = graph.op_flop / flop_per_s[classes, dtypes]
    memory_s = graph.op_bytes / (bytes_per_s * of_bandwidth[classes])
    seconds: NDArray[np.float64] = (
        np.maximum(compute_s, memory_s) + graph.op_launches * overheads[classes]
    )
    return seconds


def _peak(kind: DeviceKind, kernel_class: str, dtype: str) -> float:
    """Return the peak rate at which a class of kernels computes in a dtype."""
    peaks = kind.peak_flop_per_s
    if dtype == "float32" and kernel_class in MATRIX_CLASSES and "tf32" in peaks:
        return peaks["tf32"]
    return peaks.get(dtype, peaks["float32"])


def _codes(names: tuple[str, ...]) -> tuple[list[str], NDArray[np.intp]]:
    """Return the distinct names, and for each name its place among them."""
    codes: dict[str, int] = {}
    numbers = [codes.setdefault(name, len(codes)) for name in names]
    return list(codes), np.array(numbers, dtype=np.intp)
