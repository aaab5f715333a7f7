"""Every twelfth case of ONNX's own backend suite; the whole is in benchmarks/."""

from tests.onnx_backend.cases import PASSED, case_names, run_cases

STEP = 12


def test_cases_that_plain_onnxruntime_passes_pass_over_two_devices() -> None:
    sample = case_names()[::STEP]
    passed = [name for name, verdict in run_cases("plain", sample) if verdict == PASSED]
    assert len(passed) > len(sample) // 2
    lost = {name: verdict for name, verdict in run_cases("dplace", passed) if verdict != PASSED}
    assert lost == {}
