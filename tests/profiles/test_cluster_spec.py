import re
from pathlib import Path

import numpy as np
import pytest

from dplace.cluster import Cluster
from dplace.errors import ClusterError
from dplace.profiles import device_kind, link_preset, read_cluster
from dplace.profiles.cluster_spec import parse_memory


def rate(cluster: Cluster, source: str, target: str) -> float:
    """Return the bandwidth from one device to another."""
    row, column = cluster.device_index(source), cluster.device_index(target)
    return float(cluster.bytes_per_s[row, column])


def preset_rate(name: str) -> float:
    return link_preset(name).bytes_per_s


def write(folder: Path, text: str) -> str:
    path = folder / "lab.yaml"
    path.write_text(text)
    return str(path)


def test_a_count_and_a_kind() -> None:
    cluster = read_cluster("4xV100")
    assert [device.name for device in cluster.devices] == ["gpu:0", "gpu:1", "gpu:2", "gpu:3"]
    device = cluster.devices[3]
    assert (device.kind, device.provider, device.index, device.host) == (
        "V100",
        "CUDAExecutionProvider",
        3,
        0,
    )
    assert device.memory_bytes == 16 * 10**9
    assert device.call_overhead_s == device_kind("V100").call_overhead_s
    assert rate(cluster, "gpu:0", "gpu:3") == preset_rate("nvlink2")
    assert cluster.latency_s.diagonal().tolist() == [0.0] * 4
    assert np.isinf(cluster.bytes_per_s.diagonal()).all()
    assert cluster.spec == "4xV100"


def test_without_a_count_there_is_one() -> None:
    assert read_cluster("v100").num_devices == 1


def test_groups_of_two_classes_count_apart_and_meet_over_pcie() -> None:
    cluster = read_cluster("2xA100-80GB+1xCPU")
    assert [(d.name, d.kind, d.index) for d in cluster.devices] == [
        ("gpu:0", "A100-80GB", 0),
        ("gpu:1", "A100-80GB", 1),
        ("cpu:0", "CPU", 0),
    ]
    assert rate(cluster, "gpu:0", "gpu:1") == preset_rate("nvlink3")
    assert rate(cluster, "gpu:0", "cpu:0") == preset_rate("pcie4")
    assert rate(cluster, "cpu:0", "gpu:1") == preset_rate("pcie4")


def test_what_the_caller_hands_over_crosses_pcie_to_a_gpu_and_nothing_to_a_cpu() -> None:
    cluster = read_cluster("1xV100+1xCPU")
    assert cluster.host_bytes_per_s.tolist() == [preset_rate("pcie3"), np.inf]
    assert cluster.host_latency_s.tolist() == [link_preset("pcie3").latency_s, 0.0]


def test_what_the_caller_hands_over_crosses_the_network_to_other_hosts() -> None:
    cluster = read_cluster("2x1xCPU@host,25gbe")
    assert cluster.host_latency_s.tolist() == [0.0, cluster.latency_s[0, 1]]
    assert cluster.host_bytes_per_s.tolist() == [np.inf, preset_rate("25gbe")]
    gpus = read_cluster("2x1xV100@nvlink,25gbe")
    assert gpus.host_latency_s[1] == gpus.host_latency_s[0] + gpus.latency_s[0, 1]
    assert 1 / gpus.host_bytes_per_s[1] == pytest.approx(
        1 / gpus.host_bytes_per_s[0] + 1 / preset_rate("25gbe")
    )


def test_two_hosts_of_four() -> None:
    cluster = read_cluster("2x4xV100@nvlink,100gbe")
    assert [device.host for device in cluster.devices] == [0] * 4 + [1] * 4
    assert [device.index for device in cluster.devices] == [0, 1, 2, 3] * 2
    assert rate(cluster, "gpu:4", "gpu:7") == preset_rate("nvlink2")
    assert rate(cluster, "gpu:0", "gpu:4") == preset_rate("100gbe")


def test_hosts_are_joined_by_25_gigabit_unless_said_otherwise() -> None:
    assert rate(read_cluster("2x1xV100"), "gpu:0", "gpu:1") == preset_rate("25gbe")
    assert rate(read_cluster("2x1xCPU"), "cpu:0", "cpu:1") == preset_rate("25gbe")


