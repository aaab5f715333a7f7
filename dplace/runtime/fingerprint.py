"""What the bits of an optimised graph's results depend on, and whether it is the same here.

onnxruntime picks layouts and kernels by its version, its provider and the instructions of the CPU,
so a graph that it optimised on one machine is only sure to run, and to give the same bits, on one
that agrees in all three.
"""

import platform
import re
from pathlib import Path

import onnxruntime

from dplace.errors import PlanError
from dplace.plan.records import Plan

__all__ = ["check_fingerprint", "cpu_features", "runtime_fingerprint"]

# Only instructions that kernels are chosen by: other flags come and go with the system's kernel.
X86_FEATURE = re.compile(r"(s?sse|avx|amx|fma|f16c|bmi)\w*")
ARM_FEATURE = re.compile(r"(asimd|sve|sme|i8mm|bf16|fphp)\w*")


def runtime_fingerprint(provider: str = "CPUExecutionProvider") -> dict[str, str]:
    """Return onnxruntime's version, the provider and the CPU's features."""
    return {
        "onnxruntime": onnxruntime.__version__,
        "provider": provider,
        "cpu": cpu_features(),
    }


def cpu_features(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """Return the CPU's architecture and vector instructions, in alphabetical order."""
    machine = platform.machine()
    try:
        text = cpuinfo.read_text()
    except OSError:
        return machine  # not Linux
    found = re.search(r"^(?:flags|Features)\s*:(.*)$", text, re.MULTILINE)
    names = found.group(1).split() if found else []
    pattern = X86_FEATURE if machine in ("x86_64", "AMD64") else ARM_FEATURE
    return " ".join([machine, *sorted(name for name in names if pattern.fullmatch(name))])


def check_fingerprint(plan: Plan) -> None:
    """Check that a ``native`` plan was made for this onnxruntime and this CPU.

    Raises:
        PlanError: It was not; the message says in what they differ.
    """
    if plan.optimize != "native":
        return
    here = runtime_fingerprint(plan.runtime.get("provider", "CPUExecutionProvider"))
    differences = [
        _difference(name, made_for, here[name])
        for name, made_for in plan.runtime.items()
        if name in here and here[name] != made_for
    ]
    if differences:
        raise PlanError(
            f"the plan of {plan.model} is bound to the machine it was made on, and here "
            f"{'; '.join(differences)}; place the model again here, or with --optimize portable"
        )


def _difference(name: str, made_for: str, here: str) -> str:
    if name != "cpu" or made_for.split()[:1] != here.split()[:1]:
        return f"{name} is {here}, not {made_for}"
    lacking = sorted(set(made_for.split()) - set(here.split()))
    further = sorted(set(here.split()) - set(made_for.split()))
    texts = [f"the CPU lacks {' '.join(lacking)}"] if lacking else []
    if further:
        texts.append(f"the CPU also has {' '.join(further)}")
    return " and ".join(texts)
