"""From physical lines to messages: continued lines, hard wraps of mailers and terminals, glued lines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from provision.readers.kernel_log_journal import Fields, json_entry
from provision.readers.kernel_log_prefix import Head, head
from provision.readers.kernel_log_record import Record

MAX_LINE = 8192
"""Characters of a physical line that are looked at; no kernel writes more than a few hundred."""
MAX_TEXT = 2048
"""Characters of a message that are kept."""

_ESCAPES = re.compile(r"\x1b\[[0-?]{0,32}[ -/]{0,8}[@-~]|\x1b\][^\x07\x1b]{0,256}(?:\x07|\x1b\\)|\x1b[@-Z\\-_]")
_RSYSLOG_ESCAPES = re.compile(r"#0(?:15|12|11|33\[[0-9;]{0,16}m)")
_CONTROL = dict.fromkeys(code for code in range(32) if code != 9)
_INVISIBLE = str.maketrans(
    {
        **dict.fromkeys((0x00A0, 0x2007, 0x202F), " "),
        **dict.fromkeys((0x200B, 0x200E, 0x200F, 0xFEFF, 0x00AD), None),
        **_CONTROL,
    }
)
_GLUED = re.compile(r"\[ {0,5}\d{1,8}\.\d{6}\] ")
_CONSOLE = re.compile(
    r"\[(?:\s{1,4}OK\s{1,4}|\s?[A-Z]{4,6}\s?|\s{0,2}\*{1,6}\s{0,6})\]|\s{4,}[A-Z][a-z]+ing\b|[#$>]|\S{1,40}@\S{1,40}[:~]"
)
_TAGGED = re.compile(
    r"(?:NVRM|DMAR(?:-IR)?|AMD-Vi|nvidia[\w-]{0,20}|vfio[\w-]{0,20}|pci(?:eport|_bus)?|iommu|kernel|ACPI|irq|\[drm\S{0,20})"
    r"(?: [0-9a-fx:.]{4,20})?[:\] ]"
)
_KEY = re.compile(r" ([A-Z][A-Z0-9_]{1,40})=(.*)")
_PCI_DEVICE = re.compile(r"\+pci:([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])")

_WRAP_FROM, _WRAP_TO = 66, 100
"""A mailer wraps between these columns; what is longer was not wrapped."""
_TERMINAL = 80


def clean(line: str) -> str:
    """Return one line without escape codes, reply quotes and characters that nobody sees; blanks at its end stay."""
    if "\x1b" in line:
        line = _ESCAPES.sub("", line)
    if "#0" in line:
        line = _RSYSLOG_ESCAPES.sub(" ", line)
    if not line.isprintable():
        line = line.translate(_INVISIBLE)
    while line.startswith((">", " >")):
        line = line.lstrip(" ").removeprefix(">").removeprefix(" ")
    return line.rstrip("\n")


class _Open:
    """A message whose end was not seen yet."""

    def __init__(self, number: int, parts: Head, physical: str) -> None:
        self.number, self.head = number, parts
        self.text = parts.text.strip()[:MAX_TEXT]
        self._see(physical)
        self.device: str | None = None

    def _see(self, physical: str) -> None:
        self.width = len(physical)
        self._is_cut = self.width == _TERMINAL and not physical.endswith(" ")

    def add(self, rest: str) -> None:
        glue = "" if self._is_cut and not rest.startswith(" ") else " "
        self._see(rest)
        if len(self.text) < MAX_TEXT:
            self.text = f"{self.text}{glue}{rest.strip()}"[:MAX_TEXT]

    def goes_on_with(self, line: str) -> bool:
        """Whether ``line``, which has nothing before its text, surely belongs to this message."""
        if _CONSOLE.match(line):
            return False
        if line[0] in " \t" and not (self._is_cut and line[1:2].strip()):
            return self.head.form != "plain" and self._is_continued_by(line.lstrip())
        if _TAGGED.match(line) or not self._can_be_wrapped_before(line):
            return False
        return self.head.form != "plain" or self._is_unfinished()

    def _is_continued_by(self, line: str) -> bool:
        tag = self.text.split(" ", 1)[0]
        return self.text.endswith(":") or (len(tag) > 3 and tag.endswith(":") and line.startswith(tag))

    def _can_be_wrapped_before(self, line: str) -> bool:
        word = len(line.split(" ", 1)[0])
        return self.width <= _WRAP_TO and (self.width >= _TERMINAL or self.width + 1 + word >= _WRAP_FROM)

    def _is_unfinished(self) -> bool:
        text = self.text
        return text.count("[") > text.count("]") or text.count("(") > text.count(")") or text.count('"') % 2 == 1

    def record(self) -> Record:
        form, time, uptime, level, process, _ = self.head
        return Record(self.number, self.text, time, uptime, level, process, form, self.device)


def messages(lines: Iterable[str]) -> Iterator[Record]:
    """Yield the messages of a log, one after the other; holds one message at a time.

    ``lines`` may end in line feeds.  A carriage return within a line (a serial console) begins a new piece.
    """
    joiner = _Joiner()
    for number, raw in enumerate(lines, 1):
        yield from joiner.line(number, raw[:MAX_LINE])
    yield from joiner.end()


class _Joiner:
    def __init__(self) -> None:
        self._open: _Open | None = None
        self._fields = Fields()

    def line(self, number: int, raw: str) -> Iterator[Record]:
        pieces = [clean(piece) for piece in raw.split("\r")] if "\r" in raw else [clean(raw)]
        pieces = [piece for piece in pieces if piece.strip()]
        if not pieces:
            yield from self.end()
        for piece in pieces:
            yield from self._piece(number, piece)

    def end(self) -> Iterator[Record]:
        if self._fields.is_open and (complete := self._fields.close()):
            yield _Open(complete[0], complete[1], "").record()
        if self._open is not None:
            done, self._open = self._open, None
            if done.text:
                yield done.record()

    def _piece(self, number: int, line: str) -> Iterator[Record]:
        if self._fields.begins(line):
            yield from self.end()
        if self._fields.takes(number, line):
            return
        if line.startswith("{") and (entry := json_entry(line)) is not None:
            yield from self.end()
            self._open = _Open(number, entry, "")
            return
        parts = head(line)
        if parts.form == "plain" and self._open is not None and self._joins(line):
            return
        yield from self.end()
        yield from self._begin(number, parts, line)

    def _joins(self, line: str) -> bool:
        """Give ``line`` to the open message if it is its rest, or a field of a /dev/kmsg record."""
        if self._open is None:
            return False
        if self._open.head.form == "kmsg" and (key := _KEY.match(line)):
            device = _PCI_DEVICE.match(key[2]) if key[1] == "DEVICE" else None
            self._open.device = device[1] if device else self._open.device
            return True
        if not self._open.goes_on_with(line):
            return False
        self._open.add(line)
        return True

    def _begin(self, number: int, parts: Head, line: str) -> Iterator[Record]:
        """Open a message; a line into which a serial console wrote a second one is two."""
        while parts.form == "dmesg" and (glued := _GLUED.search(parts.text, 1)):
            rest = parts.text[glued.start() :]
            before = parts._replace(text=parts.text[: glued.start()])
            if before.text.strip():
                yield _Open(number, before, "").record()
            parts = head(rest)
        self._open = _Open(number, parts, line)
