"""kernel-log; its causes and words are tested in tests/doctor/log."""

from __future__ import annotations

from provision.doctor.document_rules import DOCUMENT_RULES
from provision.doctor.document_rules.kernel_log import RULE
from provision.doctor.finding import Finding, Undecidable
from provision.host.from_documents import model_of
from provision.readers.recognize import documents

FAILED = "[1.000000] NVRM: GPU 0000:41:00.0: RmInitAdapter failed! (0x22:0x65:884)\n"


def outcome(text: str) -> list[Finding | Undecidable]:
    (document,), _ = documents("log.txt", text)
    assert document.kind in RULE.kinds
    return list(RULE.check(document, model_of([document])))


def test_it_is_registered() -> None:
    assert RULE in DOCUMENT_RULES


def test_fires_on_a_failed_reset() -> None:
    (finding,) = outcome("[1.000000] vfio-pci 0000:41:00.0: not ready 65535ms after FLR; giving up\n")
    assert isinstance(finding, Finding)
    assert (finding.rule, finding.severity, finding.subjects) == ("flr-timeout", "error", ("0000:41:00.0",))


def test_is_silent_on_a_quiet_log() -> None:
    assert (
        outcome("[0.000000] Linux version 6.8.12-4-pve (x) #1 SMP\n[1.000000] vfio-pci 0000:41:00.0: enabling device\n")
        == []
    )


def test_cannot_decide_why_a_gpu_did_not_start() -> None:
    (question,) = [one for one in outcome(FAILED) if isinstance(one, Undecidable)]
    assert "0000:41:00.0" in question.missing
