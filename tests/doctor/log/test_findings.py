"""Causes take their consequences in: short logs, and what the doctor says about them."""

from __future__ import annotations

from pathlib import Path

import pytest

from provision.doctor.causes import absorb
from provision.doctor.finding import Finding, Undecidable
from provision.doctor.log.findings import log_findings
from provision.host.from_documents import model_of
from provision.readers.document import Document
from provision.readers.kernel_log import KernelLog, read

CASES = Path(__file__).parents[2] / "data" / "logs" / "cases"


def outcome(text: str, *, first_line: int = 1) -> list[Finding | Undecidable]:
    log = read(text)
    assert isinstance(log, KernelLog)
    document = Document(name="log.txt", kind="kernel-log", origin=log.origin, first_line=first_line, reading=log)
    return list(log_findings(document, model_of([])))


def sorted_out(text: str) -> tuple[list[Finding], list[Finding]]:
    """Return the findings that stand for themselves and those that follow from them."""
    kept, absorbed = absorb([one for one in outcome(text) if isinstance(one, Finding)])
    return list(kept), list(absorbed)


def case(name: str) -> str:
    return (CASES / f"{name}.txt").read_text()


def only(text: str) -> Finding:
    (finding,), _ = sorted_out(text)
    return finding


def test_one_window_too_small_on_eight_gpus_is_one_finding() -> None:
    (finding,), followers = sorted_out(case("window-eight-gpus"))
    assert finding.rule == "bar-noassign"
    assert finding.severity == "error"
    assert finding.subjects == tuple(f"0000:{number:02x}:00.0" for number in range(1, 9))
    assert "16 messages" in finding.summary
    assert any("cpu host" in line for line in finding.remedy)
    assert [(one.rule, one.severity, one.consequence_of) for one in followers] == [
        ("rminit", "info", ("bar-noassign",)),
    ]
    assert followers[0].subjects == finding.subjects
    assert "0x22:0xffff:662" in followers[0].summary
    assert any("None of the NVIDIA" in evidence.excerpt for evidence in finding.evidence)


def test_a_bar_that_got_its_place_at_the_second_try_is_no_fault() -> None:
    assert outcome(case("second-try")) == []


def test_the_next_boot_heals_nothing() -> None:
    assert only(case("two-boots")).rule == "bar-noassign"


def test_a_storm_is_one_finding() -> None:
    finding = only(case("storm"))
    assert (finding.rule, finding.severity) == ("xid", "warning")
    assert "13 (100x)" in finding.summary
    assert "process 4711" in finding.summary
    assert "first Nov 15 12:43:00, last Nov 15 12:44:39" in finding.summary
    assert len(finding.evidence) <= 12


def test_what_the_driver_says_about_gpu0_is_put_on_its_address() -> None:
    (finding,), followers = sorted_out(case("wpr2"))
    assert finding.rule == "wpr2"
    assert finding.subjects == ("0000:41:00.0", "0000:42:00.0")
    assert [one.rule for one in followers] == ["gsp-init", "rminit"]
    assert any("/devices/HOST_ADDRESS/reset" in line for line in finding.remedy)


def test_an_xid_that_needs_a_reset_takes_in_what_comes_after_it() -> None:
    kept, followers = sorted_out(case("lost-then-154"))
    assert [(one.rule, one.severity) for one in kept] == [("xid", "warning"), ("xid", "error")]
    assert "Xid 79" in kept[1].summary
    assert "13 (1x)" in kept[0].summary
    assert {one.rule for one in followers} == {"xid", "rminit"}


def test_faults_in_reserved_memory_are_told_from_others() -> None:
    finding = only(case("rmrr"))
    assert finding.rule == "iommu-fault"
    assert finding.subjects == ("0000:01:00.2", "0000:41:00.0")
    assert "RMRR" in finding.summary
    assert finding.consequence.startswith("0000:01:00.2 cannot be given")


def test_aer_bits_are_decoded_and_masked_ones_left_out() -> None:
    kept, followers = sorted_out(case("aer"))
    assert [(one.rule, one.severity, one.subjects) for one in kept] == [
        ("aer", "error", ("0000:41:00.0",)),
        ("aer", "warning", ("0000:42:00.0",)),
    ]
    assert followers == []
    assert "UnsupReq" in kept[0].summary
    assert "CmpltTO" not in kept[0].summary
    assert "RxErr" in kept[1].summary
    assert "BadTLP" in kept[1].summary


