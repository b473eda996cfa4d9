"""Runs one rule over a text as the doctor would."""

from __future__ import annotations

from pathlib import Path

from provision.doctor.finding import Finding, Undecidable
from provision.doctor.rule import DocumentRule
from provision.host.from_documents import model_of
from provision.readers.recognize import documents

DATA = Path(__file__).resolve().parents[2] / "data" / "nccl"


def example(name: str) -> str:
    return (DATA / name).read_text("utf-8")


def outcome(rule: DocumentRule, text: str) -> list[Finding | Undecidable]:
    """Return what the rule says of each document of its kinds in ``text``."""
    found, _ = documents("paste.txt", text)
    fitting = [document for document in found if document.kind in rule.kinds]
    assert fitting, f"no {sorted(rule.kinds)} among {[document.kind for document in found]}"
    return [said for document in fitting for said in rule.check(document, model_of(found))]


def only(rule: DocumentRule, text: str) -> Finding:
    """Return the one finding; it can be read and acted on."""
    (said,) = outcome(rule, text)
    assert isinstance(said, Finding)
    assert said.rule == rule.id
    assert said.subjects
    assert said.evidence
    assert all(evidence.line and evidence.source == "paste.txt" for evidence in said.evidence)
    assert said.consequence
    assert said.remedy
    assert said.source
    return said


def undecided(rule: DocumentRule, text: str) -> Undecidable:
    (said,) = outcome(rule, text)
    assert isinstance(said, Undecidable)
    assert said.supply
    return said
