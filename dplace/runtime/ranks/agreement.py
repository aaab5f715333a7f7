"""Do all ranks hold the same plan, and can what they run work together?

Every rank writes into the store what it holds, or what keeps it from taking part, reads what the
others wrote, and comes to the same answer.
"""

import hashlib
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

import onnxruntime
import torch
from torch.distributed import is_nccl_available

from dplace.errors import DplaceError, PlanError
from dplace.plan.folder import PLAN_FILE
from dplace.plan.read import check_files, read_plan
from dplace.plan.records import Plan
from dplace.runtime.devices import provider_of
from dplace.runtime.fingerprint import check_fingerprint
from dplace.runtime.ranks.gathering import Gathering

__all__ = ["Hello", "agree", "read_together"]

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
NCCL_PROVIDERS = ("CUDAExecutionProvider", "TensorrtExecutionProvider")
WAIT_S = 0.05
SHOWN_DIGITS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """What a rank says of itself."""

    problem: str | None = None
    """What keeps it from taking part."""
    digest: str = ""
    """Of ``plan.yaml``."""
    dplace: str = ""
    onnxruntime: str = ""
    torch: str = ""
    byte_order: str = sys.byteorder
    machine: str = ""
    """Equal for ranks on one machine, whatever names and networks they see it by."""
    provider: str = ""
    """What its device is driven by."""
    has_nccl: bool = False
    """Whether torch can send from that device's memory and receive into it."""


def read_together(
    folder: Path, gathering: Gathering, *, allow_cpu: bool = False, verify: bool = True
) -> tuple[Plan, tuple[Hello, ...]]:
    """Return the plan, after all ranks have found that they can run it together.

    Args:
        allow_cpu: Let the CPU stand in for a device that is not where its rank runs.
        verify: Compare the digests of the files of this rank's device; those of others need not be
            here.

    Returns:
        The plan, and what each rank says of itself.

    Raises:
        PlanError: The plan is broken, another one than other ranks hold, for another number of
            ranks, bound to another machine; the ranks run versions that do not fit together; or a
            device is not where its rank runs.
        DeviceLostError: A rank did not come.
    """
    rank, size = gathering.launch.rank, gathering.launch.size
    plan: Plan | None = None
    try:
        plan = read_plan(folder, verify=False)
        _check_size(plan, size)
        if verify:
            check_files(plan, folder, device=plan.devices[rank].name)
        check_fingerprint(plan)
        provider = provider_of(plan.devices[rank], allow_cpu=allow_cpu)
        hello = _hello(folder, provider)
    except DplaceError as error:
        hello = Hello(problem=str(error))
    names = _names(plan, size)
    hellos = _exchange(gathering, hello, names)
    problem = agree(hellos, names)
    if problem is not None or plan is None:
        raise PlanError(problem or "the plan cannot be read")
    gathering.watch.all_are_here(names)
    return plan, hellos


def agree(hellos: Sequence[Hello], names: Sequence[str]) -> str | None:
    """Return in one line what keeps ranks from working together, None if nothing does.

    >>> agree([Hello(digest="sha256:1"), Hello(digest="sha256:1")], ["rank 0", "rank 1"]) is None
    True
    """
    for hello, name in zip(hellos, names, strict=True):
        if hello.problem is not None:
            is_of_all = all(other.problem == hello.problem for other in hellos)
            return hello.problem if is_of_all else f"{name}: {hello.problem}"
    asked: list[tuple[str, Callable[[Hello], str], str]] = [
        (
            "holds the plan {}, not {}",
            lambda hello: hello.digest[:SHOWN_DIGITS],
            "copy the plan folder of rank 0 to all hosts",
        ),
        ("runs dplace {}, not {}", lambda hello: hello.dplace, "install one version on all hosts"),
        (
            "runs onnxruntime {}, not {}",
            lambda hello: _minor(hello.onnxruntime),
            "install one minor version on all hosts",
        ),
        (
            "runs torch {}, not {}",
            lambda hello: _minor(hello.torch),
            "install one minor version on all hosts",
        ),
        (
            "has {} byte order, not {}",
            lambda hello: hello.byte_order,
            "values cross as they lie in memory",
        ),
    ]
    for words, of, advice in asked:
        first = of(hellos[0])
        others = [
            (name, of(hello))
            for hello, name in zip(hellos, names, strict=True)
            if of(hello) != first
        ]
        if others:
            more = f" (and {len(others) - 1} more ranks differ)" if len(others) > 1 else ""
            said = words.format(others[0][1], first)
            return f"{others[0][0]} {said} as {names[0]}{more}; {advice}"
    return None


def _minor(text: str) -> str:
    return ".".join(text.split(".")[:2])


def _check_size(plan: Plan, size: int) -> None:
    wanted = len(plan.devices)
    if size != wanted:
        started = "1 rank was" if size == 1 else f"{size} ranks were"
        raise PlanError(
            f"the plan of {plan.model} has {wanted} devices, one for each rank, and "
            f"{started} started; start {wanted}, as dplace run PLAN --hosts says"
        )


def _names(plan: Plan | None, size: int) -> list[str]:
    """Return what to call each rank: by its device, too, where there is one."""
    devices = plan.devices if plan is not None else ()
    return [
        f"rank {rank} ({devices[rank].name})" if rank < len(devices) else f"rank {rank}"
        for rank in range(size)
    ]


def _hello(folder: Path, provider: str) -> Hello:
    content = (folder / PLAN_FILE).read_bytes()
    return Hello(
        digest=hashlib.sha256(content).hexdigest(),
        dplace=version("dplace"),
        onnxruntime=onnxruntime.__version__,
        torch=torch.__version__,
        machine=_machine(),
        provider=provider,
        has_nccl=provider in NCCL_PROVIDERS and torch.cuda.is_available() and is_nccl_available(),
    )


def _machine() -> str:
    try:
        return BOOT_ID.read_text().strip()
    except OSError:
        return os.uname().nodename


def _exchange(gathering: Gathering, hello: Hello, names: Sequence[str]) -> tuple[Hello, ...]:
    """Return what all ranks say."""
    rank, size = gathering.launch.rank, gathering.launch.size
    keys = [f"hello/{other}" for other in range(size)]

    def exchange() -> tuple[Hello, ...]:
        store = gathering.store
        store.set(keys[rank], json.dumps(asdict(hello)))
        until_s = time.perf_counter() + gathering.timeout_s
        while not store.has(keys):
            if time.perf_counter() > until_s:
                missing = [other for other, key in enumerate(keys) if not store.has([key])]
                more = f", nor did {len(missing) - 1} more" if len(missing) > 1 else ""
                gathering.watch.names = list(names)
                gathering.watch.lost(
                    missing[0], f"it did not come within {gathering.timeout_s:g} s{more}"
                )
                gathering.watch.check()
            time.sleep(WAIT_S)
        return tuple(Hello(**json.loads(text)) for text in store.get_all(keys))

    return gathering.do(exchange)
