"""The table of expectations: its first version stays, changes say why, every name in it leads to a rule."""

from __future__ import annotations

import hashlib
from pathlib import Path

import catalogue
import pytest
import yaml

from provision.doctor.document_rules import BUNDLE_RULES, DOCUMENT_RULES
from provision.doctor.log.signatures import SIGNATURES
from provision.doctor.rules import RULES

HERE = Path(__file__).resolve().parent
FIRST_VERSION = "6d7db7ac0d04b77d5cf73d1e14d6f6b2b89b062ce87feab0b5ca08ac6e135e20"
SAID = {
    *(rule.id for rule in (*RULES, *DOCUMENT_RULES, *BUNDLE_RULES)),
    *(signature.name for signature in SIGNATURES),
    "bar-sizing-slow",
}
"""Every name under which a finding may appear."""
ROWS = yaml.safe_load((HERE / "expected.yaml").read_text("utf-8"))
CHANGES = yaml.safe_load((HERE / "changes.yaml").read_text("utf-8"))
REPLACED = frozenset({"vm-mapping-not-given"})
"""Names of the first version that a change has replaced."""


def test_the_first_version_stays_as_it_was():
    assert hashlib.sha256((HERE / "expected.yaml").read_bytes()).hexdigest() == FIRST_VERSION


def test_every_change_says_why_and_changes_something():
    first = {row["file"]: row for row in ROWS}
    assert len({change["file"] for change in CHANGES}) == len(CHANGES)
    for change in CHANGES:
        assert len(change["reason"].split()) > 8
        assert set(change) <= {"file", "reason", "verdict", "expect", "forbid"}
        assert any(first[change["file"]].get(key) != change[key] for key in change if key not in ("file", "reason"))


def test_rows_are_whole(score):
    for row in score.table():
        assert row["verdict"] in ("findings", "healthy", "unreadable")
        assert bool(row.get("expect")) == (row["verdict"] == "findings"), row["file"]
        for wanted in row.get("expect", ()):
            assert wanted["severity"] in ("error", "warning", "info")
            assert wanted["ids"]
            assert wanted["says"]


def test_every_expected_name_leads_to_a_rule(score):
    for row in score.table():
        for wanted in row.get("expect", ()):
            reached = {ours for name in wanted["ids"] for ours in (name, *score.OURS.get(name, ()))}
            assert reached & SAID or set(wanted["ids"]) <= REPLACED, wanted["ids"]


def test_the_catalogue_is_mapped_and_every_name_exists():
    assert len(catalogue.CATALOGUE) == 84  # 82 lines, two of which have two names
    for name, ours in {**catalogue.CATALOGUE, **catalogue.ALIASES}.items():
        assert ours, name
        assert set(ours) <= SAID, f"{name}: {set(ours) - SAID}"


@pytest.mark.corpus
def test_every_file_of_the_folder_has_a_row(score):
    root = score.corpus()
    assert root is not None, "PVECTL_CORPUS must name the folder with the public files"
    files = {str(path.relative_to(root)) for path in root.glob("*/*") if path.is_file()}
    assert files == {row["file"] for row in ROWS}
