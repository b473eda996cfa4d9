"""``pvectl paths``: BARs, windows and the ways between GPUs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from provision.cli.output import OutputFormat


def command(
    target: Annotated[
        str | None,
        typer.Argument(help="Inventory name, root@host[:port] or local; none: the inventory's only host."),
    ] = None,
    inventory: Annotated[Path | None, typer.Option("-i", "--inventory", help="Inventory file.")] = None,
    from_: Annotated[Path | None, typer.Option("--from", help="Read a capture instead of a host.")] = None,
    output: Annotated[OutputFormat, typer.Option("--output", help="text or json.")] = OutputFormat.text,
) -> int:
    """Print the paths between a host's GPUs, their BARs and windows, and what to expect of peer-to-peer traffic.

    Examples:
      pvectl paths root@pve1
      pvectl paths --from pve1.tar.gz --output json

    Exit codes: 0 printed; 1 the host or the capture could not be read; 64 usage.
    """
    from provision.cli.context import load_or_read, resolve
    from provision.cli.output import answer, emit_json
    from provision.doctor.paths_report import paths_report
    from provision.doctor.paths_text import render
    from provision.host.assemble import assemble

    site = None if from_ is not None else resolve(target, inventory)
    report = paths_report(assemble(load_or_read(site, from_)))
    if output is OutputFormat.json:
        emit_json("paths", report)
        return 0
    source = f"--from {from_}" if from_ is not None else (target or (site.name if site else ""))
    answer(render(report, next_command=f"pvectl doctor {source}".rstrip()))
    return 0
