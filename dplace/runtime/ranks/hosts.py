"""The lines that start a plan's ranks, one for each host."""

import shlex
from collections.abc import Sequence

from dplace.plan.records import Plan

__all__ = ["PLACEHOLDER", "launch_lines"]

PLACEHOLDER = "HOST0"
PORT = 29500


def launch_lines(plan: Plan, arguments: Sequence[str]) -> list[str]:
    """Return for each host, in the order of their first devices, what to start on it.

    Rank r has to be device r. torchrun numbers ranks host by host, and takes another number of
    processes on each (torch 2.13 was tried); where the devices of a host are not side by side, each
    process is started for itself with what torchrun would have told it.

    Args:
        arguments: Those of ``dplace``, such as ``["run", "plan"]``.
    """
    hosts = [device.host for device in plan.devices]
    order = list(dict.fromkeys(hosts))
    command = f"-m dplace {shlex.join(arguments)}"
    if len(order) == 1:
        return [f"torchrun --nproc-per-node {len(hosts)} {command}"]
    if hosts == sorted(hosts, key=order.index):
        return [
            f"torchrun --nnodes {len(order)} --node-rank {node} "
            f"--nproc-per-node {hosts.count(host)} --master-addr {PLACEHOLDER} "
            f"--master-port {PORT} {command}"
            for node, host in enumerate(order)
        ]
    return [
        " & ".join(
            f"RANK={rank} WORLD_SIZE={len(hosts)} MASTER_ADDR={PLACEHOLDER} MASTER_PORT={PORT} "
            f"python {command}"
            for rank, own in enumerate(hosts)
            if own == host
        )
        + ("; wait" if hosts.count(host) > 1 else "")
        for host in order
    ]
