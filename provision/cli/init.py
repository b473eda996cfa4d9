"""``pvectl init``: write an inventory from what a host has."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from provision.cli.context import load_or_read, resolve
from provision.cli.output import answer, progress
from provision.errors import UsageError


def command(
    target: Annotated[str | None, typer.Argument(help="root@host[:port] or local.")] = None,
    out: Annotated[Path | None, typer.Option("-o", "--out", help="Write to this file; none: to stdout.")] = None,
    from_: Annotated[Path | None, typer.Option("--from", help="Read this capture instead of a host.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")] = False,
) -> int:
    """Write an inventory, with comments, from what a host has now.

    Reads the host and changes nothing on it. VMs that have GPUs are wished as they are.

    Examples:
      pvectl init root@pve1 -o pvectl.yaml
      pvectl init --from pve1.tar.gz

    Exit codes: 0 written, 1 error, 64 wrong usage or the file exists.
    """
    from provision.host.assemble import assemble
    from provision.inventory.starter import starter

    if out is not None and out.exists() and not force:
        raise UsageError(f"Unable to write {out}: it exists", "give another name, or --force to replace it")
    if (target is None) == (from_ is None):
        raise UsageError("Unable to choose a host: give a target or --from FILE, one of them", "pvectl init root@pve1")
    site = resolve(target, None) if target is not None else None
    capture = load_or_read(site, from_)
    host = site.host if site is not None else None
    address = host.address if host is not None else target or capture.manifest.target
    text = starter(assemble(capture), address, ssh=host.ssh if host is not None else None)
    if out is None:
        answer(text)
        return 0
    _write(out, text, force=force)
    progress(f"wrote {out}\nNext: pvectl doctor -i {out}")
    return 0


def _write(path: Path, text: str, *, force: bool) -> None:
    try:
        # Exclusive: a file that appeared since we looked must not be lost.
        with path.open("w" if force else "x", encoding="utf-8") as stream:
            stream.write(text)
    except FileExistsError:
        raise UsageError(f"Unable to write {path}: it exists", "give another name, or --force to replace it") from None
    except OSError as error:
        raise UsageError(f"Unable to write {path}: {error.strerror}", "check the path and its permissions") from None