def test_every_group_starts_at_the_first_host() -> None:
    cluster = read_cluster("2x1xV100+2x2xCPU")
    assert [(d.name, d.host) for d in cluster.devices] == [
        ("gpu:0", 0),
        ("cpu:0", 0),
        ("cpu:1", 0),
        ("gpu:1", 1),
        ("cpu:2", 1),
        ("cpu:3", 1),
    ]


@pytest.mark.parametrize(
    ("spec", "preset"),
    [
        ("2xV100", "nvlink2"),
        ("2xP100", "nvlink1"),
        ("2xH100", "nvlink4"),
        ("2xV100-PCIE", "pcie3"),
        ("2xRTX4090", "pcie4"),
        ("2xH100-PCIE", "pcie5"),
        ("2xH100@nvlink", "nvlink4"),
        ("2xH100@NVLINK3", "nvlink3"),
        ("2xRTX3090@nvlink3", "nvlink3"),
        ("2xV100@pcie3", "pcie3"),
        ("1xV100+1xH100", "nvlink2"),
        ("1xT4+1xH100", "pcie3"),
    ],
)
def test_the_link_between_gpus(spec: str, preset: str) -> None:
    cluster = read_cluster(spec)
    assert rate(cluster, "gpu:0", "gpu:1") == preset_rate(preset)
    assert rate(cluster, "gpu:1", "gpu:0") == preset_rate(preset)


def test_cpus_are_joined_by_host_memory_or_by_what_is_named() -> None:
    assert rate(read_cluster("2xCPU"), "cpu:0", "cpu:1") == preset_rate("host")
    assert rate(read_cluster("2xCPU@10gbe"), "cpu:0", "cpu:1") == preset_rate("10gbe")
    mixed = read_cluster("2xV100+2xCPU@nvlink")
    assert rate(mixed, "cpu:0", "cpu:1") == preset_rate("host")


@pytest.mark.parametrize(
    ("spec", "contention"),
    [
        ("4xV100", "link"),
        ("2xCPU", "link"),
        ("V100", "link"),
        ("8xH100", "egress-ingress"),
        ("2xT4", "egress-ingress"),
        ("2xV100+1xCPU", "egress-ingress"),
        ("2x2xV100", "egress-ingress"),
    ],
)
def test_the_strictest_contention_of_its_links_is_the_clusters(spec: str, contention: str) -> None:
    assert read_cluster(spec).contention == contention


@pytest.mark.parametrize(
    ("spec", "kind", "memory_bytes"),
    [
        ("2xCPU-64MB", "CPU", 64 * 10**6),
        ("4xV100-8GB", "V100", 8 * 10**9),
        ("V100-1.5GiB", "V100", 3 * 2**29),
        ("V100-32GB", "V100-32GB", 32 * 10**9),
        ("V100-32GB-20GB", "V100-32GB", 20 * 10**9),
        ("cpu-512kib", "CPU", 2**19),
    ],
)
def test_a_memory_that_names_no_kind_overrides_the_kinds(
    spec: str, kind: str, memory_bytes: int
) -> None:
    device = read_cluster(spec).devices[0]
    assert (device.kind, device.memory_bytes) == (kind, memory_bytes)


