"""ONNX's own backend test suite, run by plain onnxruntime and by dplace.

backends.py has the two backends, cases.py the cases and their verdicts. The whole suite is
benchmarks/onnx_backend_suite.py, a sample of it tests/test_onnx_backend.py.
"""

__all__: list[str] = []
