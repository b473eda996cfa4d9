"""``pvectl rollback``: undo a run, newest step first."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from provision.cli.changing import open_work, options_for, parse_words, show
from provision.cli.context import resolve
from provision.cli.output import OutputFormat
from provision.errors import UsageError


def command(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[HOST] [RUN]", help="Inventory name, root@host[:port] or local; the run, none: the latest."
        ),
    ] = None,
    inventory: Annotated[Path | None, typer.Option("-i", "--inventory", help="Inventory file.")] = None,
    all_: Annotated[
        bool, typer.Option("--all", help="Undo every run and leave no file of pvectl on the host.")
    ] = False,
    to: Annotated[
        str | None,
        typer.Option("--to", metavar="RUN", help="Undo every run after RUN, newest first; RUN itself stays."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    reboot: Annotated[bool, typer.Option("--reboot", help="Reboot the host where undoing needs it.")] = False,
    stop_guests: Annotated[
        bool, typer.Option("--stop-guests", help="Running guests that undoing or the reboot needs down may go down.")
    ] = False,
    output: Annotated[OutputFormat, typer.Option("--output", help="Form of the answer.")] = OutputFormat.text,
) -> int:
    """Undo a run: files byte for byte, mappings and VM options as they were.

    Refuses where someone else changed one of them since, and names it. A rollback is a run of its own: where it is
    interrupted, pvectl apply --resume goes on with it.

    Examples:
      pvectl rollback pve1
      pvectl rollback pve1 --to 20260102T030405Z-0a1b2c
      pvectl rollback pve1 --all --yes --reboot

    Exit codes: 0 done or nothing to do, 1 error, 4 refused for safety, 5 stopped with receipts kept,
    6 the host has to reboot, 64 wrong usage or inventory, 130 interrupted.
    """
    from provision.apply.run import rollback, rollback_all, rollback_to

    given = parse_words(words or [], "rollback")
    if given.plan is not None or (given.run and (all_ or to)) or (all_ and to):
        wrong = given.plan or given.run or to
        raise UsageError(f"Unable to understand {wrong}", "name a run, or give --all, or neither for the latest run")
    site = resolve(given.host, inventory)
    options = options_for(site, reboot=reboot, stop_guests=stop_guests)
    with open_work(site, yes=yes) as work:
        if all_:
            outcome = rollback_all(work.session, work.pve, ask=work.ask, **work.ways(options))
        elif to:
            outcome = rollback_to(to, work.session, work.pve, ask=work.ask, **work.ways(options))
        else:
            outcome = rollback(given.run, work.session, work.pve, ask=work.ask, **work.ways(options))
    return show(outcome, output)
