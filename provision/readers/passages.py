"""One pasted text cut into passages: at shell prompts, code fences, forum tags, file headings and ruled lines."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from provision.readers.lines import is_fence, unquoted

_LONGEST = 20_000
"""A longer line is nothing that cuts."""
_PROGRAMS = (
    r"(?:(?:cat|less|more|head|tail|nano|ls|find|e?grep|zgrep) [-/'\"\w]|lspci|dmesg|journalctl"
    r"|nvidia-smi|qm \w|pvesh \w|pveversion|efibootmgr|proxmox-boot-tool|uname -|for \w+ in |lsmod"
    r"|modinfo"
    r"|sudo \w|nvbandwidth|lscpu|numactl|dmidecode|kvm -|\./\w)"
)
_PROMPT = re.compile(
    r"(?:\(\S{1,40}\) )?(?:\[?[\w.-]{1,64}@[\w.-]{1,128}(?:[ :][~/\w. -]{0,200})?\]?\s?[#$%>]"
    r"|PS [A-Za-z]:\\[^>]{0,200}>)(?:\s+(?P<command>.*))?$"
)
_BARE_PROMPT = re.compile(rf"(?:[#$%>]|# \$|\+)\s+(?P<command>{_PROGRAMS}.*)$")
_ALONE = re.compile(
    r"(?P<command>(?:sudo )?(?:cat|less|more|nano|vi|vim) /[\w./@-]{1,200}"
    r"|(?:sudo )?(?:/usr/s?bin/)?(?:qm (?:config|showcmd) \d+.{0,60}|pvesh get /\S.{0,200}|proxmox-boot-tool status"
    r"|efibootmgr(?: -v)?|lspci(?: -[\w.:]{1,20}){0,4}|dmesg(?: -\w{1,10})?|nvidia-smi(?: -{1,2}[\w=,.-]{1,200}| topo"
    r"| \w{1,3}){0,6}))\s*:?$"
)
_HEADING = re.compile(
    r"(?:==>\s*|#{1,4}\s*|\*{1,2}|File:\s*|`)?(?P<path>/(?:etc|proc|boot|sys|var)/[\w./@-]{2,200})(?:\s*<==|`?\*{0,2}:?)$"
)
_STAYS = re.compile(
    r"(?:sudo )?(?:\S*/)?(?:nvidia-smi|kvm|qm (?!config|showcmd|pending|list|status)|pvesh (?!get|ls|usage|help))"
)
_RULE = re.compile(r"\s*(?:-{4,}|={4,}|_{4,}|\*{4,}|~{4,})\s*$")
_TAG = re.compile(
    r"\[/?(?:code|icode|quote|spoiler|pre)(?:=[^\]]{0,100})?\]|</?(?:pre|code|blockquote)>", re.IGNORECASE
)


@dataclass(frozen=True)
class Passage:
    """Lines that stand together."""

    first: int
    """Line of the text at which it begins, from 1."""
    lines: tuple[str, ...]
    """Without escape codes, reply quotes, fences, tags and prompts; a command that its output needs stays."""
    command: str = ""
    """What was typed, or the file that a heading names."""

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    @property
    def last(self) -> int:
        return self.first + len(self.lines) - 1

    @property
    def is_blank(self) -> bool:
        return not any(line.strip() for line in self.lines)


def passages(text: str) -> Iterator[Passage]:
    """Yield the passages in order; together they have every line once.  Blank ones are left out."""
    has_tags = "[/" in text or "</" in text
    first = 1
    lines: list[str] = []
    command = before = ""
    cuts_next = False
    raws = unquoted(text)
    for number, raw in enumerate(raws if raws[-1] else raws[:-1], 1):
        line, cuts, cuts_after = _cut(raw, has_tags=has_tags)
        typed = None if _is_comment(line, before) else _command(line)
        before = line
        if (cuts or cuts_next or typed is not None) and lines:
            yield from _kept(Passage(first, tuple(lines), command))
            first, lines, command = number, [], ""
        lines.append(line if typed is None or _STAYS.match(typed) else "")
        command = typed if typed is not None else command
        cuts_next = cuts_after
    yield from _kept(Passage(first, tuple(lines), command))


def _kept(passage: Passage) -> Iterator[Passage]:
    """Begin a passage where its words do, so that its lines count as those of the file that was printed."""
    if passage.is_blank:
        return
    if passage.first == 1 and not passage.command:
        yield passage
        return
    blank = next(number for number, line in enumerate(passage.lines) if line.strip())
    yield Passage(passage.first + blank, passage.lines[blank:], passage.command)


def _cut(line: str, *, has_tags: bool) -> tuple[str, bool, bool]:
    """Return the line as it counts, whether a passage begins with it, and whether one ends with it."""
    if len(line) > _LONGEST:
        return line, False, False
    if is_fence(line) or _RULE.match(line):
        return "", True, False
    if not has_tags:
        return line, False, False
    tags = _TAG.findall(line)
    closes = any("/" in tag[:2] for tag in tags)
    return _TAG.sub("", line) if tags else line, any("/" not in tag[:2] for tag in tags), closes


def _is_comment(line: str, before: str) -> bool:
    """Whether a line goes on with the comment of the line before: a file's, where ``#`` is no prompt of root."""
    return line.startswith("#") and before.startswith("#") and not line.startswith("# $ ")


def _command(line: str) -> str | None:
    """Return what was typed on this line, ``None`` where it is no prompt and no heading."""
    if len(line) > _LONGEST:
        return None
    text = line.strip()
    for form in (_PROMPT, _BARE_PROMPT, _ALONE):
        match = form.match(text)
        if match is not None:
            return (match["command"] or "").strip()
    heading = _HEADING.match(text)
    return heading["path"] if heading else None
