"""Privileges, start time and the MMIO window."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from provision.errors import UsageError
from provision.evidence import Unknown
from provision.pci.model import Bar
from provision.pve import names
from provision.pve.placement import Port, needed
from provision.pve.privileges import (
    OPERATIONS,
    Need,
    is_root_only,
    least,
    missing,
    needs,
    option_needs,
    options_need,
)
from provision.pve.start_timeout import start_timeout, start_timeout_of
from provision.pve.window import CLASSIC_WINDOW, GuestCpu, guest_cpu, window_bytes

GIB = 1 << 30
TIB = 1 << 40
RECORDED: list[dict[str, Any]] = [
    json.loads(line) for line in (Path(__file__).parents[1] / "data/pve-recordings/api.jsonl").read_text().splitlines()
]


# --- privileges --------------------------------------------------------------------------------------------


def held_by(who: str) -> dict[str, list[str]]:
    """Read ``role-token:PRIV,PRIV@/path;...``."""
    grants = who.removeprefix("role-token:")
    if grants.startswith("("):
        return {}
    return {path: privileges.split(",") for privileges, _, path in (g.partition("@") for g in grants.split(";"))}


@pytest.mark.counted
def test_recording_of_option_writes() -> None:
    """Who may set what, against what the real code allowed to tokens with exact roles."""
    checked = 0
    for row in RECORDED:
        is_write = row["method"] == "PUT" and row["path"] == "/nodes/pve1/qemu/100/config"
        if row["scenario"] != "permissions" or not is_write or not str(row["as"]).startswith("role-token:"):
            continue
        params = dict(row["params"])
        if "delete" in params or row["status"] == 400 or "bogus" in params or "hookscript" in params:
            continue
        found = options_need(100, params, (), {})
        lacking = missing(found, held_by(row["as"]), "token")
        assert bool(lacking) == (row["status"] != 200), (row["as"], params, row["reason"], found)
        named = re.search(r"\((\S+), (Mapping\.Use|VM\.Config\.\w+)\)", row["reason"])
        if named:
            assert (named[1], named[2]) in {(need.path, need.privilege) for need in lacking}
        checked += 1
    print(f"{checked} recorded writes")
    assert checked > 100


def test_recording_of_a_root_token_that_is_not_root() -> None:
    for row in RECORDED:
        match = re.fullmatch(r"only root can set '([^']+)' config", row["reason"] or "")
        if match:
            assert is_root_only(match[1])
            assert least(option_needs(100, match[1], "x", None)) == "ticket"


def test_the_old_value_counts() -> None:
    assert least(option_needs(100, "hostpci0", "mapping=gpu-0", "0000:41:00.0")) == "ticket"
    assert least(option_needs(100, "hostpci0", None, "0000:41:00.0")) == "ticket"
    assert least(option_needs(100, "hostpci0", "mapping=gpu-0,romfile=x", None)) == "ticket"
    assert least(option_needs(100, "hostpci0", "a=1,a=2", None)) == "ticket"
    both = option_needs(100, "hostpci0", "mapping=gpu-0", "mapping=rtx6000")
    assert {(need.path, need.privilege) for need in both} == {
        ("/vms/100", "VM.Config.HWType"),
        ("/mapping/pci/gpu-0", "Mapping.Use"),
        ("/mapping/pci/rtx6000", "Mapping.Use"),
    }


def test_operations() -> None:
    assert needs("mapping.update", mapping="gpu-0")[0].path == "/mapping/pci/gpu-0"
    assert needs("mapping.delete", mapping="gpu-0")[0].path == "/mapping/pci"
    assert needs("node.reboot", node="pve1")[0].privilege == "Sys.PowerMgmt"
    assert needs("vm.start", vmid=100)[0].path == "/vms/100"
    for operation in OPERATIONS:
        assert needs(operation, node="n", mapping="m", vmid=1)
    assert least(needs("host.file")) == "root-shell"
    assert least(()) == "token"
    assert missing(needs("host.file"), {}, "ticket") == needs("host.file")
    assert missing(needs("host.file"), {}, "root-shell") == ()
    assert missing(needs("vm.start", vmid=100), {"/": ["VM.PowerMgmt"]}, "token") == ()
    assert missing(needs("vm.start", vmid=100), {"/": ["VM.PowerMgmt"], "/vms": []}, "token")
    assert isinstance(needs("vm.read", vmid=1)[0], Need)


# --- names -------------------------------------------------------------------------------------------------


def test_names() -> None:
    assert (names.mapping_id("gpu-0"), names.node_name("pve1"), names.vm_id(100)) == ("gpu-0", "pve1", 100)
    assert names.upid_node("UPID:pve-2:0000014A:0004643D1:6B0C8600:qmstart:100:root@pam!pvectl:") == "pve-2"
    for bad in ("x", "1a", "a/b", "a.b", ""):
        with pytest.raises(UsageError):
            names.mapping_id(bad)
    for bad in ("-a", "a-", "a.b", "a/b", ""):
        with pytest.raises(UsageError):
            names.node_name(bad)
    with pytest.raises(UsageError):
        names.vm_id(99)
    with pytest.raises(ValueError, match="not the id of a task"):
        names.upid_node("UPID:x")


# --- start time --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("memory", "hostpci", "hugepages", "nics", "seconds"),
    [
        (512, False, False, 0, 30),
        (30720, True, False, 1, 125),
        (524288, True, False, 1, 2053),
        (1572864, True, False, 1, 6149),
        (2048, False, True, 2, 160),
        (524288, False, True, 0, 512),
    ],
)
def test_start_timeout(memory: int, hostpci: bool, hugepages: bool, nics: int, seconds: int) -> None:
    assert start_timeout(memory, hostpci, hugepages, nics) == seconds


def test_start_timeout_of_options() -> None:
    options = {"memory": "524288", "hostpci0": "mapping=a1", "net0": "virtio", "network": "x", "hugepages": "1024"}
    assert start_timeout_of(options) == 2053
    assert start_timeout_of({"memory": "current=1048576"}) == 1024
    assert start_timeout_of({}) == 30


# --- window ------------------------------------------------------------------------------------------------


def bars(*sizes: int) -> tuple[Bar, ...]:
    return tuple(
        Bar(index=2 * number, start=0, size=size, is_64bit=True, is_prefetchable=True)
        for number, size in enumerate(sizes)
    )


@pytest.mark.parametrize(
    ("gpus", "size"),
    [
        ([], 0),
        ([bars(128 * GIB, 32 << 20)] * 8, 7 * 256 * GIB + 128 * GIB + (32 << 20)),
        ([bars(256 * GIB, 32 << 20)] * 16, 15 * 512 * GIB + 256 * GIB + (32 << 20)),
        ([bars(16 * GIB)] * 8, 128 * GIB),
        ([bars(16 * GIB, 32 << 20)] * 4, 112 * GIB + (32 << 20)),
        ([(Bar(index=0, start=0, size=16 << 20), Bar(index=6, start=0, size=GIB, is_64bit=True))], 0),
    ],
)
def test_needed(gpus: list[tuple[Bar, ...]], size: int) -> None:
    assert needed([Port.of(each) for each in gpus]) == size


@pytest.mark.parametrize(
    ("cpu", "bits", "vendor", "args", "window"),
    [
        ("host", 52, "AuthenticAMD", None, 8 * TIB),
        ("host", 46, "GenuineIntel", None, 8 * TIB),
        ("host,flags=-pdpe1gb", 52, "AuthenticAMD", None, 128 * GIB),
        (None, 52, "AuthenticAMD", None, 128 * GIB),
        ("x86-64-v2-AES", 52, "AuthenticAMD", None, 128 * GIB),
        ("x86-64-v2-AES", 52, "GenuineIntel", None, CLASSIC_WINDOW),
        ("x86-64-v2-AES,phys-bits=48", 52, "AuthenticAMD", None, 128 * GIB),
        ("x86-64-v2-AES,phys-bits=48,flags=+aes;+pdpe1gb", 52, "AuthenticAMD", None, 8 * TIB),
        ("x86-64-v2-AES,phys-bits=host,flags=+pdpe1gb", 44, "AuthenticAMD", None, 2 * TIB),
        ("EPYC-Genoa", 52, "AuthenticAMD", None, 128 * GIB),
        ("EPYC-Genoa,phys-bits=host", 52, "AuthenticAMD", None, 8 * TIB),
        ("host,guest-phys-bits=42", 52, "AuthenticAMD", None, 512 * GIB),
        ("host", 52, "x", "-fw_cfg name=opt/ovmf/X-PciMmio64Mb,string=4194304", 4 * TIB),
        ("kvm64", 52, "x", "-fw_cfg name=opt/ovmf/X-PciMmio64Mb,string=4194304", 0),
        ("host", 52, "x", "-fw_cfg name=opt/ovmf/X-PciMmio64Mb,string=0", 8 * TIB),
        ("host", 52, "x", "-unclosed '", 8 * TIB),
    ],
)
def test_window(cpu: str | None, bits: int, vendor: str, args: str | None, window: int) -> None:
    assert window_bytes(cpu, bits, vendor, args) == window


def test_the_window_is_unknown_without_its_facts() -> None:
    dark = Unknown(unknown="not read")
    assert window_bytes("host", dark, "x") == dark
    assert window_bytes("x86-64-v2-AES", dark, "AuthenticAMD") == 128 * GIB
    assert window_bytes("x86-64-v2-AES", 52, dark) == dark
    assert isinstance(window_bytes("custom-mine", 52, "x"), Unknown)
    assert isinstance(window_bytes("host,host", 52, "x"), Unknown)
    assert guest_cpu("host", 52, dark) == GuestCpu(bits=52, has_1g_pages=True, vendor=dark)
