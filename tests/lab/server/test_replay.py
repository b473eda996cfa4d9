"""The lab answers what the real Proxmox code was recorded to answer."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from provision.lab import commands
from provision.lab.proxmox.node import Node
from provision.lab.supervisor import temporary_folder

from .replaying import Replay, node_for, replay, scenarios, write_hardware
from .replaying_http import replay_http


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder in memory where there is such a place: a sysfs tree has many files."""
    made = temporary_folder()
    yield made
    shutil.rmtree(made)


ALLOWED: dict[str, tuple[int, str]] = {
    "auth": (2, "the token did not exist yet; rights of another user's token are not listed"),
    "cluster-no-quorum": (3, "the lab has one node: what is said of the other one"),
    "mapping-entry-syntax": (1, "text outside ASCII is written as UTF-8"),
    "partial-put": (2, "what an asynchronous change leaves depends on a random order, as of a synchronous one"),
    "permissions": (1, "paths of the entries of other users are not listed"),
    "start-misc": (3, "image files are not looked for"),
    "tasks": (1, "the log of a start lacks a line of QEMU on an emulated CPU, so that a page of it is another one"),
    "vm-create": (1, "the copying of disks has no log lines"),
    "version-and-nodes": (2, "a node that has not reported yet; dates and issuers of certificates"),
}
"""How many answers of a scenario differ, and why."""

NOT_SERVED = {"cluster-two-nodes": "the lab has one node: the other's API, tasks and VMs are not there"}
"""Scenarios that are not made again."""

BY_HTTP = ("auth", "auth-login-params")
"""Scenarios about headers: they go through the server's own reading of them."""

UNSERVED_CALLS = {
    r"/access/ticket": "a GET of it is an empty place holder for forms",
    r"/access/users/.+": "users and tokens are made by the pveum commands that pvectl prints, never by itself",
    r"/|/cluster/mapping|/nodes/[^/]+(/hardware)?|/nodes/[^/]+/qemu/\d+(/status)?|/nodes/[^/]+/tasks/UPID[^/]+": (
        "lists of links: pvectl does not browse"
    ),
    r"/cluster/(resources|tasks)": "lags behind: pvectl reads the node itself",
    r"/cluster/(nextid|options|ha/.+|config/.+)": "pvectl takes ids from the inventory and joins no cluster",
    r"/nodes/[^/]+/hardware/pci/.+": "kinds of vGPUs: pvectl passes whole GPUs through",
    r"/nodes/[^/]+/(network|storage|capabilities/.+)": "read from the node's files",
    r"/nodes/[^/]+/qemu/\d+/(agent|firewall|monitor)/?.*": "pvectl talks to guests over SSH",
    r"/nodes/[^/]+/qemu/\d+/status/(reset|reboot|suspend)": "pvectl shuts down and starts: the others apply nothing",
    r"/nodes/[^/]+/tasks/.+/(status|log)": "of a task that such a call made",
}
"""Calls that the lab does not serve, and why pvectl does not need them."""


def again(name: str, folder: Path) -> Replay:
    make = replay_http if name in BY_HTTP else replay
    return make(name, scenarios()[name], folder)


@pytest.mark.parametrize("name", [name for name in scenarios() if name not in NOT_SERVED])
def test_the_lab_answers_as_recorded(name: str, folder: Path) -> None:
    result = again(name, folder)
    allowed, _reason = ALLOWED.get(name, (0, ""))
    assert result.counts["different"] <= allowed, "\n".join(result.differences)
    assert result.counts["equal"] > 0


def test_status_of_a_refused_change_is_as_recorded_even_where_its_rest_is_random(folder: Path) -> None:
    rows = [row for row in scenarios()["partial-put"] if row["method"] == "PUT"]
    result = replay("partial-put", rows, folder)
    assert result.counts == {"equal": len(rows)}


def test_most_exchanges_are_served_and_equal(folder: Path) -> None:
    total: Counter[str] = Counter()
    missing: Counter[str] = Counter()
    for name, rows in scenarios().items():
        if name in NOT_SERVED:
            total["not made again"] += sum(row["method"] != "EVENT" for row in rows)
            continue
        result = again(name, folder / name)
        total += result.counts
        missing += Counter(result.missing)
    print(f"\nreplayed: {dict(total)}")
    for path, reason in UNSERVED_CALLS.items():
        count = sum(number for one, number in missing.items() if re.fullmatch(path, one))
        print(f"  not served: {count:3} {path}: {reason}")
    for name, (count, reason) in ALLOWED.items():
        print(f"  different: {count:3} {name}: {reason}")
    without = [path for path in missing if not any(re.fullmatch(known, path) for known in UNSERVED_CALLS)]
    assert not without, f"not served and no reason: {without}"
    assert total["equal"] > 1420
    assert total["different"] <= sum(count for count, _ in ALLOWED.values())
    assert total["skipped"] <= 2


# --- the node's shell ------------------------------------------------------------------------


class Shell:
    """What commands see of a host, on a recorded state."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.root = node.root
        self.machine = None

    def request_reboot(self) -> None:
        raise AssertionError("nobody asked for a reboot")

    def is_hidden(self, command: str) -> bool:
        return False


def _served(row: dict[str, Any]) -> bool:
    return row["argv"][0] in ("qm", "pvesh")


@pytest.mark.parametrize("name", ["mapping", "start", "vm"])
def test_the_nodes_shell_answers_as_recorded(name: str, folder: Path) -> None:
    node = node_for(f"shell-{name}", folder)
    node.stubborn = set(range(100, 120))
    served, wrong, other = 0, [], Counter[str]()
    upids: dict[str, str] = {}
    for row in scenarios("pvesh.jsonl")[name]:
        if not row["argv"]:
            write_hardware(node.root, row["file"])
            continue
        if row["argv"][0] == "tee":
            node.root.write(row["argv"][1].replace("/etc/pve/qemu", "/etc/pve/nodes/pve1/qemu"), row["stdout"])
        if not _served(row):
            other[" ".join(row["argv"][:2])] += 1
            continue
        argv = tuple(_with_our_tasks(word, upids) for word in row["argv"])
        if argv == tuple(row["argv"]) and _UPID.search(" ".join(argv)):
            other["a task of an earlier recording"] += 1
            continue
        answer = commands.run(Shell(node), argv)
        served += 1
        upids |= dict(zip(_UPID.findall(row["stdout"]), _UPID.findall(answer.out), strict=False))
        if (answer.rc == 0) != (row["rc"] == 0) or _first(answer.err) != _first(row["stderr"]):
            wrong.append(f"{row['argv']}: recorded {row['rc']} {row['stderr']!r}, ours {answer.rc} {answer.err!r}")
    print(f"\n{name}: {served} commands, {len(wrong)} differ; not made again: {dict(other)}")
    assert served > 15
    assert not wrong, "\n".join(wrong)


_UPID = re.compile(r"UPID:pve1:[0-9A-F]+:[0-9A-F]+:[0-9A-F]+:\w+:\d*:root@pam:")


def _with_our_tasks(word: str, upids: dict[str, str]) -> str:
    return _UPID.sub(lambda found: upids.get(found[0], found[0]), word)


def _first(text: str) -> str:
    lines_ = [line for line in text.splitlines() if not line.startswith("kvm:")]
    return lines_[0] if lines_ else ""
