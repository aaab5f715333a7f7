import pytest

from dplace.errors import ClusterError
from dplace.profiles import device_kind, device_kinds, link_preset, link_presets
from dplace.profiles.catalogue import near_names


def test_every_kind_is_complete_and_possible() -> None:
    for kind in device_kinds():
        assert kind.memory_bytes > 10**9, kind.name
        assert kind.peak_flop_per_s["float32"] > 0, kind.name
        assert set(kind.peak_flop_per_s) <= {
            "float32",
            "float16",
            "bfloat16",
            "int8",
            "float64",
            "tf32",
        }, kind.name
        assert kind.bytes_per_s > 0, kind.name
        assert kind.launch_overhead_s >= kind.view_overhead_s >= 0, kind.name
        assert kind.source, kind.name
        for row in kind.efficiency.values():
            assert row.flop > 0, kind.name
            assert row.bytes > 0, kind.name
        assert link_preset(kind.link).name == kind.link
        assert link_preset(kind.host_link).name == kind.host_link


def test_every_preset_is_possible() -> None:
    for preset in link_presets():
        assert preset.latency_s > 0, preset.name
        assert preset.bytes_per_s > 0, preset.name
        assert preset.contention in ("link", "egress-ingress"), preset.name
        assert preset.source, preset.name


def test_no_name_stands_for_two_things() -> None:
    kinds = [name.lower() for kind in device_kinds() for name in (kind.name, *kind.aliases)]
    presets = [name.lower() for link in link_presets() for name in (link.name, *link.aliases)]
    assert len(kinds) == len(set(kinds))
    assert len(presets) == len(set(presets))


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("cpu", "CPU"),
        ("v100", "V100"),
        ("Tesla V100-SXM2-16GB", "V100"),
        ("Tesla V100-SXM2-32GB", "V100-32GB"),
        ("NVIDIA A100-SXM4-80GB", "A100-80GB"),
        ("A100", "A100-40GB"),
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA H200", "H200"),
        ("NVIDIA GeForce RTX 4090", "RTX4090"),
        ("rtx_3090", "RTX3090"),
    ],
)
def test_a_kind_is_found_by_the_names_it_goes_by(name: str, kind: str) -> None:
    assert device_kind(name).name == kind


def test_an_unknown_kind_lists_near_names() -> None:
    with pytest.raises(ClusterError, match="device kind 'V10O': unknown; did you mean V100"):
        device_kind("V10O")


def test_an_unknown_preset_lists_near_names() -> None:
    with pytest.raises(ClusterError, match="link preset 'infinband': unknown; did you mean infin"):
        link_preset("infinband")


def test_where_nothing_is_near_everything_is_listed() -> None:
    assert near_names("qqq", ["CPU", "V100"]) == "known are CPU, V100"


def test_the_newer_link_is_the_quicker_one() -> None:
    for family in (
        ("nvlink1", "nvlink2", "nvlink3", "nvlink4"),
        ("pcie3", "pcie4", "pcie5"),
        ("10gbe", "25gbe", "100gbe", "hdr", "ndr"),
    ):
        rates = [link_preset(name).bytes_per_s for name in family]
        assert rates == sorted(rates)
