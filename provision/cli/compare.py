"""``pvectl compare``: which devices moved between two reads of one host."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from provision.cli.output import OutputFormat

if TYPE_CHECKING:
    from provision.cli.sources import Source
    from provision.pci.model import PciFunction
    from provision.pci.moved import Moves


def command(
    before: Annotated[Path, typer.Argument(metavar="BEFORE", help="Capture or text (lspci) of the host as it was.")],
    after: Annotated[Path, typer.Argument(metavar="AFTER", help="The same of the host as it is.")],
    output: Annotated[OutputFormat, typer.Option("--output", help="text or json.")] = OutputFormat.text,
) -> int:
    """Print which PCI devices moved to another address, came or went between two reads of one host.

    Examples:
      pvectl compare before.tar.gz after.tar.gz
      pvectl compare lspci-before.txt lspci-after.txt

    Exit codes: 0 printed; 1 a file could not be read; 8 the two cannot be compared; 64 usage.
    """
    from provision.cli.output import answer, emit_json, progress
    from provision.cli.sources import load_source
    from provision.errors import Undecided
    from provision.evidence import Unknown
    from provision.pci.moved import compare

    sources = load_source([before]), load_source([after])
    for note in (*sources[0].notes, *sources[1].notes):
        progress(note)
    moves = compare(sources[0].model.pci, sources[1].model.pci)
    if isinstance(moves, Unknown):
        raise Undecided(f"Unable to compare {before} and {after}: {moves.unknown}", moves.supply)
    if output is OutputFormat.json:
        emit_json("moves", moves)
    else:
        answer("\n".join(_text(moves, *sources)))
    return 0


def _text(moves: Moves, before: Source, after: Source) -> Iterator[str]:
    was, now = ({fn.bdf: _name(fn) for fn in source.model.pci} for source in (before, after))
    yield (
        f"functions: {len(moves.stayed)} at the same address, {len(moves.moved)} moved, "
        f"{len(moves.added)} new, {len(moves.removed)} gone"
    )
    for match in moves.moved:
        yield f"moved    {match.before} -> {match.after}  {now[match.after]} (by {match.by})"
    for bdf in moves.removed:
        yield f"gone     {bdf}  {was[bdf]}"
    for bdf in moves.added:
        yield f"new      {bdf}  {now[bdf]}"
    for doubt in moves.ambiguous:
        yield f"unclear  {' '.join(doubt.before)} -> {' '.join(doubt.after)}  which is which of {was[doubt.before[0]]}"
    yield from _warning(moves)
    yield ""
    yield "Next: pvectl doctor root@HOST"


def _warning(moves: Moves) -> Iterator[str]:
    """Addresses that now lead to another device are the dangerous ones."""
    left = {*(match.before for match in moves.moved), *moves.removed}
    taken = {*(match.after for match in moves.moved), *moves.added}
    if left:
        yield ""
        yield "Check every raw address in hostpci lines and mappings of Proxmox."
    if left & taken:
        yield f"Another device is now at: {' '.join(sorted(left & taken))}"


def _name(fn: PciFunction) -> str:
    from provision.host.text_layout import ids_text
    from provision.pci.model_names import class_name, vendor_name

    if fn.description:
        return fn.description
    return f"{class_name(fn.class_code)} {vendor_name(fn.vendor)} {ids_text(fn)}"
