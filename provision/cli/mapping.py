"""``pvectl mapping``: list, check, repair, adopt and split PCI resource mappings."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from provision.cli import mapping_change, mapping_read
from provision.cli.mapping_change import Wish
from provision.cli.output import OutputFormat

EPILOG = """\b
Examples:
  pvectl mapping check root@pve1
  pvectl mapping repair pve1 --dry-run

Exit codes are those of each command: pvectl mapping check --help"""

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, epilog=EPILOG)

HostName = Annotated[
    str | None, typer.Argument(help="Inventory name, root@host[:port] or local; none: the inventory's only host.")
]
InventoryFile = Annotated[Path | None, typer.Option("-i", "--inventory", help="Inventory file.")]
CaptureFile = Annotated[Path | None, typer.Option("--from", help="Read this capture instead of a host.")]
Only = Annotated[list[str] | None, typer.Option("--mapping", help="Only this mapping; may be given several times.")]
Also = Annotated[
    list[str] | None,
    typer.Option("--also", help="Another node of the cluster: a host or a capture; its entries are judged too."),
]
Output = Annotated[OutputFormat, typer.Option("--output", help="Form of the answer.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask: the mappings shown may be changed.")]
LostText = Annotated[
    bool, typer.Option(help="Agree that Proxmox drops comments and damaged lines of pci.cfg at its next write.")
]


@app.command("list")
def list_(
    host: HostName = None,
    inventory: InventoryFile = None,
    from_: CaptureFile = None,
    only: Only = None,
    output: Output = OutputFormat.text,
) -> int:
    """List every entry of every mapping, with the device behind it and the VMs that use it.

    \b
    Examples:
      pvectl mapping list root@pve1
      pvectl mapping list --from pve1.tar.gz --output json

    \b
    Exit codes: 0 listed, 1 error, 64 wrong usage.
    """
    return mapping_read.list_mappings(host, inventory, from_, only or [], output)


@app.command()
def check(
    host: HostName = None,
    inventory: InventoryFile = None,
    from_: CaptureFile = None,
    also: Also = None,
    only: Only = None,
    output: Output = OutputFormat.text,
) -> int:
    """Compare every entry with the hardware: our verdict, Proxmox's own beside it, and what to do.

    From a capture there is no Proxmox to ask. Changes nothing.

    \b
    Examples:
      pvectl mapping check pve1
      pvectl mapping check --from pve1.tar.gz --also pve2.tar.gz

    \b
    Exit codes: 0 every entry is valid, 3 an entry is not, 8 something could not be decided, 1 error,
    64 wrong usage.
    """
    return mapping_read.check_mappings(host, inventory, from_, also or [], only or [], output)


@app.command()
def repair(
    host: HostName = None,
    *,
    inventory: InventoryFile = None,
    also: Also = None,
    only: Only = None,
    assign: Annotated[
        list[str] | None,
        typer.Option(metavar="MAPPING:N=BDF", help="Say which device entry N of a mapping is; see mapping check."),
    ] = None,
    drop_gone: Annotated[bool, typer.Option("--drop-gone", help="Drop entries whose device is not there.")] = False,
    delete_empty: Annotated[
        bool, typer.Option("--delete-empty", help="Delete a mapping of which no entry would be left, without asking.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the changes and make none.")] = False,
    yes: Yes = False,
    accept_lost_text: LostText = False,
    output: Output = OutputFormat.text,
) -> int:
    """Write the entries as the hardware is now; never a guess, and entries of other nodes stay.

    Runs as every change does: with a backup and receipts on the host, Proxmox's check before and after.
    pvectl rollback undoes it.

    \b
    Examples:
      pvectl mapping repair pve1 --dry-run
      pvectl mapping repair pve1 --assign rtx6000:3=0000:41:00.0 --yes

    \b
    Exit codes: 0 done or nothing to do, 8 done as far as it is certain and you must decide the rest,
    7 Proxmox still refuses an entry of some node, 1 error, 4 refused for safety, 5 stopped with receipts
    kept, 64 wrong usage, 130 interrupted.
    """
    wish = Wish(host, inventory, tuple(only or ()), yes=yes, dry_run=dry_run, accept_lost_text=accept_lost_text)
    return mapping_change.repair(wish, also or [], assign or [], output, drop_gone=drop_gone, delete_empty=delete_empty)


@app.command()
def adopt(
    host: HostName = None,
    inventory: InventoryFile = None,
    only: Only = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="A card was exchanged: record the one that is there now.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the changes and make none.")] = False,
    yes: Yes = False,
    accept_lost_text: LostText = False,
    output: Output = OutputFormat.text,
) -> int:
    """Record who the present devices are, so that repair can tell them after a move.

    Writes /var/lib/pvectl/identity.json on the host and a short form into the entries' descriptions.

    \b
    Examples:
      pvectl mapping adopt pve1
      pvectl mapping adopt pve1 --replace --yes

    \b
    Exit codes: 0 done or nothing to do, 1 error, 4 refused for safety, 5 stopped with receipts kept,
    64 wrong usage, 130 interrupted.
    """
    wish = Wish(host, inventory, tuple(only or ()), yes=yes, dry_run=dry_run, accept_lost_text=accept_lost_text)
    return mapping_change.adopt(wish, output, replace=replace)


@app.command()
def split(
    mapping: Annotated[str, typer.Argument(help="The pool to split.")],
    host: HostName = None,
    inventory: InventoryFile = None,
    prefix: Annotated[str | None, typer.Option(help="Names are PREFIX-0, PREFIX-1 ...; default: the pool's.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the changes and make none.")] = False,
    yes: Yes = False,
    accept_lost_text: LostText = False,
    output: Output = OutputFormat.text,
) -> int:
    """Make one mapping for each GPU of a pool, one entry for each node; the pool itself stays.

    \b
    Examples:
      pvectl mapping split rtx6000 pve1 --prefix gpu
      pvectl mapping split rtx6000 --dry-run

    \b
    Exit codes: 0 done or nothing to do, 1 error, 4 refused for safety, 5 stopped with receipts kept,
    64 wrong usage, 130 interrupted.
    """
    wish = Wish(host, inventory, (mapping,), yes=yes, dry_run=dry_run, accept_lost_text=accept_lost_text)
    return mapping_change.split(wish, output, prefix=prefix)
