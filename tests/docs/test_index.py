"""The pages made from rules, messages and codes: every name in them can be explained, and every name has its place."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from provision.doctor.explain import explanation, listing, rule_list
from provision.doctor.log.decoders.cuda import CUDA_ERRORS
from provision.doctor.log.decoders.xid import XIDS
from provision.doctor.log.signatures import SIGNATURES
from provision.readers.kinds import KINDS

DOCS = Path(__file__).parents[2] / "docs"
TARGET = re.compile(r"^\((rule|message)-([a-z0-9-]+)\)=$", re.MULTILINE)
LINK = re.compile(r"\(#(rule|message)-([a-z0-9-]+)\)")


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    """The pages as the code makes them now, not as they were written last."""
    sys.path.insert(0, str(DOCS))
    try:
        import generate

        return {
            "rules": generate.rules(),
            "symptoms": generate.index_by_symptom(),
            "pasted": generate.what_can_be_pasted(),
        }
    finally:
        sys.path.remove(str(DOCS))


def targets(text: str) -> list[tuple[str, str]]:
    return TARGET.findall(text)


def test_every_name_in_the_pages_is_listed_and_explained(pages):
    listed = {(part.kind, part.id) for part in listing()}
    found = targets(pages["rules"]) + targets(pages["symptoms"])
    assert len(found) == len(set(found))
    assert set(found) == listed
    shown = rule_list()
    for kind, name in found:
        assert re.search(rf"^  {re.escape(name)}  ", shown, re.MULTILINE), name
        parts = explanation(name).parts
        assert any(part.id == name for part in parts), f"{kind} {name}"


def test_every_link_leads_to_a_name(pages):
    known = set(targets(pages["rules"]) + targets(pages["symptoms"]))
    for text in pages.values():
        assert set(LINK.findall(text)) <= known


def test_every_name_of_a_finding_of_a_log_is_explained():
    for row in SIGNATURES:
        if row.nature != "marker":
            assert explanation(row.name).parts, row.name


def test_every_code_in_the_index_is_explained(pages):
    text = pages["symptoms"]
    xids = {int(number) for number in re.findall(r"^- `Xid (\d+)`: ", text, re.MULTILINE)}
    assert xids == set(XIDS)
    for number in xids:
        assert explanation(f"Xid {number}").parts[0].kind == "code"
    names = re.findall(r"^- `(\d+)`, `(CUDA_ERROR_\w+)`: ", text, re.MULTILINE)
    assert {int(number) for number, _ in names} == set(CUDA_ERRORS)
    for _, name in names:
        assert explanation(name).parts[0].kind == "code"


def test_a_message_is_shown_by_words_that_are_in_it(pages):
    for row in SIGNATURES:
        if row.nature != "marker" and row.anchors:
            _, _, rest = pages["symptoms"].partition(f"(message-{row.id})=\n### ")
            assert row.anchors[0].strip() in rest.partition("\n")[0] or not row.anchors[0].strip(), row.id


def test_every_kind_of_text_is_named(pages):
    for reader in KINDS:
        assert f"(`{reader.kind}`)" in pages["pasted"]
