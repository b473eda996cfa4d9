"""Damaged texts: no reader and no rule raises, lines stay inside the text, and work does not explode."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mutations import mutated

from provision.doctor.engine import diagnose
from provision.evidence import Unknown
from provision.host.from_documents import model_of
from provision.readers.document import Document
from provision.readers.kinds import KINDS
from provision.readers.mention import Mention
from provision.readers.recognize import documents

PASTES = Path(__file__).parents[1] / "data" / "pastes"
PATHS = sorted(PASTES.glob("*.txt"))
TEXTS = [path.read_text(encoding="utf-8") for path in PATHS]
FEW = 200
MANY = 100_000
SHARES = 20


def mentions(value: Any) -> Iterator[Mention]:
    """Every quoted line in a reading."""
    if isinstance(value, Mention):
        yield value
    elif isinstance(value, tuple | list):
        for item in value:
            yield from mentions(item)
    elif isinstance(value, dict):
        yield from mentions(list(value.values()))
    elif hasattr(type(value), "model_fields") and not isinstance(value, Unknown):
        yield from mentions([getattr(value, name) for name in type(value).model_fields])


def check(document: Document, lines: int) -> None:
    assert 1 <= document.first_line <= lines
    for mention in mentions(document.reading):
        assert 1 <= document.line(mention.line) <= lines


def survive(text: str) -> None:
    """Read and judge ``text`` as a whole, then read it by each reader, whether it is of its kind or not."""
    found, left = documents("mutated", text)
    lines = text.replace("\r\n", "\n").replace("\r", "\n").count("\n") + 1
    for document in found:
        check(document, lines)
    assert all(1 <= part.first <= part.last <= lines for part in left)
    report = diagnose(model_of(found), found)
    assert not report.crashed, report.crashed
    for finding in (*report.findings, *report.absorbed):
        assert all(1 <= (one.line or 1) <= lines for one in finding.evidence if one.source == "mutated")
    for reader in KINDS:
        assert 0.0 <= reader.recognize(text) <= 1.0
        reading = reader.read(text)
        assert reading is not None
        reader.origin_of(reading) if not isinstance(reading, Unknown) else None


@pytest.mark.parametrize("at", range(len(PATHS)), ids=[path.stem for path in PATHS])
def test_a_few_mutations(at: int) -> None:
    for number in range(FEW):
        survive(mutated(at + len(TEXTS) * number, TEXTS))


@pytest.mark.fuzz
@pytest.mark.parametrize("share", range(SHARES))
def test_many_mutations(share: int) -> None:
    for number in range(share, MANY, SHARES):
        survive(mutated(1_000_000 + number, TEXTS))


EVIL = {
    "one long line": "a" * 200_000,
    "blanks": " " * 200_000,
    "words": "word " * 40_000,
    "equals": "a=" * 100_000,
    "commas": "a," * 100_000,
    "brackets": "[" * 200_000,
    "objects": '[{"map":' * 25_000,
    "strings": '"' * 200_000,
    "tags": "<a>" * 60_000,
    "open tags": "<gpu " * 40_000,
    "comments": "<!--" * 50_000,
    "declarations": "<![" * 60_000,
    "bars": "|" * 200_000,
    "quotes": "> " * 100_000,
    "escapes": "\x1b[" * 100_000,
    "colons": "0000:00:00.0" * 15_000,
    "dashes": ("-" * 100 + "\n") * 2000,
    "prompts": "root@h:~# cat /x\n" * 10_000,
    "fences": "```\n" * 40_000,
    "headers": "GPU0\tGPU1\n" * 20_000,
    "rows": "GPU0 X\n" * 20_000,
    "continued": "pvesh create /cluster/mapping/pci \\\n" * 5_000,
    "maps": "'node=a,path=0000:01:00.0,id=1:2' " * 5_000,
    "options": "options vfio-pci ids=1\n" * 8_000,
    "lists": ("[\n{\n" * 30_000),
}


class Steps:
    """Counts calls of Python functions."""

    def __init__(self) -> None:
        self.count = 0

    def __enter__(self) -> Steps:
        sys.setprofile(self._step)
        return self

    def __exit__(self, *_error: object) -> None:
        sys.setprofile(None)

    def _step(self, _frame: object, event: str, _argument: object) -> None:
        self.count += event == "call"


@pytest.mark.parametrize("what", sorted(EVIL))
@pytest.mark.laws
def test_a_text_that_is_made_to_be_slow(what: str) -> None:
    survive(EVIL[what])


@pytest.mark.parametrize("name", [path.stem for path in PATHS])
def test_twice_the_text_is_at_most_about_twice_the_work(name: str) -> None:
    text = (PASTES / f"{name}.txt").read_text(encoding="utf-8")
    some, more = text * 20, text * 80
    with Steps() as few:
        documents("p", some)
    with Steps() as many:
        documents("p", more)
    assert many.count < few.count * 4 * 1.6 + 2000
