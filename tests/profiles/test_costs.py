"""Which time an op gets: the measured one where it fits, else the modelled one."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from dplace.errors import InputError
from dplace.graph_io.optimise import OptimizeMode
from dplace.profiles import modelled_seconds, read_cluster
from dplace.profiles.calls import costs_at
from dplace.profiles.costs import Costs, known_costs
from dplace.profiles.signature import op_signatures
from dplace.profiles.store import (
    CallCosts,
    LinkCosts,
    ModelProfile,
    ProfileFile,
    default_path,
    write_profile,
)
from tests.graph_io.models import parse, prepare
from tests.profiles.measured import links, model_profile, op_time

TEXT = "g (float[64,64] x) => (float[64,64] y) { a = Sqrt(x)  b = Neg(a)  y = Sqrt(b) }"


def model() -> onnx.ModelProto:
    """Return two square roots with a negation between."""
    return parse(TEXT)


def profile_of(*types: str, seconds: float = 0.001, **changes: Any) -> ModelProfile:
    """Return a profile with a time for the ops of some types."""
    found = {signature.op_type: signature for signature in op_signatures(prepare(model())[1])}
    ops = [op_time(signature=found[name].digest, op_type=name, seconds=seconds) for name in types]
    return model_profile(*ops, **({"optimize": "none"} | changes))


def stored(*made: ModelProfile | LinkCosts) -> None:
    """Put measurements into the user's data folder."""
    for entry in made:
        is_model = isinstance(entry, ModelProfile)
        content = ProfileFile(models=(entry,)) if is_model else ProfileFile(links=(entry,))  # type: ignore[arg-type]
        write_profile(content, default_path(entry))


def given(folder: Path, *made: ModelProfile, name: str = "given.json") -> Path:
    """Write a file to name with ``--profile``."""
    path = folder / name
    write_profile(ProfileFile(models=made), path)
    return path


def costs(cluster: str = "1xCPU", *files: Path, mode: OptimizeMode = "none") -> Costs:
    """Return the costs of the model."""
    optimised, placeable = prepare(model(), mode)
    return known_costs(placeable, optimised, read_cluster(cluster), files=files, dims={})


def test_without_measurements_all_is_modelled() -> None:
    found = costs()
    _, placeable = prepare(model())
    assert np.array_equal(found.seconds, modelled_seconds(placeable.graph, read_cluster("CPU")))
    assert not found.measured.any()
    assert found.share == 0
    assert found.warnings == ()


def test_a_measured_time_goes_before_the_modelled_one() -> None:
    stored(profile_of("Sqrt", seconds=0.004))
    found = costs("2xCPU")
    assert found.seconds[[0, 2]].tolist() == [[0.004, 0.004]] * 2
    assert found.measured.tolist() == [[True, True], [False, False], [True, True]]
    neg_s = found.seconds[1, 0]
    assert 0 < neg_s < 0.001
    assert found.share == pytest.approx(0.008 / (0.008 + neg_s))


def test_a_given_file_goes_before_a_stored_one(tmp_path: Path) -> None:
    stored(profile_of("Sqrt", "Neg", seconds=0.004))
    found = costs("1xCPU", given(tmp_path, profile_of("Sqrt", seconds=0.002)))
    assert found.seconds[:, 0].tolist() == [0.002, 0.004, 0.002]


def test_of_two_given_files_the_same_model_s_goes_first_then_the_one_named_first(
    tmp_path: Path,
) -> None:
    digest = prepare(model())[0].original.digest
    other, one, two = (
        given(tmp_path, profile_of("Sqrt", "Neg", seconds=seconds, **changes), name=f"{seconds}")
        for seconds, changes in (
            (0.001, {"model": "other"}),
            (0.002, {"model_digest": digest}),
            (0.003, {"model_digest": digest}),
        )
    )
    assert costs("1xCPU", other, one, two).seconds[:, 0].tolist() == [0.002] * 3
    assert costs("1xCPU", other, two, one).seconds[:, 0].tolist() == [0.003] * 3