def test_a_line_that_proves_nothing() -> None:
    finding = only(case("iommu-enabled-only"))
    assert (finding.rule, finding.severity) == ("dmar-enabled", "info")
    assert outcome(case("iommu-enabled-and-at-work")) == []


def test_slow_sizing_of_large_bars() -> None:
    finding = only(case("slow-sizing"))
    assert (finding.rule, finding.severity, finding.subjects) == ("bar-sizing-slow", "info", ("0000:06:00.0",))
    assert "10 s" in finding.summary
    assert outcome(case("quick-sizing")) == []


def test_sound_of_a_passed_card_on_the_host() -> None:
    (finding,) = [one for one in sorted_out(case("sound-on-host"))[0] if one.rule != "log-harmless"]
    assert finding.rule == "group-functions-split"
    assert finding.subjects == ("0000:41:00.1",)


def test_harmless_lines_are_one_note() -> None:
    finding = only(case("harmless"))
    assert (finding.rule, finding.severity) == ("log-harmless", "info")
    assert len(finding.evidence) == 4


def test_a_failed_start_without_a_cause_asks_for_the_whole_log() -> None:
    outcomes = outcome("[1.000000] NVRM: GPU 0001:00:00.0: RmInitAdapter failed! (0x63:0x55:2344)")
    finding, question = outcomes
    assert isinstance(finding, Finding)
    assert finding.subjects == ("0001:00:00.0",)
    assert "not ready" in finding.summary
    assert isinstance(question, Undecidable)
    assert "0001:00:00.0" in question.missing
    assert "host" in question.supply


@pytest.mark.parametrize(
    ("asks", "severity", "word"),
    [
        ("Node Reboot Required", "error", "reboot"),
        ("GPU Reset Required", "error", "gpu-reset"),
        ("None", "info", "nvidia-smi"),
    ],
)
def test_xid_154_asks_for_a_recovery(asks: str, severity: str, word: str) -> None:
    finding = only(
        f"[1.000000] NVRM: Xid (PCI:0000:41:00): 154, GPU recovery action changed from 0x1 (x) to 0x2 ({asks})"
    )
    assert finding.severity == severity
    assert word in finding.remedy[0]


def test_a_vm_that_was_killed_is_an_error() -> None:
    assert only("[1.000000] Out of memory: Killed process 12 (kvm) total-vm:1kB").severity == "error"
    assert only("[1.000000] Out of memory: Killed process 12 (python) total-vm:1kB").severity == "info"


def test_evidence_has_the_lines_of_the_file() -> None:
    (finding,) = outcome("hello\n\n[1.000000] kernel BUG at drivers/x/y.c:12!", first_line=11)
    assert isinstance(finding, Finding)
    assert [(evidence.source, evidence.line) for evidence in finding.evidence] == [("log.txt", 13)]


def test_the_guest_is_sent_to_its_host_and_the_host_to_its_firmware() -> None:
    line = "[1.000000] pci 0000:41:00.0: BAR 1 [mem size 0x2000000000 64bit pref]: can't assign; no space"
    guest = only(f"[0.000000] Hypervisor detected: KVM\n{line}")
    unknown = only(line)
    assert all("qm set" in remedy for remedy in guest.remedy)
    assert any("Above 4G" in remedy for remedy in unknown.remedy)


def test_the_end_of_all_memory_is_said_in_bits() -> None:
    finding = only(
        "[1.0000] pci 0000:41:00.0: BAR 1: no space for [mem size 0x2000000000 64bit pref]\n"
        "[1.0001] pci 0000:41:00.0: BAR 1: [mem 0xffffffe000000000-0xffffffffffffffff 64bit pref] conflicts "
        "with PCI mem [mem 0x00000000-0xffffffffff]\n"
    )
    assert "40 address bits" in finding.summary


def test_amd_flags_are_decoded() -> None:
    finding = only(
        "[1.0] AMD-Vi: Event logged [IO_PAGE_FAULT device=41:00.0 domain=0x005e address=0xfffffffdf8030000 "
        "flags=0x0008]"
    )
    assert finding.subjects == ("0000:41:00.0",)
    assert "an interrupt, not memory" in finding.summary


def test_the_driver_of_an_xid_storm_names_programs() -> None:
    finding = only("[1.0] NVRM: Xid (PCI:0000:41:00): 31, pid=4711, name=python, Ch 00000008, intr 00000000. MMU Fault")
    assert "process 4711" in finding.summary
    assert finding.severity == "warning"
