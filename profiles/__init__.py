"""What hardware costs: kinds of devices and links, the roofline model, and measured times.

The figures are YAML in profiles/data, each with its source; catalogue.py reads them. Start with
cluster_spec.py, which turns "4xV100" or a YAML file into a Cluster; costs.py takes op times from
stored measurements (store.py), else from roofline.py. profiling.py measures a model, links.py
what calls and hand-overs cost.
"""

from dplace.profiles.catalogue import (
    DeviceKind,
    LinkPreset,
    device_kind,
    device_kinds,
    link_preset,
    link_presets,
)
from dplace.profiles.cluster_spec import read_cluster
from dplace.profiles.roofline import modelled_seconds

__all__ = [
    "DeviceKind",
    "LinkPreset",
    "device_kind",
    "device_kinds",
    "link_preset",
    "link_presets",
    "modelled_seconds",
    "read_cluster",
]
