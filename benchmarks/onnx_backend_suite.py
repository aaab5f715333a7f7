"""ONNX's own backend test suite: plain onnxruntime against dplace on two CPU devices.

Every CPU case runs in one session of the whole model, and as a plan whose ops alternate between
two devices. What plain onnxruntime passes, dplace has to pass. Run it as:

    python -m benchmarks.onnx_backend_suite --json onnx_backend_suite.json
"""

import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.figures import arguments, report
from tests.onnx_backend.cases import PASSED, case_names

ROOT = Path(__file__).parents[1]


def run_share(backend: str, share: int, shares: int) -> dict[str, str]:
    """Run one share of the cases in a process of its own; begin again after a crash."""
    verdicts: dict[str, str] = {}
    command = [sys.executable, "-m", "tests.onnx_backend.cases", backend, str(share), str(shares)]
    while True:
        process = subprocess.Popen(
            [*command, str(len(verdicts))],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert process.stdout is not None
        running: str | None = None
        for line in process.stdout:
            name, verdict = json.loads(line)
            running = None if verdict else name
            if verdict:
                verdicts[name] = verdict
        code = process.wait()
        if running is None:
            if code != 0:
                raise RuntimeError(f"{' '.join(command)} ended with {code}")
            return verdicts
        verdicts[running] = f"crashed with exit code {code}"


def run_suite(backend: str, shares: int) -> tuple[dict[str, str], float]:
    """Return every case's verdict, and the seconds it took."""
    start = time.perf_counter()
    verdicts: dict[str, str] = {}
    with ThreadPoolExecutor(shares) as pool:
        jobs = [pool.submit(run_share, backend, share, shares) for share in range(shares)]
        for job in jobs:
            verdicts |= job.result()
    return verdicts, time.perf_counter() - start


def main() -> None:
    """Run both; leave with 1 if dplace fails a case that plain onnxruntime passes."""
    options = arguments(__doc__ or "", processes=2)
    verdicts, rows = {}, []
    for backend in ("plain", "dplace"):
        verdicts[backend], seconds = run_suite(backend, options.processes)
        passed = sum(verdict == PASSED for verdict in verdicts[backend].values())
        rows.append(
            {
                "backend": backend,
                "cases": len(verdicts[backend]),
                "passed": passed,
                "seconds": seconds,
            }
        )
    assert set(verdicts["plain"]) == set(verdicts["dplace"]) == set(case_names())
    lost = {
        name: verdicts["dplace"][name]
        for name, verdict in verdicts["plain"].items()
        if verdict == PASSED and verdicts["dplace"][name] != PASSED
    }
    won = [
        name
        for name, verdict in verdicts["dplace"].items()
        if verdict == PASSED and verdicts["plain"][name] != PASSED
    ]
    summary: dict[str, Any] = {
        "passed by plain onnxruntime and not by dplace": len(lost),
        "passed by dplace and not by plain onnxruntime": len(won),
    }
    details = [{"case": name, **{k: verdicts[k][name] for k in verdicts}} for name in case_names()]
    report("ONNX backend suite, CPU cases", rows, summary, options.json, details=details)
    for name, verdict in lost.items():
        print(f"{name}: {verdict}")
    raise SystemExit(1 if lost else 0)


if __name__ == "__main__":
    main()
