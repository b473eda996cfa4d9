"""``/etc/network/interfaces`` and its parts: names of interfaces as words, renamed where they stand.

Everything that is not such a word is given back byte for byte: comments, options, commands, white space.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

INTERFACES_FILE = "/etc/network/interfaces"
INTERFACES_FOLDER = "/etc/network/interfaces.d"
_WORD = re.compile(r"\S+")


@dataclass(frozen=True)
class NameWord:
    """One word that is an interface's name, with what follows it: ``.20`` of a VLAN, ``:0`` of an alias."""

    start: int
    end: int
    line: int
    base: str
    suffix: str


@dataclass(frozen=True)
class InterfacesFile:
    text: str

    @classmethod
    def parse(cls, text: str) -> InterfacesFile:
        return cls(text)

    def render(self) -> str:
        return self.text

    def words(self, name: str) -> tuple[NameWord, ...]:
        """Return every word that is ``name``, or a VLAN or alias of it, outside comments."""
        return tuple(word for word in self._words() if word.base == name)

    def rename(self, names: Mapping[str, str]) -> InterfacesFile:
        """Return the file with new names; all at once, so that two may change places."""
        text = self.text
        for word in sorted(self._words(), key=lambda w: w.start, reverse=True):
            if word.base in names:
                text = text[: word.start] + names[word.base] + word.suffix + text[word.end :]
        return InterfacesFile(text)

    def doubtful(self, name: str) -> tuple[tuple[int, str], ...]:
        """Return number and text of lines in which ``name`` is part of a longer word: only a person can judge them."""
        part = re.compile(rf"(?<![A-Za-z0-9_-]){re.escape(name)}(?![A-Za-z0-9_-])")
        known = {(word.line, word.start) for word in self.words(name)}
        found = []
        for number, start, line in self._lines():
            hits = (start + match.start() for match in part.finditer(line))
            if any((number, hit) not in known for hit in hits):
                found.append((number, line.strip()))
        return tuple(found)

    def _lines(self) -> Iterator[tuple[int, int, str]]:
        position = 0
        for number, line in enumerate(self.text.split("\n"), start=1):
            if not line.lstrip().startswith("#"):
                yield number, position, line
            position += len(line) + 1

    def _words(self) -> Iterator[NameWord]:
        for number, start, line in self._lines():
            for match in _WORD.finditer(line):
                split = re.fullmatch(r"(?P<base>[A-Za-z0-9_-]+)(?P<suffix>(?:\.\d+)*(?::[A-Za-z0-9]+)?)", match[0])
                if split:
                    at = start + match.start()
                    yield NameWord(at, start + match.end(), number, split["base"], split["suffix"])
