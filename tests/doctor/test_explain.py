"""A rule, a code or a pasted message is explained offline; unknown text is said to be unknown."""

from __future__ import annotations

import json
import re

import pytest

from provision.cli.app import run
from provision.doctor.document_rules import DOCUMENT_RULES
from provision.doctor.explain import explain, explanation, listing, page, rule_list
from provision.doctor.log.pasted import match
from provision.doctor.log.signatures import SIGNATURES
from provision.doctor.rules import RULES
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
    ("hardware probably changed: missing expected property", "mapping-incomplete", "which one is cut off"),
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
        "no usable address",
    ),
    ("pci 0000:01:00.0: BAR 1: no space for [mem size 0x2000000000 64bit pref]", "cpu-caps-mmio-window", "no space"),
    ("pci 0000:01:00.0: BAR 1 [mem size 0x2000000000]: can't assign; no space", "cpu-caps-mmio-window", "no space"),
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


def test_every_row_of_proxmox_has_a_message_here():
    used = {signature.id for message, _, _ in MESSAGES for signature, _ in match(message)}
    assert used >= {signature.id for signature in SIGNATURES if signature.family == "proxmox"}


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


@pytest.mark.parametrize("rule", [rule.id for rule in DOCUMENT_RULES])
def test_rules_over_documents_have_a_page_too(rule):
    assert explain(rule).startswith(f"# {rule}: ")


@pytest.mark.parametrize("row", [s for s in SIGNATURES if s.nature != "marker"], ids=lambda row: row.id)
def test_each_message_is_explained_by_its_name(row):
    (part,) = [part for part in explanation(row.id).parts if (part.kind, part.id) == ("message", row.id)]
    assert "{" not in "".join((part.title, *part.body, *part.remedy))
    assert f"  {row.id} " in rule_list()


@pytest.mark.parametrize("family", sorted({row.family for row in SIGNATURES}))
def test_each_family_has_a_page(family):
    text = explain(family)
    assert text.startswith(f"# {family}: ")
    parts = re.split(r"(?m)^## (.+)$", "\n".join(explanation(family).parts[0].body))
    assert parts[1::2] == ["What it means", "How we know", "What to do", "When this is wrong", "Sources"]
    assert all(len(body.strip()) > 30 for body in parts[2::2])


def test_rows_that_are_reported_together():
    assert {part.id for part in explanation("iommu-fault").parts} >= {"dmar-fault", "amdvi-page-fault"}
    assert all(part.title == "harmless" for part in explanation("log-harmless").parts)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Xid 79", ["fallen off the bus", "RESTART_BM"]),
        ("xid79", ["fallen off the bus"]),
        ("802", ["SYSTEM_NOT_READY", "fabric"]),
        ("CUDA_ERROR_SYSTEM_NOT_READY", ["802"]),
        ("error 802", ["SYSTEM_NOT_READY"]),
        ("0x22:0x56:884", ["attach", "not supported"]),
        ("NVRM: Xid (PCI:0000:41:00): 154, GPU recovery action: Node Reboot Required", ["Node Reboot Required"]),
        ("DMAR: IOMMU enabled", ["proves nothing", "/sys/class/iommu"]),
        ("vfio-pci 0000:41:00.0: vfio_ecap_init: hiding ecap 0x1e@0x258", ["harmless"]),
        (
            "AMD-Vi: Event logged [IO_PAGE_FAULT device=41:00.0 domain=0x005e address=0xd0000000 flags=0x0020]",
            ["write"],
        ),
    ],
)
def test_codes_and_messages(text, words):
    said = explain(text)
    for word in words:
        assert word in said


def test_a_log_of_several_lines_explains_each():
    said = explain(
        "[    5.559842] NVRM: The NVIDIA GPU 0000:41:00.0 (PCI ID: 10de:2bb5)\n"
        "               NVRM: installed in this system requires use of the NVIDIA open kernel modules.\n"
        "[    5.559858] NVRM: GPU 0000:41:00.0: RmInitAdapter failed! (0x22:0x56:884)\n"
    )
    assert "need-open: " in said
    assert "rminit: " in said
    assert "attach of the GPU" in said


def test_text_that_nothing_matches():
    with pytest.raises(Undecided) as caught:
        explain("the printer is out of paper")
    assert caught.value.exit_code == 8
    assert "--list" in caught.value.hint
    assert "Xid" in caught.value.hint
    with pytest.raises(Undecided) as caught:
        explain("maping-stale")
    assert caught.value.hint == "did you mean mapping-stale?"
    with pytest.raises(KeyError):
        page("../../secret")


def test_json(capsys):
    assert run(["explain", "--output", "json", "xid79"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["schema"] == "pvectl.explanation/1"
    (part,) = answer["data"]["parts"]
    assert (part["kind"], part["id"]) == ("code", "xid 79")
    assert run(["explain", "--list", "--output", "json"]) == 0
    listed = json.loads(capsys.readouterr().out)["data"]["parts"]
    assert len(listed) == len(listing())


def test_unknown_text_ends_with_8(capsys):
    assert run(["explain", "the printer is out of paper"]) == 8
    assert "looked for" in capsys.readouterr().err
