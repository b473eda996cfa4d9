"""From lines to blocks: what belongs to which device, and where one paste ends and the next begins."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from provision.readers.heads import Head, full, is_short_path, read_bare, read_bare_all, read_head
from provision.readers.hexdump import HexDump
from provision.readers.iommu_listing import is_not_pci, read_header, read_member
from provision.readers.lines import Line, excerpt, glue, is_wrapped
from provision.readers.mention import Skipped, SkippedLines
from provision.readers.stanza import Stanza
from provision.readers.tree_text import TreeText

Sort = Literal[
    "blank", "tree", "member", "group", "head", "hex", "short path", "broken", "prompt", "detail", "not pci", "other"
]

_JOINABLE: tuple[Sort, ...] = ("head", "group", "detail", "tree", "member")
_KEYS = re.compile(
    r"^(?:!!! Unknown header type|(?:Subsystem|Control|Status|Latency|Interrupt|NUMA node|IOMMU group|Bus|Flags"
    r"|Region \d"
    r"|(?:I/O|Memory|Prefetchable memory) behind bridge|Secondary status|BridgeCtl|Capabilities"
    r"|Kernel driver in use|Kernel modules|Physical Slot|DeviceName"
    r"|(?:Dev|Lnk|Slt|Root)(?:Cap|Ctl|Sta)2?|ACSCap|ACSCtl|AFCap|AFCtl|IOVCap|IOVCtl|IOVSta):|Expansion ROM at )"
)
_GROUP_DETAIL = re.compile(r"^\s*IOMMU group: \d+\s*$")
_BROKEN_HEAD = re.compile(
    r"^\s*(?:[0-9a-fA-F]{4}:)?[0-9a-fA-F]{2}:[0-9a-fA-F?*]{1,3}[.:]\S{0,2}\s+.*(?:bridge|controller|device)\b",
    re.IGNORECASE,
)
_PROMPT = re.compile(r"^\[?[\w.-]+@[\w.-]+[^#$%]*[#$%](?:\s|$)|^[#$%] ")
_IGNORED = re.compile(r"\s*(?:Region [0-5]: )?Memory at <ignored>")
_NAMES = ("lspci", "lspci -k", "lspci -v", "lspci -vvv")


@dataclass
class Block:
    """Devices that stand together, in the order of the text."""

    stanzas: list[Stanza] = field(default_factory=list)
    kinds: set[str] = field(default_factory=set)
    first: int = 0
    last: int = 0

    def find(self, bdf: str) -> Stanza | None:
        return next((stanza for stanza in reversed(self.stanzas) if stanza.bdf == bdf), None)


@dataclass(frozen=True)
class _Logical:
    """A line with what a mailer broke off it."""

    number: int
    text: str
    sort: Sort
    last: int


def sort_of(text: str) -> Sort:
    """Say what a line is by its form alone."""
    tests: tuple[tuple[Sort, bool], ...] = (
        ("blank", not text.strip()),
        ("hex", HexDump.is_row(text)),
        ("tree", TreeText.is_line(text)),
        ("member", read_member(text) is not None),
        ("not pci", is_not_pci(text)),
        ("short path", is_short_path(text)),
        ("head", read_head(text) is not None),
        ("group", read_header(text) is not None),
        ("broken", _BROKEN_HEAD.match(text) is not None),
        ("prompt", _PROMPT.match(text) is not None),
        ("detail", text[:1] in " \t" or _KEYS.match(text) is not None or bool(read_bare_all(text))),
    )
    return next((sort for sort, holds in tests if holds), "other")


def unwrap(lines: Iterable[Line]) -> list[_Logical]:
    """Join what a mailer or a terminal wrapped to the line it belongs to."""
    joined: list[_Logical] = []
    before = ""
    for line in lines:
        sort = sort_of(line.text)
        if sort == "other" and joined and joined[-1].sort in _JOINABLE and is_wrapped(before, line.text):
            start = joined[-1]
            text = start.text if not glue(before) else start.text.rstrip() + glue(before)
            joined[-1] = _Logical(start.number, text + line.text, start.sort, line.number)
        else:
            joined.append(_Logical(line.number, line.text, sort, line.number))
        before = line.text
    return joined


class Scanner:
    """Takes the lines in order and leaves blocks, what it skipped, and how much text stands around them."""

    def __init__(self) -> None:
        self.blocks: list[Block] = []
        self._skipped = SkippedLines()
        self.other_lines = 0
        self._block: Block | None = None
        self._stanza: Stanza | None = None
        self._tree: TreeText | None = None
        self._group: int | None = None
        self._group_has_members = False

    def scan(self, lines: Iterable[Line]) -> None:
        for line in unwrap(lines):
            self._take(line)
        self._end_block()

    def _take(self, line: _Logical) -> None:
        if line.sort != "tree":
            self._end_tree()
        actions = {
            "blank": self._blank,
            "tree": self._tree_line,
            "member": self._member,
            "group": self._group_line,
            "head": self._head,
            "hex": self._hex,
            "short path": self._short_path,
            "broken": self._broken,
            "prompt": self._other,
            "detail": self._detail,
            "not pci": lambda _line: None,
            "other": self._other,
        }
        actions[line.sort](line)

    def _blank(self, _line: _Logical) -> None:
        self._stanza = None
        if self._group_has_members:
            self._group = None

    def _other(self, line: _Logical) -> None:
        self.other_lines += 1 + line.last - line.number
        self._end_block()
        self._group = None

    @property
    def skipped(self) -> tuple[Skipped, ...]:
        return self._skipped.all

    def _skip(self, line: _Logical, why: str) -> None:
        for number in range(line.number, line.last + 1):
            self._skipped.add(number, why)

    def _open(self, line: _Logical, kind: str) -> Block:
        if self._block is None:
            self._block = Block(first=line.number)
        self._block.kinds.add(kind)
        self._block.last = line.last
        return self._block

    def _end_block(self) -> None:
        self._end_tree()
        self._stanza = None
        if self._block is not None and self._block.stanzas:
            self._block.kinds.update(_NAMES[stanza.verbosity] for stanza in self._block.stanzas if stanza.details)
            self.blocks.append(self._block)
        self._block = None

    def _add(self, line: _Logical, head: Head, kind: str, group: int | None) -> None:
        """Begin a device; one that the block shows already, with another head or group, begins a new block."""
        block = self._open(line, kind)
        before = block.find(head.bdf)
        if before is not None and self._begins_anew(before, head, group):
            self._end_block()
            block = self._open(line, kind)
            before = None
        if before is not None:
            before.group = group if before.group is None else before.group
            self._stanza = before
            return
        self._stanza = Stanza(line.number, head, group)
        block.stanzas.append(self._stanza)

    @staticmethod
    def _begins_anew(before: Stanza, head: Head, group: int | None) -> bool:
        if group is not None and before.group is not None and group != before.group:
            return True
        return not head.is_bare

    def _head(self, line: _Logical) -> None:
        head = read_head(line.text)
        if head is None:
            return
        kind = "lspci" if self._group is None else "IOMMU groups"
        self._add(line, head, kind, self._group)
        self._group_has_members = self._group is not None

    def _group_line(self, line: _Logical) -> None:
        if self._stanza is not None and self._stanza.details and _GROUP_DETAIL.match(line.text):
            self._stanza.details.append(line.text)
            return
        header = read_header(line.text)
        if header is None:
            return
        head = (read_head(header.rest) or read_bare(header.rest)) if header.rest else None
        if header.rest and head is None:
            self._skip(line, f"a group's line whose device could not be read: {excerpt(header.rest)!r}")
            return
        self._group, self._group_has_members = header.number, False
        self._stanza = None
        if head is not None:
            self._add(line, head, "IOMMU groups", header.number)
            self._group_has_members = True

    def _member(self, line: _Logical) -> None:
        member = read_member(line.text)
        if member is not None:
            self._add(line, Head(member.bdf), member.kind, member.group)
            self._stanza = None

    def _hex(self, line: _Logical) -> None:
        if self._stanza is None:
            self.other_lines += 1
            return
        self._open(line, "lspci -x")
        problem = self._stanza.dump.add(Line(line.number, line.text))
        if problem is not None:
            self._skip(line, problem)

    def _broken(self, line: _Logical) -> None:
        self._skip(line, f"a device line that could not be read: {excerpt(line.text)!r}")
        self._stanza = None

    def _short_path(self, line: _Logical) -> None:
        self._skip(line, "lspci -P prints no bus numbers; use lspci -PP")
        self._stanza = None

    def _detail(self, line: _Logical) -> None:
        bare = read_bare_all(line.text) if self._group is not None else ()
        if bare:
            for head in bare:
                self._add(line, head, "IOMMU groups", self._group)
            self._stanza, self._group_has_members = None, True
        elif self._stanza is not None and self._block is not None:
            self._stanza.details.append(line.text)
            if _IGNORED.match(line.text):
                self._stanza.ignored.append((line.number, line.text.strip()))
            self._block.last = line.last
        else:
            self._other(line)

    def _tree_line(self, line: _Logical) -> None:
        if self._tree is None or self._tree.starts_again(line.text):
            self._end_block()
            self._tree = TreeText()
        self._open(line, "lspci -t")
        problem = self._tree.add(Line(line.number, line.text))
        if problem is not None:
            self._skip(line, problem)

    def _end_tree(self) -> None:
        """Put the functions of a finished tree into the block."""
        tree, self._tree = self._tree, None
        if tree is None or self._block is None:
            return
        for node in tree.nodes:
            vendorless = read_head(f"{full(node.bdf)} Unassigned class [ff00]: {node.name}") if node.name else None
            head = vendorless or Head(node.bdf)
            known = Head(node.bdf, vendor=head.vendor, device=head.device, name=head.name)
            self._block.stanzas.append(Stanza(node.line, known, node=node))