def test_the_profile_of_the_same_model_goes_first() -> None:
    digest = prepare(model())[0].original.digest
    stored(profile_of("Sqrt", seconds=0.002, model_digest=digest))
    stored(profile_of("Sqrt", "Neg", seconds=0.004, model="other"))  # newer
    assert costs().seconds[:, 0].tolist() == [0.002, 0.004, 0.002]


def test_an_absent_device_takes_the_times_that_are_given_for_its_kind(tmp_path: Path) -> None:
    setting = dataclasses.replace(profile_of().setting, device="V100", processor="elsewhere")
    path = given(tmp_path, profile_of("Sqrt", setting=setting))
    found = costs("2xV100", path)
    assert found.seconds[0].tolist() == [0.001, 0.001]
    assert found.warnings[0].startswith(f"profile {path}: matches")
    assert "it was made" not in found.warnings[0]


def test_a_stored_profile_of_another_onnxruntime_is_left_out_and_said() -> None:
    setting = dataclasses.replace(profile_of().setting, onnxruntime="1.0")
    stored(profile_of("Sqrt", "Neg", setting=setting))
    found = costs()
    assert not found.measured.any()
    (warning,) = found.warnings
    assert "onnxruntime is " in warning
    assert "not 1.0" in warning
    assert "match 100 % of the predicted time" in warning


def test_a_given_profile_of_another_machine_is_used_and_said(tmp_path: Path) -> None:
    setting = dataclasses.replace(profile_of().setting, processor="Abacus")
    path = given(tmp_path, profile_of("Sqrt", "Neg", setting=setting))
    found = costs("1xCPU", path)
    assert found.measured.all()
    (warning,) = found.warnings
    assert warning.startswith(f"profile {path}: matches 100 % of the predicted time on CPU: ")
    assert warning.endswith(", not Abacus")


def test_a_profile_of_another_model_says_what_share_matches(tmp_path: Path) -> None:
    path = given(tmp_path, profile_of("Neg", model="other.onnx"))
    (warning,) = costs("1xCPU", path).warnings
    assert "% of the predicted time on CPU: it is of the model other.onnx" in warning


def test_a_profile_of_another_device_says_so(tmp_path: Path) -> None:
    setting = dataclasses.replace(profile_of().setting, device="T4")
    path = given(tmp_path, profile_of("Sqrt", setting=setting))
    (warning,) = costs("1xCPU", path).warnings
    assert warning == f"profile {path}: is of T4, so it matches 0 % of the predicted time on CPU"


def test_a_profile_of_another_optimization_is_not_used_and_said(tmp_path: Path) -> None:
    path = given(tmp_path, profile_of("Sqrt", "Neg", optimize="native", opt_level="basic"))
    found = costs("1xCPU", path)
    assert not found.measured.any()
    (warning,) = found.warnings
    assert "made with --optimize native --opt-level basic, and this is none, all" in warning


def test_an_empty_profile_warns(tmp_path: Path) -> None:
    (warning,) = costs("1xCPU", given(tmp_path, profile_of())).warnings
    assert "matches 0 % of the predicted time on CPU" in warning


def test_a_broken_file_is_an_error_if_given_and_a_warning_if_stored(tmp_path: Path) -> None:
    broken = tmp_path / "b.json"
    broken.write_text("{")
    with pytest.raises(InputError, match=r"b\.json: the profile is cut short"):
        costs("1xCPU", broken)
    path = default_path(profile_of())
    path.parent.mkdir(parents=True)
    path.write_text("[]")
    (warning,) = costs().warnings
    assert warning.startswith(f"a stored profile is left out: {path}: is a trace")


def test_measured_hand_overs_replace_the_shipped_ones() -> None:
    stored(links())
    cluster = costs("2xCPU").cluster
    assert [device.call_overhead_s for device in cluster.devices] == [1e-4, 1e-4]
    assert cluster.latency_s.tolist() == [[0, 3e-4], [3e-4, 0]]
    assert cluster.bytes_per_s[0, 1] == 1e9
    assert cluster.host_latency_s.tolist() == [2e-4, 2e-4]


