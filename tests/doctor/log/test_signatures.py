"""Each row of the table: a message that it knows, a near miss, a pattern that cannot run away."""

from __future__ import annotations

import re
import string
from pathlib import Path
from typing import Any

import pytest

from provision.doctor.document_rules import DOCUMENT_RULES
from provision.doctor.log.sighting import look
from provision.doctor.log.signature import Signature
from provision.doctor.log.signatures import BY_ID, SIGNATURES
from provision.doctor.rules import RULES
from provision.readers.kernel_log_join import messages
from provision.readers.kernel_log_keep import TOPICS
from provision.readers.kernel_log_record import Record

PARSER: Any = re._parser  # type: ignore[attr-defined]
REPEATS = {"MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"}
MOST_REPEATS = 512
MOST_STEPS = 20_000
TOGETHER = {"bar-sizing-slow", "sound-on-host"}
"""Rows that no single message shows; tests/doctor/log/test_findings.py has a log for each."""


def read_table() -> dict[str, tuple[list[str], list[str]]]:
    """Return messages and near misses by the name of the row."""
    table: dict[str, tuple[list[str], list[str]]] = {}
    name = ""
    for line in (Path(__file__).parents[2] / "data" / "logs" / "messages.txt").read_text().splitlines():
        if line.startswith("["):
            name = line[1:-1]
            assert name not in table, name
            table[name] = ([], [])
        elif line.startswith(("+ ", "- ")):
            table[name][line.startswith("- ")].append(line[2:])
    return table


TABLE = read_table()
FIRES = [(name, text) for name, (hits, _) in TABLE.items() for text in hits]
NEAR = [(name, text) for name, (_, misses) in TABLE.items() for text in misses]


def record_of(text: str) -> Record:
    (record,) = messages([f"[    1.000000] {text}"])
    return record


def test_every_row_has_a_message_and_a_near_miss() -> None:
    assert set(TABLE) == set(BY_ID) - TOGETHER
    assert len(BY_ID) == len(SIGNATURES)
    assert all(hits and misses for hits, misses in TABLE.values())


@pytest.mark.parametrize(("name", "text"), FIRES)
def test_it_fires(name: str, text: str) -> None:
    record = record_of(text)
    assert name in [sighting.id for sighting in look(record)]
    assert any(topic in record.text for topic in TOPICS), "the reader would drop it from a long log"


@pytest.mark.parametrize(("name", "text"), NEAR)
def test_it_is_silent(name: str, text: str) -> None:
    assert name not in [sighting.id for sighting in look(record_of(text))]


@pytest.mark.parametrize(
    ("name", "text"), [(name, text) for name, text in FIRES if ":41:00" in text or "[41:00" in text]
)
def test_the_device_is_read(name: str, text: str) -> None:
    (sighting,) = [one for one in look(record_of(text)) if one.id == name]
    assert sighting.subject == "0000:41:00.0" or "0000:41:00.1" in text


@pytest.mark.parametrize("row", SIGNATURES, ids=lambda row: row.id)
def test_a_row_is_complete(row: Signature) -> None:
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", row.id)
    assert row.summary
    assert row.consequence
    assert row.source
    assert row.remedy or row.nature in ("harmless", "marker")
    assert row.severity == "info" or row.nature in ("fault", "no-proof")
    assert row.id not in {rule.id for rule in (*RULES, *DOCUMENT_RULES)}
    fields = {field for _, field, _, _ in string.Formatter().parse(row.summary) if field}
    assert fields <= {"where", "seconds", *row.regex.groupindex}
    assert row.rule is None or row.rule in {rule.id for rule in RULES}


def test_explanations_name_rows_and_make_no_circle() -> None:
    for row in SIGNATURES:
        assert {*row.explains, *row.unless} <= set(BY_ID), row.id
    done: dict[str, bool] = {}

    def visit(name: str) -> None:
        assert done.get(name) is not False, f"{name} explains itself"
        if name not in done:
            done[name] = False
            for other in BY_ID[name].explains:
                visit(other)
            done[name] = True

    for row in SIGNATURES:
        visit(row.id)


@pytest.mark.parametrize("row", [row for row in SIGNATURES if row.id not in TOGETHER], ids=lambda row: row.id)
def test_an_anchor_is_in_each_text_that_matches(row: Signature) -> None:
    for text in TABLE[row.id][0]:
        joined = record_of(text).text
        assert any(anchor in joined for anchor in row.anchors)


@pytest.mark.parametrize("row", SIGNATURES, ids=lambda row: row.id)
def test_a_pattern_cannot_run_away(row: Signature) -> None:
    """Every repeat is bounded and none stands in another, so the work for a place of the text has a fixed limit."""
    assert work(PARSER.parse(row.regex.pattern), inside=False) <= MOST_STEPS


def work(pattern: Any, *, inside: bool) -> int:
    """Return about how many ways there are to match from one place: the product over what matches nearly anything."""
    ways = 1
    for kind, argument in pattern:
        name = str(kind)
        if name in REPEATS:
            low, high, body = argument
            assert int(high) <= MOST_REPEATS, f"up to {high} repeats"
            assert not (inside and high > 1 and high != low), "a repeat within a repeat"
            ways *= int(high) - int(low) + 1 if is_wide(body) else 1
            ways *= work(body, inside=inside or high > 1)
        elif name == "BRANCH":
            ways *= sum(work(option, inside=inside) for option in argument[1])
        elif name == "SUBPATTERN":
            ways *= work(argument[-1], inside=inside)
        elif name in ("ASSERT", "ASSERT_NOT"):
            ways *= work(argument[1], inside=inside)
    return ways


def is_wide(body: Any) -> bool:
    """Whether a repeat is over anything, or anything but a few characters."""
    (kind, argument), *more = body
    if more:
        return False
    return str(kind) == "ANY" or (str(kind) == "IN" and str(argument[0][0]) == "NEGATE")
