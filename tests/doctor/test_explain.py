"""A rule or a pasted message is explained offline; unknown text is said to be unknown."""

from __future__ import annotations

import pytest

from provision.doctor.explain import explain, match, page, rule_list
from provision.doctor.rules import RULES
from provision.doctor.signatures import SIGNATURES
from provision.errors import Undecided

MESSAGES = [
    (
        "PCI device mapping invalid (hardware probably changed): 'iommugroup' does not match for 'x' (31 != 27)",
        "mapping-stale",
        "Mapping x records IOMMU group 27 for a device that is in group 31 now.",
    ),
    (
        "Invalid configuration: 'id' does not match for 'h200' (10de:2335 != 10de:2330)\n",
        "mapping-stale",
        "Mapping h200 records id 10de:2330, and the device at that address has 10de:2335",
    ),
    ("'subsystem-id' does not match for 'a1' (10de:18be != 10de:0000)", "mapping-stale", "subsystem-id 10de:0000"),
    ("'mdev' does not match for 'X' (1 != 0)", "mapping-stale", "mediated devices (1)"),
    ("pci device '0000:41:00.0' not found", "mapping-stale", "names 0000:41:00.0"),
    ("unexpected property 'iommugroup' configured for device '0000:41:00.0'", "mapping-stale", "no IOMMU"),
    ("'iommugroup' configured but should not be", "mapping-stale", "records iommugroup"),
    ("PCI device mapping invalid (hardware probably changed): something new", "mapping-stale", "does not match"),
    (
        "missing expected property 'subsystem-id' for device '0000:41:00.0'",
        "mapping-incomplete",
        "at 0000:41:00.0 has subsystem-id",
    ),
    ("no 'iommugroup' for device '0000:41:00.0'", "mapping-incomplete", "at 0000:41:00.0 has iommugroup"),
    ("PCI device mapping not found for 'rtx'", "mapping-incomplete", "Mapping rtx does not exist"),
    ("No mapping for node pve2.", "mapping-incomplete", "for node pve2"),
    ("cannot prepare PCI pass-through, IOMMU not present", "iommu-off", "no IOMMU is active"),
    ("No IOMMU detected, please activate it. See Documentation", "iommu-off", "no IOMMU is active"),
    ("[    0.1] DMAR: IOMMU disabled", "iommu-off", "told not to use it"),
    ("[    0.1] AMD-Vi: Unknown option - 'on'", "cmdline-noop", "amd_iommu=on"),
    (
        "W: Executing 'update-grub' directly does not update the correct configs!",
        "cmdline-not-applied",
        "proxmox-boot-tool refresh",
    ),
    ("No root= parameter in /etc/kernel/cmdline found!", "cmdline-not-applied", "lacks root="),
    (
        "vfio 0000:41:00.0: group 12 is not viable\nPlease ensure all devices within the iommu_group are bound",
        "group-foreign-device",
        "IOMMU group 12",
    ),
    ("can't unbind/bind PCI group to VFIO '0000:41:00.0'", "group-foreign-device", "group of 0000:41:00.0"),
    (
        "OVMF firmware might limit CPU 'phys-bits' to 40 - enable the 'pdpe1gb' CPU flag to avoid this",
        "cpu-caps-mmio-window",
        "40 address bits",
    ),
    (
        "NVRM: This PCI I/O region assigned to your NVIDIA device is invalid:",
        "cpu-caps-mmio-window",
        "no address space",
    ),
    ("pci 0000:01:00.0: BAR 1: no space for [mem size 0x2000000000 64bit pref]", "cpu-caps-mmio-window", "no address"),
    ("pci 0000:01:00.0: BAR 1 [mem size 0x2000000000]: can't assign; no space", "cpu-caps-mmio-window", "no address"),
    ('kvm: -set device.hostpci7.x=0: there is no device "hostpci7" defined', "clique-conflict", "of hostpci7"),
    ("NVIDIA GPUDirect Clique ID: unsupported PCI class", "clique-conflict", "no NVIDIA GPU"),
    ("Property x-nv-gpudirect-clique: valid range 0-15", "clique-conflict", "from 0 to 15"),
    ("could not find a free device for 'hostpci3'", None, "in use by another VM"),
    ("device '0000:41:00.0' assigned more than once", None, "Two slots"),
    ("PCI device '0000:41:00.0' already in use by VMID '101'", None, "VM 101 holds 0000:41:00.0"),
    ("PCI device '0000:41:00.0' is currently reserved for use by VMID '7'", None, "VM 7 holds"),
    ("q35 machine model is not enabled at /usr/share/perl5/PVE/QemuServer/PCI.pm line 510.", None, "pcie=1"),
    ("500 only root can set 'args' config", None, "takes args from root@pam"),
]


@pytest.mark.parametrize(("message", "rule", "sentence"), MESSAGES, ids=[m[:40] for m, _, _ in MESSAGES])
def test_each_known_message(message, rule, sentence):
    ((signature, said),) = match(message)
    assert signature.rule == rule
    assert sentence in said
    text = explain(message)
    assert said in text
    assert ("## What to do" in text) is (rule is not None)


def test_every_signature_has_a_message_here():
    used = {signature for message, _, _ in MESSAGES for signature, _ in match(message)}
    assert used == set(SIGNATURES)


def test_every_signature_names_a_rule_that_exists():
    assert {s.rule for s in SIGNATURES} - {None} <= {rule.id for rule in RULES}


@pytest.mark.parametrize(
    "pasted",
    [
        "> PCI device mapping invalid: 'iommugroup' does not\n> match for 'x' (31 != 27)",
        "\x1b[31mTASK ERROR: 'iommugroup' does not match for 'x' (31 != 27)\x1b[0m\r\n",
        "\u2018iommugroup\u2019 does not match for \u2018x\u2019 (31 != 27)",
        "Hi,\n\nmy VM says\n\n    'iommugroup' does not match\n    for 'x' (31 != 27)\n\nthanks",
    ],
)
def test_paste_damage_does_no_harm(pasted):
    assert [said for _, said in match(pasted)] == [
        "Mapping x records IOMMU group 27 for a device that is in group 31 now."
    ]


def test_several_messages_give_each_page_once():
    text = explain(
        "'iommugroup' does not match for 'x' (31 != 27) and 'iommugroup' does not match for 'y' (1 != 2) "
        "and cannot prepare PCI pass-through, IOMMU not present"
    )
    assert "Mapping x" in text
    assert "Mapping y" in text
    assert text.count("# mapping-stale: ") == 1
    assert text.count("# iommu-off: ") == 1


@pytest.mark.parametrize("rule", [rule.id for rule in RULES])
def test_each_rule_is_explained_by_its_page(rule):
    assert explain(f" {rule.upper()}\n") == explain(rule.replace("-", "_")) == page(rule)
    assert f"{rule} " in rule_list()


def test_text_that_nothing_matches():
    with pytest.raises(Undecided) as caught:
        explain("the printer is out of paper")
    assert caught.value.exit_code == 8
    assert "--list" in caught.value.hint
    with pytest.raises(Undecided) as caught:
        explain("maping-stale")
    assert caught.value.hint == "did you mean mapping-stale?"
    with pytest.raises(KeyError):
        page("../../secret")
