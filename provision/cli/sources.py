"""What ``--from`` names: a capture, or text that somebody pasted, of one or several kinds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from provision.cli.pasted import Pasted, open_all
from provision.errors import Undecided, UsageError
from provision.evidence import Unknown
from provision.host.model import HostModel
from provision.host.text_layout import count
from provision.readers.read import LOOKED_FOR, Reading

_SHOWN_SKIPS = 5


class Source(NamedTuple):
    """A host model, and lines that say where it comes from and what could not be read."""

    model: HostModel
    notes: tuple[str, ...]
    is_capture: bool


def load_source(paths: Sequence[Path]) -> Source:
    """Read one capture, or any number of texts that show the same host.

    Raises CaptureError where a file cannot be read, UsageError where a capture stands beside other
    files, Undecided where no text holds anything known.
    """
    opened = list(open_all(paths))
    captures = [pasted for pasted in opened if pasted.path is not None and pasted.kind == "capture"]
    if captures and len(opened) > 1:
        raise UsageError(
            f"Unable to put {captures[0].name} together with other files: a capture is a whole host",
            "give the capture alone, or text files alone",
        )
    return _capture(captures[0]) if captures else _texts(paths, opened)


def _capture(pasted: Pasted) -> Source:
    from provision.capture.store import load
    from provision.host.assemble import assemble

    return Source(assemble(load(pasted.path or Path(pasted.name))), (), is_capture=True)


def _texts(paths: Sequence[Path], opened: Sequence[Pasted]) -> Source:
    from provision.host.from_text import model_from_text
    from provision.readers.read import read

    readings: list[tuple[str, Reading]] = []
    notes: list[str] = []
    for pasted in opened:
        if pasted.kind == "not used":
            notes.append(f"{pasted.name}: not used, {pasted.why}")
            continue
        reading = read(pasted.text)
        if isinstance(reading, Unknown):
            notes.append(f"{pasted.name}: not used, {reading.unknown}")
        else:
            readings.append((pasted.name, reading))
            notes += _notes(pasted.name, reading)
    if not any(reading.listings for _, reading in readings):
        raise _nothing(paths, notes)
    host = model_from_text(readings)
    notes += [f"the texts differ: {conflict}" for conflict in host.conflicts]
    return Source(host.model, tuple(notes), is_capture=False)


def _nothing(paths: Sequence[Path], notes: Sequence[str]) -> Undecided:
    found = "; ".join(notes)
    return Undecided(
        f"Unable to find PCI devices in {', '.join(str(path) for path in paths)}: {found}; looked for "
        + "; ".join(LOOKED_FOR),
        "save the output of lspci -Dnnvvvx, run as root, in a file and give that",
    )


def _notes(name: str, reading: Reading) -> list[str]:
    """What was used of a text, then what was not."""
    used = reading.largest
    lines = [f"{name}: {_summary(reading)}"]
    if used is not None and len(reading.listings) > 1:
        others = len(reading.listings) - 1
        first, last = used.lines[0][0], used.lines[-1][1]
        lines.append(
            f"{name}: {others + 1} listings that contradict each other (other hosts, or other moments); used the "
            f"largest, lines {first} to {last}.  Cut out another one to see it."
        )
    for skip in reading.skipped[:_SHOWN_SKIPS]:
        where = f"line {skip.first}" if skip.first == skip.last else f"lines {skip.first} to {skip.last}"
        lines.append(f"{name}: skipped {where}: {skip.why}")
    if len(reading.skipped) > _SHOWN_SKIPS:
        rest = sum(skip.last - skip.first + 1 for skip in reading.skipped[_SHOWN_SKIPS:])
        lines.append(f"{name}: skipped {rest} more lines")
    return lines


def _summary(reading: Reading) -> str:
    parts = [", ".join(reading.kinds)]
    if reading.largest is not None:
        parts.append(count(len(reading.largest.functions), "function"))
        parts += [count(reading.largest.groups, "IOMMU group")] if reading.largest.groups else []
    parts += [f"{count(reading.other_lines, 'line')} of other text"] if reading.other_lines else []
    return "; ".join(parts)
