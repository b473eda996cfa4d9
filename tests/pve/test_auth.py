"""Least privilege: which entries, which commands, and what a token lacks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from provision.errors import UsageError
from provision.pve.least_role import Grant, commands, grants, role_name
from provision.pve.privileges import needs, option_needs


def test_the_least_entries_for_each_path() -> None:
    found = grants(
        [
            *needs("mapping.list", mapping="gpu-0"),
            *needs("mapping.update", mapping="gpu-0"),
            *needs("cluster.status"),
            *needs("vm.start", vmid=100),
            *option_needs(100, "hostpci0", "mapping=gpu-0", None),
            *option_needs(100, "args", "-x", None),
            *needs("host.file"),
        ]
    )
    assert found == (
        Grant(path="/", privileges=("Sys.Audit",), propagate=False),
        Grant(path="/mapping/pci", privileges=("Mapping.Modify", "Mapping.Use")),
        Grant(path="/vms/100", privileges=("VM.Config.HWType", "VM.PowerMgmt")),
    )
    assert grants(needs("mapping.list", mapping="a"))[0].privileges == ("Mapping.Audit",)


def test_the_commands() -> None:
    found = grants([*needs("vm.start", vmid=100), *needs("vm.start", vmid=101), *needs("cluster.status")])
    assert commands(found, user="gpu@pve", token="ci") == (
        "pveum role add gpu-passthrough-root --privs Sys.Audit",
        "pveum role add gpu-passthrough-vms --privs VM.PowerMgmt",
        "pveum user add gpu@pve --comment pvectl",
        "pveum user token add gpu@pve ci --privsep 1",
        "pveum acl modify / --tokens 'gpu@pve!ci' --users gpu@pve --roles gpu-passthrough-root --propagate 0",
        "pveum acl modify /vms/100 --tokens 'gpu@pve!ci' --users gpu@pve --roles gpu-passthrough-vms",
        "pveum acl modify /vms/101 --tokens 'gpu@pve!ci' --users gpu@pve --roles gpu-passthrough-vms",
    )
    root = commands(found[:1], user="root@pam", token="ci", is_new=False)
    assert root[-1].startswith("pveum acl modify / --tokens 'root@pam!ci' --roles")
    two = grants([*needs("vm.start", vmid=100), *needs("vm.read", vmid=101)])
    assert [line.split()[3] for line in commands(two, user="u@pve", token="t")[:2]] == [
        "gpu-passthrough-vms",
        "gpu-passthrough-vms-more",
    ]


@pytest.mark.parametrize("name", ["pvectl", "PVEGpu", "with space", "", "a/b"])
def test_names_that_proxmox_keeps_or_refuses(name: str) -> None:
    with pytest.raises(UsageError, match="name of a role"):
        role_name(name)


@pytest.mark.story
def test_auth_on_the_lab(on_lab: Callable[..., Any]) -> None:
    host = on_lab()
    host.call("auth").must(0, "an API token", "ok", "pveum role add gpu-passthrough-mapping", "No token can do these")
    host.call("auth", "--role", "pvectl").must(64, "begins with PVE")
    assert '"missing": []' in host.call("auth", "--output", "json").must(0).out
    narrow = host.lab.host.node.access
    (name,) = narrow.tokens
    secret, caller = narrow.tokens[name]
    from dataclasses import replace

    acl = {"/": frozenset({"Sys.Audit"}), "/vms": frozenset({"VM.Audit"})}
    narrow.tokens[name] = (secret, replace(caller, everything=False, acl=acl))
    host.call("auth").must(3, "missing", "Mapping.Modify on /mapping/pci", "VM.PowerMgmt on /vms/100")
