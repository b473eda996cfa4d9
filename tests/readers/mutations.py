"""Texts that were damaged at random, the same for one seed: what a reader must survive."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

Change = Callable[[random.Random, str, Sequence[str]], str]

_STRANGE = ("\x00", "\x1b[", "\r", "\ufffd", "\U0001d7d8", "٣", "\u2028", "[", "{", '"', "'", "<", "<!--", "<![CDATA[",
            "|", "\\",
            "=", ",", ":", "0x", "9" * 400, "-" * 40, " " * 300, "\t", ">", "> > ", "```", "[CODE]", "[/CODE]",
            "root@h:~# cat /etc/modprobe.d/x", "GPU0", "N/A", "1e999", "&#x110000;", "ERR!", "²")  # fmt: skip


def _cut(dice: random.Random, text: str, _others: Sequence[str]) -> str:
    at = dice.randrange(len(text) + 1)
    return text[:at] if dice.random() < 0.5 else text[at:]


def _without(dice: random.Random, text: str, _others: Sequence[str]) -> str:
    start, end = sorted(dice.randrange(len(text) + 1) for _ in range(2))
    return text[:start] + text[min(end, start + 200) :]


def _insert(dice: random.Random, text: str, _others: Sequence[str]) -> str:
    at = dice.randrange(len(text) + 1)
    return text[:at] + dice.choice(_STRANGE) + text[at:]


def _flip(dice: random.Random, text: str, _others: Sequence[str]) -> str:
    at = dice.randrange(len(text) + 1)
    return text[:at] + chr(dice.randrange(1, 0x2FF)) + text[at + 1 :]


def _lines(dice: random.Random, text: str, _others: Sequence[str]) -> str:
    lines = text.split("\n")
    one, other = dice.randrange(len(lines)), dice.randrange(len(lines))
    if dice.random() < 0.5:
        lines[one], lines[other] = lines[other], lines[one]
    else:
        lines.insert(one, lines[other])
    return "\n".join(lines)


def _joined(dice: random.Random, text: str, _others: Sequence[str]) -> str:
    return text.replace("\n", dice.choice(("", " ", "\r\n", "\n\n", "\n> ")), dice.randrange(1, 8))


def _mixed(dice: random.Random, text: str, others: Sequence[str]) -> str:
    other = dice.choice(others)
    return _cut(dice, text, others) + _cut(dice, other, others)


def _numbers(dice: random.Random, text: str, _others: Sequence[str]) -> str:
    return text.replace(dice.choice("0123456789"), dice.choice(("", "-1", "99999999999999999999", "x", "٣")), 5)


_CHANGES: tuple[Change, ...] = (_cut, _without, _insert, _insert, _flip, _flip, _lines, _joined, _mixed, _numbers)


def mutated(seed: int, texts: Sequence[str]) -> str:
    """Return one of ``texts`` with one to six changes."""
    dice = random.Random(seed)
    text = texts[seed % len(texts)]
    for _ in range(dice.randrange(1, 7)):
        text = dice.choice(_CHANGES)(dice, text, texts)
    return text
