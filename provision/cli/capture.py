"""``pvectl capture``: save everything that can be read of a host."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from provision.cli.output import OutputFormat, answer, emit_json, progress

if TYPE_CHECKING:
    from provision.capture.model import Capture, Item

SHOWN = 8
"""Keys that are named for each state that a reader should know of."""


def command(
    target: Annotated[
        str | None,
        typer.Argument(help="Inventory name, [user@]host[:port] or local; none: the inventory's only host."),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option("-o", "--file", help="Where to write: FILE.tar.gz or a new folder; none: named by host and time."),
    ] = None,
    inventory: Annotated[Path | None, typer.Option("-i", "--inventory", help="Inventory file.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an archive that exists.")] = False,
    output: Annotated[OutputFormat, typer.Option("--output", help="Form of the answer.")] = OutputFormat.text,
) -> int:
    """Save everything that can be read of a host in one file.

    Changes nothing on the host and leaves nothing there. Keys and passwords are never collected.
    Every later step works on the file as on the host itself.

    Examples:
      pvectl capture root@pve1 -o pve1.tar.gz
      pvectl capture local -o here.tar.gz --force

    Exit codes: 0 saved, 1 the host could not be reached or the file not written, 64 wrong usage.
    """
    from provision.capture.collect import collect_host
    from provision.capture.store import save
    from provision.cli.context import open_session, resolve

    site = resolve(target, inventory)
    _refuse_existing(file, force=force)
    with open_session(site) as session:
        progress(f"reading {session.target} ...")
        capture = collect_host(session)
    path = file or _default_path(capture)
    _refuse_existing(path, force=force)
    save(capture, path)
    if output is OutputFormat.json:
        emit_json("summary", summary(capture, path))
    else:
        answer(summary_text(capture, path))
    return 0


def summary(capture: Capture, path: Path) -> dict[str, object]:
    """Return what was captured as JSON values."""
    return {
        "target": capture.manifest.target,
        "hostname": capture.manifest.hostname,
        "file": str(path),
        "states": dict(Counter(item.state for item in capture.items)),
        "denied": [item.key for item in capture.items if item.state == "denied"],
        "failed": {item.key: item.reason for item in capture.items if item.state in ("error", "truncated")},
        "notes": list(capture.manifest.notes),
        "next": _next(path),
    }


def summary_text(capture: Capture, path: Path) -> str:
    """Return what was captured, what was not and why, and the next command."""
    states: Counter[str] = Counter(item.state for item in capture.items)
    size = sum(map(len, capture.blobs.values()))
    lines = [f"{capture.manifest.target}: {states['read']} facts, {size / 1024:.0f} KiB, saved in {path}"]
    lines.append(f"  absent       {states['absent']}   (looked for and not there)")
    for state, meaning in (
        ("denied", "permission denied; capture as root for the whole picture"),
        ("error", "could not be read"),
        ("truncated", "were cut"),
        ("not_asked", "left out"),
    ):
        if states[state]:
            lines.append(f"  {state:<12} {states[state]}   ({meaning})")
            lines.extend(_named(item for item in capture.items if item.state == state))
    lines.extend(f"  note: {note}" for note in capture.manifest.notes)
    return "\n".join([*lines, "", f"next: {_next(path)}"])


def _named(items: Iterable[Item]) -> list[str]:
    texts = [f"    {item.key}" + (f": {item.reason}" if item.reason else "") for item in items]
    rest = len(texts) - SHOWN
    return [*texts[:SHOWN], f"    ... and {rest} more"] if rest > 0 else texts


def _next(path: Path) -> str:
    from provision.remote.quoting import join

    return join(("pvectl", "doctor", "--from", str(path)))


def _default_path(capture: Capture) -> Path:
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    return Path(f"{capture.manifest.hostname or 'host'}-{stamp}.tar.gz")


def _refuse_existing(path: Path | None, *, force: bool) -> None:
    """Refuse before anything is read where the answer would have no place."""
    from provision.errors import UsageError

    if path is None:
        return
    if not path.parent.is_dir():
        raise UsageError(
            f"Unable to write {path}: there is no folder {path.parent}", "make the folder or choose another one"
        )
    if path.exists() and (not force or path.is_dir()):
        raise UsageError(
            f"Unable to write {path}: it exists already",
            "choose another name" + ("" if path.is_dir() else ", or replace it with --force"),
        )