def test_amounts_of_memory() -> None:
    amounts = ["1B", "1KB", "1KiB", "2MB", "2MiB", "1.5GB", "1TiB", "12", "GB", "1XB", "-1GB"]
    assert [parse_memory(text) for text in amounts] == [
        1,
        1000,
        1024,
        2_000_000,
        2 * 2**20,
        1_500_000_000,
        2**40,
        None,
        None,
        None,
        None,
    ]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("", "cluster: expected a spec such as 4xV100 or a .yaml file, got nothing"),
        ("0xV100", "cluster 0xV100: expected at least one device, got 0 in '0xV100'"),
        ("2x0xV100", "expected at least one device, got 0 in '2x0xV100'"),
        ("-1xV100", "expected at least one device, got -1 in '-1xV100'"),
        ("4x", "expected groups such as 4xV100 joined by +, got '4x'"),
        ("V100++CPU", "expected groups such as 4xV100 joined by +, got ''"),
        ("2000xCPU", "at most 1024 devices, got 2000"),
        ("99999999xCPU", "99999999 is too many"),
        ("4xV1OO", "device kind 'V1OO': unknown; did you mean V100"),
        ("2xCPU-0MB", "memory must be above 0, got 0MB in 'CPU-0MB'"),
        ("2xB200-8GB", "device kind 'B200': unknown; did you mean H200"),
        ("2xV100@nvlnk", "link preset 'nvlnk': unknown; did you mean nvlink"),
        ("2xV100@nvlink,25gb", "link preset '25gb': unknown; did you mean 25gbe"),
        ("2xV100@", "expected @WITHIN or @WITHIN,BETWEEN, such as @nvlink,25gbe, got @"),
        ("2xV100@a,b,c", "expected @WITHIN or @WITHIN,BETWEEN"),
        ("2xT4@nvlink", "link preset 'nvlink': T4 has no NVLink of its own"),
        ("2xCPU@nvlink", "link preset 'nvlink': CPU has no NVLink of its own"),
        ("2x1xV100@nvlink,nvlink", "joins the GPUs of one host"),
    ],
)
def test_a_wrong_spec_says_what_is_wrong(spec: str, message: str) -> None:
    with pytest.raises(ClusterError) as caught:
        read_cluster(spec)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_with_everything(tmp_path: Path) -> None:
    cluster = read_cluster(
        write(
            tmp_path,
            """
            devices:
              - {kind: V100, count: 2, memory: 8GB}
              - {kind: CPU, name: helper, memory: 4000000, host: 1}
            links:
              within_host: {latency_s: 1e-6, bytes_per_s: 20e9}
              between_hosts: 10gbe
              pairs:
                - {from: gpu:0, to: helper, latency_s: 0.5, bytes_per_s: 7}
            contention: port
            """,
        )
    )
    assert [(d.name, d.host, d.index, d.memory_bytes) for d in cluster.devices] == [
        ("gpu:0", 0, 0, 8 * 10**9),
        ("gpu:1", 0, 1, 8 * 10**9),
        ("helper", 1, 0, 4_000_000),
    ]
    assert cluster.spec == "lab.yaml"
    assert rate(cluster, "gpu:0", "gpu:1") == 20e9
    assert rate(cluster, "gpu:0", "helper") == 7
    assert rate(cluster, "helper", "gpu:0") == preset_rate("10gbe")
    assert cluster.latency_s[0, 1] == 1e-6
    assert cluster.contention == "port"


def test_a_file_without_links_has_those_of_its_kinds(tmp_path: Path) -> None:
    cluster = read_cluster(write(tmp_path, "devices: [{kind: V100, count: 2}]"))
    assert (cluster.latency_s == read_cluster("2xV100").latency_s).all()
    assert cluster.contention == "link"


def test_a_name_of_several_is_numbered(tmp_path: Path) -> None:
    cluster = read_cluster(write(tmp_path, "devices: [{kind: CPU, count: 2, name: worker}]"))
    assert [device.name for device in cluster.devices] == ["worker:0", "worker:1"]


