"""Damaged logs through reader and findings: no exception, and twice the text is twice the work."""

from __future__ import annotations

import contextlib
import random
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from provision.doctor.explain import explanation
from provision.doctor.log.decoders import by_name, decode
from provision.doctor.log.findings import log_findings
from provision.errors import Undecided
from provision.evidence import Unknown
from provision.host.from_documents import model_of
from provision.readers.document import Document
from provision.readers.kernel_log import read, recognize

LOGS = Path(__file__).parents[2] / "data" / "logs"
EXAMPLES = sorted([*(LOGS / "forms").iterdir(), *(LOGS / "cases").iterdir()])
EMPTY = model_of([])
STRANGE = (
    "\x00",
    "\x1b[",
    "\r",
    "[",
    "]",
    "{",
    "(",
    '"',
    ": ",
    "0x",
    "9" * 400,
    " " * 200,
    "> ",
    "<6>",
    "6,1,2,-;",
    "\u2028",
)


def work_on(text: str) -> None:
    recognize(text)
    log = read(text)
    if not isinstance(log, Unknown):
        document = Document(name="x", kind="kernel-log", origin=log.origin, first_line=1, reading=log)
        for one in log_findings(document, EMPTY):
            assert one.model_dump_json()


def mutated(dice: random.Random, text: str, other: str) -> str:
    for _ in range(dice.randrange(1, 4)):
        at, end = sorted(dice.randrange(len(text) + 1) for _ in range(2))
        change = dice.randrange(6)
        if change == 0:
            text = text[:at] + dice.choice(STRANGE) + text[at:]
        elif change == 1:
            text = text[:at] + text[min(end, at + 80) :]
        elif change == 2:
            text = text[:at] + chr(dice.randrange(1, 0x2FF)) + text[at + 1 :]
        elif change == 3:
            text = text[:at] + other[: end - at]
        elif change == 4:
            text = text.replace("\n", dice.choice(("", "\r\n", "\n> ", "\n\n", "\r")), dice.randrange(1, 6))
        else:
            text = text.replace(dice.choice("0123456789abcdef:[]"), dice.choice(("", "x", "99999999999")), 5)
    return text


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_damaged_logs(path: Path) -> None:
    dice = random.Random(path.name)
    text = path.read_bytes().decode()
    for _ in range(200):
        work_on(mutated(dice, text, dice.choice(EXAMPLES).read_bytes().decode()))


def test_damaged_messages_are_explained_or_not() -> None:
    dice = random.Random(7)
    lines = (LOGS / "messages.txt").read_text().splitlines()
    for _ in range(200):
        text = mutated(dice, dice.choice(lines), dice.choice(lines))
        decode(text)
        by_name(text)
        with contextlib.suppress(Undecided):
            explanation(text)


def steps(action: Callable[[], Any]) -> int:
    """Return how many functions were called, those of C among them."""
    counted = 0

    def count(_frame: FrameType, event: str, _argument: Any) -> None:
        nonlocal counted
        counted += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        action()
    finally:
        sys.setprofile(before)
    return counted


def long_wrap(number: int) -> str:
    return "[    1.000000] NVRM: " + "word " * 12 + "\n" + ("word " * 14 + "\n") * number


@pytest.mark.parametrize(
    "make",
    [
        lambda n: "".join(f"[{i:12.6f}] NVRM: Xid (PCI:0000:41:00): 31, pid={i}, x\n" for i in range(n)),
        lambda n: "".join(
            f"[{i:12.6f}] pci 0000:{i % 256:02x}:00.0: BAR 1: no space for [mem {i}]\n" for i in range(n)
        ),
        lambda n: "plain words that are no message at all\n" * n,
        lambda n: "(" * n + "\n" + "[" * n,
        lambda n: "> " * n + "\n" + "\r" * n,
        lambda n: '{"MESSAGE":' * n,
        lambda n: " KEY=value\n" * n,
        lambda n: "[    1.000000] a" * n,
        long_wrap,
    ],
    ids=["same", "devices", "prose", "brackets", "quotes", "json", "keys", "glued", "wrapped"],
)
def test_twice_the_text_is_twice_the_work(make: Callable[[int], str]) -> None:
    work_on(make(50))
    small, large = steps(lambda: work_on(make(1500))), steps(lambda: work_on(make(3000)))
    assert large <= 2.3 * small + 2000
