"""What this machine can do for dplace, and what stands in the way.

Nothing heavy is imported here: versions come from the packages' metadata, and what has to be tried
is tried in a process of its own, so that a broken package can neither end this one nor write to
the home folder.
"""

import json
import os
import platform
import re
import site
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distributions, version
from pathlib import Path
from typing import Literal

__all__ = ["Check", "DoctorReport", "examine"]

PACKAGES = ("dplace", "dgl", "numba", "numpy", "onnx", "onnx_ir", "torch")
DGL = "dgl==1.1.3"
"""The version whose graphs dplace makes, and the last with wheels on the package index."""

PROVIDERS_PROGRAM = """
import json, onnxruntime
from dplace.runtime.devices import working_providers
print(json.dumps([list(onnxruntime.get_available_providers()), dict(working_providers())]))
"""
DGL_PROGRAM = "import dgl; print(dgl.__version__)"
CPP_PLACE = r"^/\S+\.(cc|h):\d+ .*?\) (?=[A-Z])"
"""Where in its source onnxruntime met an error, which tells a user nothing."""
PROBE_LIMIT_S = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that was looked at."""

    status: Literal["ok", "note", "fault"]
    """``note``: works, but differs from what one may expect; ``fault``: has to be mended."""
    subject: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorReport:
    """What this machine can do for dplace."""

    python: str
    """Version of the interpreter."""
    versions: Mapping[str, str | None]
    """Version of each package that dplace needs; None where it is not installed."""
    cores: int
    """CPU cores that this process may use."""
    memory_bytes: int
    """Memory of the machine, or what its container allows."""
    checks: tuple[Check, ...]

    @property
    def num_faults(self) -> int:
        """Return how many checks found something that has to be mended."""
        return sum(check.status == "fault" for check in self.checks)

    def as_json(self) -> dict[str, object]:
        """Return the report as one JSON object."""
        return {
            "python": self.python,
            "versions": dict(self.versions),
            "cores": self.cores,
            "memory_bytes": self.memory_bytes,
            "faults": self.num_faults,
            "checks": [
                {"status": check.status, "subject": check.subject, "message": check.message}
                for check in self.checks
            ],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """How a Python program of a few lines ended in a process of its own."""

    output: str
    """Its last line on standard output; empty if it failed."""
    reason: str
    """Why it failed, in one line; empty if it did not."""


def examine() -> DoctorReport:
    """Return what this machine can do for dplace."""
    runtimes = onnxruntime_distributions()
    versions = {name: version_of(name) for name in PACKAGES} | runtimes
    return DoctorReport(
        python=platform.python_version(),
        versions=dict(sorted(versions.items())),
        cores=len(os.sched_getaffinity(0)),
        memory_bytes=memory_bytes(),
        checks=(
            *(missing(name) for name in PACKAGES if versions[name] is None and name != "dgl"),
            runtimes_check(sorted(runtimes)),
            *provider_checks(probe(PROVIDERS_PROGRAM), has_gpu=has_nvidia_gpu()),
            dgl_check(versions["dgl"], probe(DGL_PROGRAM)),
            *core_checks(len(os.sched_getaffinity(0)), core_quota(Path("/sys/fs/cgroup/cpu.max"))),
        ),
    )


def version_of(package: str) -> str | None:
    """Return the version of an installed package, or None."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def onnxruntime_distributions() -> dict[str, str]:
    """Return the version of every distribution that installs the package ``onnxruntime``.

    There are a dozen (-gpu, -openvino, nightly builds); -genai and -extensions are others.
    """
    found: dict[str, str] = {}
    for distribution in distributions():
        name = distribution.metadata["Name"] or ""
        if name.lower().startswith(("onnxruntime", "ort-", "ort_")):
            files = {str(file) for file in distribution.files or ()}
            if "onnxruntime/__init__.py" in files:
                found[name.lower().replace("_", "-")] = distribution.version
    return found


def missing(package: str) -> Check:
    """Return the fault that a package which dplace needs is not installed."""
    return Check(
        status="fault", subject=package, message=f"not installed; run: pip install {package}"
    )


