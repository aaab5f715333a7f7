"""What hardware costs: the kinds of devices and links, and the roofline model.

The figures are YAML in profiles/data, each with its source; catalogue.py reads them. Start with
cluster_spec.py, which turns "4xV100" or a YAML file into a Cluster; roofline.py gives the op
times that nobody has measured.
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
