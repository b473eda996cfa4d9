"""The report: what to do first stands first, evidence has file and line, unknown is shown as unknown."""

from __future__ import annotations

import re

from provision.doctor.engine import diagnose
from provision.doctor.finding import Crash, Report, Undecidable
from provision.doctor.rules import RULES
from provision.doctor.text import report_text
from provision.evidence import Unknown

GONE = Unknown(unknown="permission denied", supply="take the capture as root")


def test_the_whole_report_of_one_sick_host(build, examples):
    model = build(
        cmdline=f"{examples.cmdline} amd_iommu=on",
        grub=examples.grub,
        functions=examples.regrouped("0000:41:00.0", 27),
    ).model()
    assert report_text(diagnose(model), "pve1", next_command="pvectl plan pve1") == (
        "pve1: 1 error, 1 warning, 1 note\n"
        "\n"
        "pvectl plan changes this (1)\n"
        "\n"
        "ERROR mapping-stale: mapping gpu-0: 1 of 1 entries do not match the hardware any more\n"
        "    /etc/pve/mapping/pci.cfg:2: map id=10de:2bb5,iommugroup=31,node=pve1,path=0000:41:00.0,"
        "subsystem-id=10de:204e\n"
        "    /sys/bus/pci/devices/0000:41:00.0: 'iommugroup' does not match for 'gpu-0' (27 != 31)\n"
        "  so: VM 100 will not start: PCI device mapping invalid (hardware probably changed): 'iommugroup' does not "
        "match for 'gpu-0' (27 != 31)\n"
        "  do: pvectl plan   # rewrites the entries from the hardware, then pvectl apply\n"
        "\n"
        "In the firmware, at the hardware or with a reboot (1)\n"
        "\n"
        "WARNING cmdline-not-applied: /etc/default/grub is not applied; running, but no longer in the file: "
        "amd_iommu=on\n"
        "    /proc/cmdline:1: amd_iommu=on\n"
        "  so: the host runs with other settings than its files say, and the next reboot changes them\n"
        "  do: update-grub\n"
        "  do: reboot the host\n"
        "\n"
        "Good to know (1)\n"
        "\n"
        "INFO cmdline-noop: without effect on the kernel command line: amd_iommu=on\n"
        "    /proc/cmdline:1: amd_iommu=on (the AMD IOMMU is on by default and the kernel does not know this value "
        "(it logs 'Unknown option'))\n"
        "  so: none; but it suggests a setting that is not there\n"
        "  do: leave it; pvectl plan removes it together with the next boot change (policies.boot.tidy)\n"
        "\n"
        f"Looked at, nothing found: {len(RULES) - 3} rules\n"
        "\n"
        "Next: pvectl plan pve1\n"
    )


def test_a_healthy_host(healthy):
    text = report_text(diagnose(healthy), "pve1")
    assert text.startswith("pve1: nothing found\n")
    assert f"Looked at, nothing found: {len(RULES)} rules" in text


def test_a_missing_fact_is_one_line_for_all_its_rules(healthy):
    proxmox = healthy.proxmox.model_copy(update={"mappings": GONE})
    text = report_text(diagnose(healthy.model_copy(update={"proxmox": proxmox})), "pve1")
    asked = [line for line in text.splitlines() if line.startswith("UNKNOWN ")]
    assert text.startswith(f"pve1: nothing found; {len(asked)} could not be decided\n")
    assert re.fullmatch(r"UNKNOWN \d rules: /etc/pve/mapping/pci.cfg: permission denied", asked[0])
    assert text.count("do: take the capture as root") == len(asked) < 4


def test_of_many_missing_facts_those_that_decide_most_are_shown():
    many = [Undecidable(rule="a", missing=f"fact {number}: gone", supply="s") for number in range(12)]
    many += [Undecidable(rule=rule, missing="fact x: gone", supply="s") for rule in "bcdef"]
    many += [Undecidable(rule="g", missing=f"link of 0000:0{bus}:00.0: gone", supply="s") for bus in range(4)]
    text = report_text(Report(findings=(), undecidable=tuple(many), silent=()), "paste")
    assert text.index("UNKNOWN 5 rules: fact x: gone") < text.index("UNKNOWN a: fact 0: gone")
    assert "... and 6 more facts (--output json shows all)" in text
    assert "14 could not be decided" in text
    few = report_text(Report(findings=(), undecidable=tuple(many[-4:]), silent=()), "paste")
    assert "UNKNOWN g: link of 0000:00:00.0: gone (and 3 more like it)" in few


def test_a_cause_names_what_it_explains(build, examples):
    text = report_text(diagnose(build(units=(), functions=examples.without_group()).model()), "pve1")
    assert "  explains mapping-stale: mapping gpu-0: 1 of 1 entries do not match" in text
    assert "  explains mapping-stale: mapping gpu-1: 1 of 1 entries do not match" in text
    assert "1 error\n" in text


def test_long_evidence_is_cut_with_its_count(build, examples):
    text = "pool\n" + "".join(
        f"\tmap id=10de:2bb5,iommugroup=1,node=pve1,path=0000:{bus:02x}:00.0,subsystem-id=10de:204e\n"
        for bus in range(0x50, 0x5A)
    )
    report = report_text(diagnose(build(mappings=text, vms={}).model()), "pve1")
    assert "10 of 10 entries" in report
    assert "... and 4 more (--output json shows all)" in report


def test_a_crash_is_ours(healthy):
    report = diagnose(healthy).model_copy(update={"crashed": (Crash(rule="x", error="KeyError: 1", trace=("a", "b")),)})
    assert "bug in pvectl: rule x failed: KeyError: 1\n    a\n    b" in report_text(report, "pve1")


def test_styles_are_asked_for_by_name(sick):
    seen = set()
    report_text(diagnose(sick["mapping-stale"]()), "pve1", style=lambda text, name: seen.add(name) or text)
    assert seen == {"bold", "red", "dim"}
