"""Who a process is, by its environment, and the lines that start one."""

import dataclasses
import shlex

import pytest

from dplace.errors import UsageError
from dplace.plan.records import Plan
from dplace.runtime.ranks.hosts import launch_lines
from dplace.runtime.ranks.launch import Launch, half_launched, launch_of

FULL = {"RANK": "1", "WORLD_SIZE": "3", "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "29500"}


def on_hosts(plan: Plan, *hosts: int) -> Plan:
    """Return a plan with a device for each host."""
    devices = tuple(
        dataclasses.replace(plan.devices[0], name=f"cpu:{number}", host=host)
        for number, host in enumerate(hosts)
    )
    return dataclasses.replace(plan, devices=devices)


def test_a_launcher_says_who_this_is() -> None:
    assert launch_of(FULL) == Launch(rank=1, size=3, address="10.0.0.1", port=29500)
    agent = {"TORCHELASTIC_USE_AGENT_STORE": "True", "TORCHELASTIC_RESTART_COUNT": "2"}
    launch = launch_of({**FULL, "RANK": "0", **agent})
    assert launch is not None
    assert (launch.agent_has_store, launch.attempt, launch.keeps_store) == (True, 2, False)


@pytest.mark.parametrize("name", FULL)
def test_without_one_of_the_four_variables_there_is_no_launcher(name: str) -> None:
    assert launch_of({**FULL, name: ""}) is None
    rest = {key: text for key, text in FULL.items() if key != name}
    assert launch_of(rest) is None
    assert half_launched(rest) == f"{', '.join(rest)} are set and {name} is not: run as one process"
    assert half_launched({name: "1"}) is not None
    assert half_launched(FULL) is None
    assert half_launched({}) is None


@pytest.mark.parametrize(
    ("name", "text", "wanted"),
    [
        ("RANK", "3", "from 0 to 2"),
        ("RANK", "-1", "from 0 to 2"),
        ("RANK", "\N{ARABIC-INDIC DIGIT ONE}", "from 0 to 2"),
        ("WORLD_SIZE", "two", "from 1 to 65536"),
        ("WORLD_SIZE", "0", "from 1 to 65536"),
        ("WORLD_SIZE", "99999999", "from 1 to 65536"),
        ("TORCHELASTIC_RESTART_COUNT", "again", "of at least 0"),
        ("MASTER_PORT", "70000", "from 1 to 65535"),
        ("MASTER_PORT", "9" * 5000, "from 1 to 65535"),
    ],
)
def test_a_variable_that_cannot_be_is_named(name: str, text: str, wanted: str) -> None:
    with pytest.raises(UsageError, match=f"{name}={text} .*expected a number {wanted}"):
        launch_of({**FULL, name: text})


def test_one_host_is_started_by_one_line(there_and_back: Plan) -> None:
    assert launch_lines(there_and_back, ["run", "my plan"]) == [
        "torchrun --nproc-per-node 2 -m dplace run 'my plan'"
    ]


def test_hosts_may_have_unlike_numbers_of_devices(there_and_back: Plan) -> None:
    first, second = launch_lines(on_hosts(there_and_back, 4, 2, 2), ["run", "plan"])
    start = "torchrun --nnodes 2 --node-rank"
    end = "--master-addr HOST0 --master-port 29500 -m dplace run plan"
    assert first == f"{start} 0 --nproc-per-node 1 {end}"
    assert second == f"{start} 1 --nproc-per-node 2 {end}"


def test_ranks_follow_the_devices_where_those_of_a_host_are_apart(there_and_back: Plan) -> None:
    lines = launch_lines(on_hosts(there_and_back, 0, 1, 0), ["run", "plan"])
    found: dict[int, int] = {}
    for host, line in enumerate(lines):
        for command in line.removesuffix("; wait").split(" & "):
            words = shlex.split(command)
            assert words[-5:] == ["python", "-m", "dplace", "run", "plan"]
            given = dict(word.split("=") for word in words[:-5])
            assert (given["WORLD_SIZE"], given["MASTER_ADDR"]) == ("3", "HOST0")
            found[int(given["RANK"])] = host
    assert found == {0: 0, 1: 1, 2: 0}
