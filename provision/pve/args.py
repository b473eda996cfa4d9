"""The ``args:`` option of a VM: extra words of QEMU's command line, one changed, the rest as it was.

Proxmox splits the text as a shell would (qemu-server src/PVE/QemuServer.pm) and silently drops all of
it when a quote is not closed.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

_WORD = re.compile(r"""(?:[^\s'"\\]|\\.|'[^']*'|"(?:[^"\\]|\\.)*")+""", re.DOTALL)
_SPACE = re.compile(r"\s*")


class ArgsError(ValueError):
    """The text has an unclosed quote: Proxmox ignores it as a whole."""


@dataclass(frozen=True)
class Args:
    """Raw words with the blanks before each; ``parse(text).render() == text``."""

    words: tuple[tuple[str, str], ...]
    """Blanks and word as written."""
    tail: str = ""

    @classmethod
    def parse(cls, text: str) -> Args:
        """Read ``text``.  Raises :class:`ArgsError`."""
        words: list[tuple[str, str]] = []
        position = 0
        while True:
            blank = _SPACE.match(text, position)
            start = blank.end() if blank else position
            word = _WORD.match(text, start)
            if word is None:
                break
            words.append((text[position:start], word[0]))
            position = word.end()
        if text[position:].strip():
            raise ArgsError(f"an unclosed quote in args: {text!r}")
        return cls(tuple(words), text[position:])

    def render(self) -> str:
        return "".join(blank + word for blank, word in self.words) + self.tail

    @property
    def values(self) -> tuple[str, ...]:
        """The words as QEMU gets them."""
        return tuple("".join(shlex.split(word)) for _, word in self.words)

    def add(self, *words: str) -> Args:
        """Return the text with ``words`` at the end."""
        new = tuple((" " if self.words or number else "", shlex.quote(word)) for number, word in enumerate(words))
        return Args((*self.words, *new), self.tail if not self.tail.strip(" \t") else "")

    def remove(self, *words: str) -> Args:
        """Return the text without each run of words equal to ``words``."""
        kept: list[tuple[str, str]] = []
        values = self.values
        at = 0
        while at < len(values):
            if values[at : at + len(words)] == words:
                at += len(words)
                continue
            kept.append(self.words[at])
            at += 1
        if kept and not (self.words and kept[0] == self.words[0]):
            kept[0] = ("", kept[0][1])
        return Args(tuple(kept), self.tail)