def test_one_device_has_the_overhead_of_its_own() -> None:
    stored(links())
    for cluster in (costs("1xCPU").cluster, costs("2xCPU").cluster):
        assert {device.single_call_overhead_s for device in cluster.devices} == {2e-4}


def test_measurements_are_brought_to_the_speed_of_the_model_s_profile() -> None:
    digest = prepare(model())[0].original.digest
    stored(profile_of("Sqrt", seconds=0.002, model_digest=digest, probe_s=6e-5))
    stored(profile_of("Neg", seconds=0.002, model="other", probe_s=3e-5))
    stored(links(probe_s=3e-5))
    found = costs("2xCPU")
    assert found.seconds[:, 0].tolist() == [0.002, 0.004, 0.002]
    assert found.cluster.devices[0].call_overhead_s == 2e-4
    assert found.cluster.devices[0].single_call_overhead_s == 4e-4
    assert found.cluster.latency_s[0, 1] == 6e-4
    assert found.cluster.bytes_per_s[0, 1] == 5e8


def test_calls_cost_more_where_the_model_does_not_fit_the_caches() -> None:
    small, large = (
        CallCosts(
            working_set_bytes=size,
            call_overhead_s=call_s,
            single_call_overhead_s=2 * call_s,
            request_s=4 * call_s,
        )
        for size, call_s in ((1024, 2e-5), (64 * 1024, 8e-5))
    )
    stored(links(calls=(small, large)))
    # Four values of 16 KiB on two devices: 32 KiB each, five of six doublings from 1 to 64 KiB.
    assert costs("2xCPU").cluster.devices[0].call_overhead_s == pytest.approx(7e-5)
    assert costs_at((small, large), 8 * 1024).call_overhead_s == pytest.approx(5e-5)
    assert costs_at((small, large), 1e9).single_call_overhead_s == pytest.approx(16e-5)
    assert costs_at((small, large), 0).request_s == pytest.approx(8e-5)


@pytest.mark.parametrize("cluster", ["2xCPU@10gbe", "2xV100", "1xCPU+1xV100"])
def test_other_clusters_keep_their_links(cluster: str) -> None:
    stored(links())
    plain = read_cluster(cluster)
    found = costs(cluster).cluster
    assert found.latency_s.tolist() == plain.latency_s.tolist()
    assert found.devices == plain.devices


def test_hand_overs_of_another_machine_are_not_used() -> None:
    stored(links(setting=dataclasses.replace(links().setting, processor="Abacus")))
    assert costs("2xCPU").cluster.devices == read_cluster("2xCPU").devices


def test_a_measured_network_joins_hosts() -> None:
    stored(links(), links(between="hosts", latency_s=5e-5, bytes_per_s=2e9))
    cluster = costs("2x1xCPU").cluster
    assert cluster.latency_s[0, 1] == 5e-5
    assert cluster.bytes_per_s[1, 0] == 2e9


def test_place_goes_by_what_was_measured() -> None:
    from dplace import api

    text = "g (float[64,64] x) => (float[64,64] y) { a = Sqrt(x)  b = Neg(x)  y = Add(a, b) }"
    split = parse(text)
    optimised, placeable = prepare(split)
    slow = [
        op_time(signature=signature.digest, seconds=0.02)
        for signature in op_signatures(placeable)[:2]
    ]
    before = api.place(split, cluster="2xCPU", optimize="none")
    stored(model_profile(*slow, optimize="none", model_digest=optimised.original.digest))
    after = api.place(split, cluster="2xCPU", optimize="none")
    assert [device.num_ops for device in before.plan.devices] != [2, 1]
    assert sorted(device.num_ops for device in after.plan.devices) == [1, 2]
    assert after.plan.makespan_s == pytest.approx(0.02, rel=0.05)
    assert after.measured_share > 0.99
    assert before.measured_share == 0
