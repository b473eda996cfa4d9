"""Read what people paste: any mix of ``lspci`` outputs and listings of IOMMU groups, in mail or Markdown.

Three outcomes: read whole; read in part, with the lines that were skipped; nothing usable, which is
``Unknown`` with the first line.  No text raises.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from provision.evidence import Frozen, Maybe, Unknown
from provision.pci.model import PciFunction
from provision.readers.lines import clean, excerpt
from provision.readers.mention import Skipped
from provision.readers.merge import Functions, contradict, in_order, merge_into
from provision.readers.place import place
from provision.readers.scan import Block, Scanner
from provision.readers.stanza import Context, keys_of, to_function

__all__ = ["LOOKED_FOR", "Listing", "Reading", "Skipped", "Unplaced", "read"]

LOOKED_FOR = (
    "lspci in any form (plain, -n, -nn, -k, -v, -vvv, -t, -tv, -PP, -x to -xxxx)",
    "IOMMU groups (a shell loop, find or ls -R of /sys/kernel/iommu_groups, ls-iommu, the kernel's log)",
    "a kernel command line (/proc/cmdline)",
)

_CMDLINE = re.compile(r"(?:^|\s)(?:BOOT_IMAGE|initrd|root)=\S+")


class Unplaced(Frozen):
    """Memory of a function that the kernel left without an address (``Memory at <ignored>``)."""

    bdf: str
    line: int
    """The first such line of the function."""
    text: str
    count: int


class Listing(Frozen):
    """Pastes that go together: one machine at one moment."""

    kinds: tuple[str, ...]
    lines: tuple[tuple[int, int], ...]
    """First and last line of each paste."""
    functions: tuple[PciFunction, ...]
    """Sorted by BDF."""
    unplaced: tuple[Unplaced, ...] = ()

    @property
    def groups(self) -> int:
        """Number of different IOMMU groups."""
        return len({fn.iommu_group for fn in self.functions if isinstance(fn.iommu_group, int)})


class Reading(Frozen):
    """What a text says.  Several listings contradict each other: other machines, or other moments."""

    listings: tuple[Listing, ...]
    skipped: tuple[Skipped, ...]
    other_lines: int
    """Lines of text around the listings."""
    cmdline: str | None = None
    """The kernel command line, where the text is one."""

    @property
    def is_whole(self) -> bool:
        return not self.skipped

    @property
    def largest(self) -> Listing | None:
        """The listing with the most functions, the first of several."""
        return max(self.listings, key=lambda listing: len(listing.functions), default=None)

    @property
    def kinds(self) -> tuple[str, ...]:
        kinds = {kind for listing in self.listings for kind in listing.kinds}
        return tuple(sorted(kinds)) + (("kernel command line",) if self.cmdline is not None else ())


def read(text: str) -> Maybe[Reading]:
    """Return what ``text`` says, or Unknown where it holds nothing that is looked for."""
    lines = clean(text)
    scanner = Scanner()
    scanner.scan(lines)
    if scanner.blocks:
        return Reading(
            listings=_listings(scanner.blocks),
            skipped=scanner.skipped,
            other_lines=scanner.other_lines,
        )
    words = [line.text.strip() for line in lines if not line.is_blank]
    if words and len(words) <= _MAX_CMDLINE_LINES and _CMDLINE.search(" ".join(words)):
        return Reading(listings=(), skipped=(), other_lines=0, cmdline=" ".join(words))
    if not words:
        return Unknown(unknown="the text is empty", supply="add the output of: lspci -Dnnvvvx, run as root")
    return Unknown(
        unknown=f"the text is nothing that is known; it begins {excerpt(words[0])!r}",
        supply="add the output of: lspci -Dnnvvvx, run as root",
    )


_MAX_CMDLINE_LINES = 8
"""A command line that a terminal has wrapped; more lines are something else."""


class _Group(NamedTuple):
    functions: dict[str, PciFunction]
    kinds: set[str]
    lines: list[tuple[int, int]]
    unplaced: list[Unplaced]


def _listings(blocks: list[Block]) -> tuple[Listing, ...]:
    """Put blocks together that do not contradict each other, the latest first."""
    sees_extended = any(stanza.shows_extended for block in blocks for stanza in block.stanzas)
    groups: list[_Group] = []
    for block in blocks:
        functions = _functions(block, sees_extended=sees_extended)
        fitting = next((group for group in reversed(groups) if not contradict(group.functions, functions)), None)
        if fitting is None:
            fitting = _Group({}, set(), [], [])
            groups.append(fitting)
        merge_into(fitting.functions, functions)
        fitting.kinds.update(block.kinds)
        fitting.lines.append((block.first, block.last))
        fitting.unplaced.extend(_unplaced(block))
    return tuple(_listing(group) for group in groups)


def _functions(block: Block, *, sees_extended: bool) -> Functions:
    keys = frozenset[str]().union(*(keys_of(stanza) for stanza in block.stanzas))
    context = Context(sees_extended=sees_extended, keys=keys)
    functions: dict[str, PciFunction] = {}
    for stanza in block.stanzas:
        merge_into(functions, {stanza.bdf: to_function(stanza, context)})
    return functions


def _unplaced(block: Block) -> Iterator[Unplaced]:
    for stanza in block.stanzas:
        if stanza.ignored:
            line, text = stanza.ignored[0]
            yield Unplaced(bdf=stanza.bdf, line=line, text=text, count=len(stanza.ignored))


def _listing(group: _Group) -> Listing:
    return Listing(
        kinds=tuple(sorted(group.kinds)),
        lines=tuple(group.lines),
        functions=place(in_order(group.functions)),
        unplaced=tuple(group.unplaced),
    )