def runtimes_check(names: Sequence[str]) -> Check:
    """Check that exactly one distribution provides onnxruntime."""
    if len(names) == 1:
        return Check(status="ok", subject="onnxruntime", message=f"installed as {names[0]}")
    if not names:
        return missing("onnxruntime")
    return Check(
        status="fault",
        subject="onnxruntime",
        message=f"{' and '.join(names)} overwrite each other's files; run: "
        f"pip uninstall {' '.join(names)}, then install the one that you need",
    )


def provider_checks(tried: Probe, *, has_gpu: bool) -> list[Check]:
    """Check that the execution providers which onnxruntime lists do work.

    The GPU build lists CUDA and TensorRT on every machine and then quietly runs on the CPU. That
    is a fault only where there is a GPU to miss.
    """
    if tried.reason:
        return [Check(status="fault", subject="providers", message=tried.reason)]
    listed, working = json.loads(tried.output)
    checks: list[Check] = []
    for name in listed:
        reason = re.sub(CPP_PLACE, "", working.get(name, "not tried"))
        if reason == "works":
            checks.append(Check(status="ok", subject=name, message="works"))
        elif name == "CUDAExecutionProvider" and has_gpu:
            message = (
                f"there is a GPU, but onnxruntime cannot use it: {reason}; "
                "run: pip install 'onnxruntime-gpu[cuda,cudnn]'"
            )
            checks.append(Check(status="fault", subject=name, message=message))
        else:
            message = f"does not work here: {reason}"
            checks.append(Check(status="note", subject=name, message=message))
    return checks


def dgl_check(installed: str | None, tried: Probe) -> Check:
    """Check that DGL is there, loads and has the version that dplace was written for."""
    remedy = f"run: pip install {DGL}, and set DGLBACKEND=pytorch before importing it"
    if installed is None:
        return Check(status="fault", subject="dgl", message=f"not installed; {remedy}")
    if tried.reason:
        message = f"cannot be imported: {tried.reason}; {remedy}"
        return Check(status="fault", subject="dgl", message=message)
    if f"dgl=={installed.partition('+')[0]}" != DGL:
        message = f"loads, but is {installed}; dplace is tested with {DGL}"
        return Check(status="note", subject="dgl", message=message)
    return Check(status="ok", subject="dgl", message="loads")


def core_checks(cores: int, quota: float | None) -> list[Check]:
    """Check that each core may be used all the time."""
    if quota is None or quota >= cores:
        return []
    message = (
        f"{cores} can be used, but only {quota:g} of them all the time; CPU devices beyond that "
        "are slower than predicted"
    )
    return [Check(status="note", subject="cores", message=message)]


def probe(program: str) -> Probe:
    """Run a Python program in a process of its own, with a home folder that is thrown away."""
    with tempfile.TemporaryDirectory(prefix="dplace-doctor-") as home:
        kept = {"HOME": home, "DGLDEFAULTDIR": home, "XDG_CACHE_HOME": home}
        environment = os.environ | kept | {"DGLBACKEND": "pytorch"}
        environment["PYTHONUSERBASE"] = site.getuserbase()  # stays where the real home is
        try:
            done = subprocess.run(
                [sys.executable, "-P", "-c", program],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                env=environment,
                timeout=PROBE_LIMIT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Probe(output="", reason=f"no answer after {PROBE_LIMIT_S:.0f} s")
    if done.returncode == 0:
        return Probe(output=last_line(done.stdout), reason="")
    if done.returncode < 0:
        return Probe(output="", reason=f"the process was ended by signal {-done.returncode}")
    return Probe(output="", reason=last_line(done.stderr) or f"exit code {done.returncode}")


def last_line(text: str) -> str:
    """Return the last line that is not empty, or nothing."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""


def has_nvidia_gpu() -> bool:
    """Return whether this process can see an NVIDIA GPU."""
    if os.environ.get("CUDA_VISIBLE_DEVICES", "all").strip() in ("", "-1"):
        return False
    return any(Path("/dev").glob("nvidia[0-9]*"))


def memory_bytes() -> int:
    """Return the machine's memory, or the limit of the container if that is less."""
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        limit = Path("/sys/fs/cgroup/memory.max").read_text().strip()
    except OSError:
        return physical
    return min(physical, int(limit)) if limit.isdecimal() else physical


def core_quota(path: Path) -> float | None:
    """Return how many cores' time the container allows; None without a limit."""
    try:
        quota, period = path.read_text().split()
    except (OSError, ValueError):
        return None
    return int(quota) / int(period) if quota.isdecimal() else None