def test_who_lists_pairs_means_these(tmp_path: Path) -> None:
    text = """
    devices: [{kind: T4, count: 2}]
    links: {pairs: [{from: gpu:0, to: gpu:1, preset: pcie3}]}
    """
    with pytest.raises(ClusterError, match="no link from gpu:1 to gpu:0; add it to links.pairs"):
        read_cluster(write(tmp_path, text))
    rest = text.replace("links: {", "links: {within_host: auto, ")
    assert read_cluster(write(tmp_path, rest)).num_devices == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("devices: []", "devices: expected a list of at least one, got []"),
        ("[]", "the file: expected fields devices, links, contention, got []"),
        ("devices: [{kind: V100, count: 0}]", "expected at least one device, got 0"),
        ("devices: [{kind: V100, count: -1}]", "devices[0].count: expected a whole number"),
        ("devices: [{kind: V1OO}]", "devices[0]: device kind 'V1OO': unknown; did you mean V100"),
        ("devices: [{count: 2}]", "devices[0].kind: expected the name of a device kind, got None"),
        ("devices: [{kind: CPU, memroy: 1GB}]", "unknown field 'memroy'; did you mean memory?"),
        (
            "devices: [{kind: CPU, name: host}]",
            "name: host is what plans call host memory",
        ),
        ("devices: [{kind: CPU, memory: lots}]", "devices[0].memory: expected bytes or an amount"),
        ("devices: [{kind: CPU, memory: -5}]", "devices[0].memory: must be above 0, got -5"),
        ("devices: [{kind: CPU, name: a}, {kind: CPU, name: a}]", "two devices are called 'a'"),
        ("device: [{kind: CPU}]", "unknown field 'device'; did you mean devices?"),
        ("devices: [{kind: CPU}]\ncontention: lots", "contention: expected one of none, link"),
        ("devices: [{kind: CPU}]\nlinks: fast", "links: expected fields within_host"),
        (
            "devices: [{kind: CPU, count: 2}]\nlinks: {within_host: none}",
            "no link from cpu:0 to cpu:1; add it to links.pairs, or set links.within_host",
        ),
        (
            "devices: [{kind: CPU}, {kind: CPU, host: 1}]\nlinks: {between_hosts: none}",
            "no link from cpu:0 to cpu:1; add it to links.pairs, or set links.between_hosts",
        ),
        (
            "devices: [{kind: CPU}]\nlinks: {within_host: 10gb}",
            "links.within_host: link preset '10gb': unknown; did you mean 10gbe",
        ),
        (
            "devices: [{kind: CPU}]\nlinks: {within_host: {latency_s: -1, bytes_per_s: 1}}",
            "links.within_host.latency_s: must be at least 0, got -1",
        ),
        (
            "devices: [{kind: CPU}]\nlinks: {within_host: {latency_s: 0, bytes_per_s: 0}}",
            "links.within_host.bytes_per_s: must be above 0, got 0",
        ),
        (
            "devices: [{kind: CPU}]\nlinks: {within_host: {latency_s: 0, bandwidth: 1}}",
            "links.within_host: unknown field 'bandwidth'",
        ),
        (
            "devices: [{kind: CPU}]\nlinks: {pairs: [{from: cpu:0, to: cpu:9, preset: host}]}",
            "links.pairs names 'cpu:9', which is no device; it has cpu:0",
        ),
        (
            "devices: [{kind: CPU}]\nlinks: {pairs: [{from: cpu:0, to: cpu:0, preset: host}]}",
            "links.pairs[0]: expected two devices, got cpu:0 twice",
        ),
        ("devices: [{kind: CPU", "not YAML: "),
        ("devices: !!python/name:os.system", "not YAML: "),
    ],
)
def test_a_wrong_file_says_what_is_wrong(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ClusterError) as caught:
        read_cluster(write(tmp_path, text))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_all_faults_of_a_file_are_told_at_once(tmp_path: Path) -> None:
    text = "devices: [{kind: V1OO}, {kind: CPU, host: -1}]\ncontention: lots"
    with pytest.raises(ClusterError) as caught:
        read_cluster(write(tmp_path, text))
    message = str(caught.value)
    assert "devices[0]" in message
    assert "devices[1].host" in message
    assert "contention" in message


def test_a_file_that_is_missing(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="cluster file .*none.yaml: No such file"):
        read_cluster(str(tmp_path / "none.yaml"))


def test_a_file_that_is_not_text(tmp_path: Path) -> None:
    path = tmp_path / "lab.yml"
    path.write_bytes(b"devices: \x80\x81")
    with pytest.raises(ClusterError, match="not YAML"):
        read_cluster(str(path))


def test_what_the_documentation_shows_can_be_read(tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "docs" / "cluster-format.md").read_text()
    specs = re.findall(r"^\| `([^`]+)` \|", text.split("## The file")[0], flags=re.MULTILINE)
    assert len(specs) == 6
    for spec in specs:
        assert read_cluster(spec).num_devices >= 1
    example = text.split("```yaml")[1].split("```")[0]
    assert read_cluster(write(tmp_path, example)).num_devices == 3
