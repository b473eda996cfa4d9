"""``pvectl topo``: the PCI tree of a host."""

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
    show_all: Annotated[
        bool, typer.Option("--all", help="Print every function, not only the branches to GPUs, NICs, disks, displays.")
    ] = False,
    output: Annotated[OutputFormat, typer.Option("--output", help="text or json (the whole host model).")] = (
        OutputFormat.text
    ),
) -> int:
    """Print the PCI tree of a host: NUMA nodes, ports with ACS, GPUs with their IOMMU groups and owners.

    Examples:

      pvectl topo root@pve1

      pvectl topo --from pve1.tar.gz --all

    Exit codes: 0 printed; 1 the host or the capture could not be read; 64 usage.
    """
    from provision.cli.context import load_or_read, resolve
    from provision.cli.output import answer, emit_json
    from provision.host.assemble import assemble
    from provision.host.topo_text import render

    site = None if from_ is not None else resolve(target, inventory)
    model = assemble(load_or_read(site, from_))
    if output is OutputFormat.json:
        emit_json("model", model)
        return 0
    source = f"--from {from_}" if from_ is not None else (target or (site.name if site else ""))
    answer(render(model, show_all=show_all, next_command=f"pvectl doctor {source}".rstrip()))
    return 0
