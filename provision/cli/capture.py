"""``pvectl capture``: save everything that can be read of a host."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from provision.cli import sharing
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
    path: Annotated[
        Path | None,
        typer.Argument(metavar="PATH", help="With --share: the bundle to write, FILE.tar.gz or a new folder."),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option("-o", "--file", help="Where to write: FILE.tar.gz or a new folder; none: named by host and time."),
    ] = None,
    inventory: Annotated[Path | None, typer.Option("-i", "--inventory", help="Inventory file.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an archive that exists.")] = False,
    share: Annotated[
        bool,
        typer.Option("--share", help="Write a small bundle with pseudonyms instead, fit for an issue tracker."),
    ] = False,
    from_: Annotated[
        Path | None, typer.Option("--from", metavar="CAPTURE", help="With --share: share this capture; asks no host.")
    ] = None,
    keep_table: Annotated[
        Path | None,
        typer.Option("--keep-table", metavar="FILE", help="With --share: write which pseudonym stands for what."),
    ] = None,
    output: Annotated[OutputFormat, typer.Option("--output", help="Form of the answer.")] = OutputFormat.text,
) -> int:
    """Save everything that can be read of a host in one file.

    Changes nothing on the host and leaves nothing there. Keys and passwords are never collected.
    Every later step works on the file as on the host itself.

    Examples:
      pvectl capture root@pve1 -o pve1.tar.gz
      pvectl capture local -o here.tar.gz --force
      pvectl capture root@pve1 --share bundle.tar.gz
      pvectl capture --share --from pve1.tar.gz bundle.tar.gz

    Exit codes: 0 saved, 1 the host could not be reached or the file not written, 64 wrong usage.
    """
    if share:
        target, bundle = _places(target, path or file, from_)
        return _share(target, bundle, inventory, from_, keep_table, force=force, output=output)
    _refuse_share_options(path, from_, keep_table)
    _refuse_existing(file, force=force)
    capture = _read(target, inventory)
    return _keep(capture, file or _default_path(capture), force=force, output=output)


def _read(target: str | None, inventory: Path | None) -> Capture:
    from provision.capture.collect import collect_host
    from provision.cli.context import open_session, resolve

    with open_session(resolve(target, inventory)) as session:
        progress(f"reading {session.target} ...")
        return collect_host(session)


def _keep(capture: Capture, path: Path, *, force: bool, output: OutputFormat) -> int:
    from provision.capture.store import save

    _refuse_existing(path, force=force)
    save(capture, path)
    if output is OutputFormat.json:
        emit_json("summary", summary(capture, path))
    else:
        answer(summary_text(capture, path))
    return 0


def _places(target: str | None, path: Path | None, from_: Path | None) -> tuple[str | None, Path | None]:
    """A single word is the bundle where a capture is shared, or where it is named as one."""
    if path is None and target is not None and (from_ is not None or target.endswith(sharing.ARCHIVES)):
        return None, Path(target)
    return target, path


def _share(
    target: str | None,
    path: Path | None,
    inventory: Path | None,
    from_: Path | None,
    table: Path | None,
    *,
    force: bool,
    output: OutputFormat,
) -> int:
    from provision.capture.share import share as make_bundle
    from provision.capture.store import load, save
    from provision.errors import UsageError

    if from_ is not None and target is not None:
        raise UsageError(f"Unable to share both {target} and {from_}", "name a host, or a capture with --from")
    path = path or sharing.default_path()
    _refuse_existing(path, force=force)
    _refuse_existing(table, force=False)
    capture = load(from_) if from_ is not None else _read(target, inventory)
    bundle = make_bundle(capture)
    differ = sharing.differences(capture, bundle.capture)
    save(bundle.capture, path)
    if table is not None:
        sharing.keep_table(bundle, table)
    if output is OutputFormat.json:
        emit_json("summary", sharing.summary(bundle, path, differ, table))
    else:
        answer(sharing.summary_text(bundle, path, differ, table))
    return 0


def _refuse_share_options(path: Path | None, from_: Path | None, table: Path | None) -> None:
    from provision.errors import UsageError

    named = {"PATH": path, "--from": from_, "--keep-table": table}
    given = [name for name, value in named.items() if value is not None]
    if given:
        raise UsageError(f"Unable to use {', '.join(given)} without --share", "add --share, or name the file with -o")


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
    return "\n".join([*lines, "", f"Next: {_next(path)}"])


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
