"""A scan of XML that nothing can harm: no entity is expanded, no declaration followed, cut text gives what it has."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_MAX_DEPTH = 100
_TAG = re.compile(r"</?\s*(?P<name>[A-Za-z_][\w.:-]*)")
_ATTRIBUTE = re.compile(r"([A-Za-z_][\w.:-]*)\s*=\s*(?:\"([^\"<]*)\"|'([^'<]*)')")
_ENTITY = re.compile(r"&(?:(amp|lt|gt|quot|apos)|#(\d{1,7})|#x([0-9A-Fa-f]{1,6}));")
_NAMED = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}
_SKIPPED = (("<!--", "-->"), ("<![CDATA[", "]]>"), ("<?", "?>"))


class Element(NamedTuple):
    """One event of the scan: an element begins, ends, or has text."""

    event: str
    """``begin``, ``end`` or ``text``."""
    path: tuple[str, ...]
    """Names from the root to this element, itself included."""
    line: int
    attributes: dict[str, str]
    text: str = ""


def scan(text: str) -> Iterator[Element]:
    """Yield what is there, in order.  An end tag closes up to its name; one without a beginning is passed over."""
    scanner = _Scan(text)
    yield from scanner.run()


class _Scan:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._line = 1
        self._path: list[str] = []

    def run(self) -> Iterator[Element]:
        while self._at < len(self._text):
            start = self._text.find("<", self._at)
            start = len(self._text) if start < 0 else start
            words = self._text[self._at : start]
            if self._path and words.strip():
                lead = len(words) - len(words.lstrip())
                line = self._line + words.count("\n", 0, lead)
                yield Element("text", tuple(self._path), line, {}, _plain(words.strip()))
            self._go(start)
            if start < len(self._text):
                yield from self._markup()

    def _markup(self) -> Iterator[Element]:
        for opening, closing in _SKIPPED:
            if self._text.startswith(opening, self._at):
                self._go(self._after(closing))
                return
        if self._text.startswith("<!", self._at):
            self._go(self._after_declaration())
            return
        match = _TAG.match(self._text, self._at)
        end = self._text.find(">", self._at)
        if match is None or end < 0:
            self._go(self._at + 1 if match is None else len(self._text))
            return
        line = self._line
        inside = self._text[match.end() : end]
        is_end = self._text[self._at + 1] == "/"
        self._go(end + 1)
        yield from self._end(match["name"], line) if is_end else self._begin(match["name"], inside, line)

    def _begin(self, name: str, inside: str, line: int) -> Iterator[Element]:
        if len(self._path) >= _MAX_DEPTH:
            return
        self._path.append(name)
        attributes = {key: _plain(one or two) for key, one, two in _ATTRIBUTE.findall(inside)}
        yield Element("begin", tuple(self._path), line, attributes)
        if inside.rstrip().endswith("/"):
            yield Element("end", tuple(self._path), line, {})
            self._path.pop()

    def _end(self, name: str, line: int) -> Iterator[Element]:
        if name not in self._path:
            return
        while self._path:
            last = self._path[-1]
            yield Element("end", tuple(self._path), line, {})
            self._path.pop()
            if last == name:
                return

    def _after(self, end: str) -> int:
        found = self._text.find(end, self._at)
        return len(self._text) if found < 0 else found + len(end)

    def _after_declaration(self) -> int:
        """Return the place behind a document type; the definitions inside its brackets are not read."""
        close = self._after(">")
        if "[" in self._text[self._at : close]:
            return self._after("]>")
        return close

    def _go(self, place: int) -> None:
        self._line += self._text.count("\n", self._at, place)
        self._at = place


def _plain(text: str) -> str:
    """Replace the five entities of XML and numbers; any other stays as it is written."""
    return _ENTITY.sub(_character, text)


def _character(match: re.Match[str]) -> str:
    if match[1]:
        return _NAMED[match[1]]
    code = int(match[2]) if match[2] else int(match[3], 16)
    return chr(code) if 0 < code < 0x110000 and not 0xD800 <= code < 0xE000 else "?"
