"""``pvectl confirm``: keep the boot set-up that the host runs now."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from provision.cli.changing import parse_words, show
from provision.cli.context import open_session, resolve
from provision.cli.output import OutputFormat, progress
from provision.errors import UsageError


def command(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[HOST] [RUN]", help="Inventory name, root@host[:port] or local; the run, none: the unfinished one."
        ),
    ] = None,
    inventory: Annotated[Path | None, typer.Option("-i", "--inventory", help="Inventory file.")] = None,
    output: Annotated[OutputFormat, typer.Option("--output", help="Form of the answer.")] = OutputFormat.text,
) -> int:
    """Keep the new boot set-up of a host, so that its dead-man does not restore the previous one.

    pvectl apply confirms by itself once the host is as planned; this is for a host that is not, and that you want
    to keep all the same.

    Examples:
      pvectl confirm pve1
      pvectl confirm pve1 20260102T030405Z-0a1b2c

    Exit codes: 0 confirmed or nothing to confirm, 1 error, 4 the host has not booted the new set-up, 5 too late,
    64 wrong usage or inventory.
    """
    from provision.apply.confirming import confirm_run

    given = parse_words(words or [], "confirm")
    if given.plan is not None:
        raise UsageError(f"Unable to confirm {given.plan}: it is a plan file", "name a run, or none")
    site = resolve(given.host, inventory)
    progress(f"connecting to {site.name} ...")
    with open_session(site) as session:
        outcome = confirm_run(given.run, session, host=site.name)
    return show(outcome, output)
