"""``pvectl plan``: show every change and make none."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from provision.cli import context, output
from provision.cli.output import OutputFormat

if TYPE_CHECKING:
    from provision.plan.model import Plan


def command(
    host: Annotated[
        str | None, typer.Argument(help="Inventory name; not needed where the inventory has one host.")
    ] = None,
    inventory: Annotated[Path | None, typer.Option("--inventory", "-i", help="Inventory file.")] = None,
    from_: Annotated[Path | None, typer.Option("--from", help="Plan from a saved capture; no host is needed.")] = None,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="Also write the plan to this file, for pvectl apply.")
    ] = None,
    output_format: Annotated[OutputFormat, typer.Option("--output", help="text or json.")] = OutputFormat.text,
    detailed_exitcode: Annotated[bool, typer.Option(help="Exit 2 where changes are pending.")] = False,
    accept_lost_text: Annotated[
        bool, typer.Option(help="Agree that Proxmox drops comments and damaged lines of pci.cfg at its next write.")
    ] = False,
) -> int:
    """Show every change that would bring a host to its inventory, and make none.

    Examples:
      pvectl plan pve1
      pvectl plan pve1 -i pvectl.yaml -o plan.json --detailed-exitcode

    Exit codes: 0 planned (or nothing to do), 1 error, 2 changes pending (with --detailed-exitcode),
    4 refused for safety, 64 wrong usage or inventory.
    """
    from provision.cli.planning import plan_for, plan_now
    from provision.host.assemble import assemble
    from provision.host.text_layout import count
    from provision.plan.text import plan_text

    site = context.resolve(host, inventory)
    output.progress(f"planning for {site.name}: {count(len(site.wish.vms), 'VM')} in the inventory ...")
    if from_ is not None:
        plan = plan_for(site, assemble(context.load_or_read(site, from_)), accept_lost_text=accept_lost_text)
    else:
        plan = plan_now(site, accept_lost_text=accept_lost_text)
    if out is not None:
        _save(out, plan.model_dump(mode="json"))
    if output_format is OutputFormat.json:
        output.emit_json("plan", plan)
    else:
        output.answer(plan_text(plan, next_command=_next(site.name, out, plan), style=output.style))
    return 2 if detailed_exitcode and not plan.is_empty else 0


def _save(path: Path, data: dict[str, Any]) -> None:
    """Write the plan in its envelope, at once or not at all."""
    from provision.envelope import dumps, wrap
    from provision.errors import PvectlError

    try:
        handle, name = tempfile.mkstemp(dir=path.resolve().parent, prefix=f".{path.name}.")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(dumps(wrap("plan", data)))
        Path(name).replace(path)
    except OSError as error:
        raise PvectlError(f"Unable to write {path}: {error.strerror}", "choose another place with -o") from error
    output.progress(f"plan written to {path}")


def _next(name: str, out: Path | None, plan: Plan) -> str:
    if plan.unfinished is not None:
        return plan.unfinished.next_command
    if plan.is_empty:
        return f"pvectl verify {name}"
    return f"pvectl apply {out}" if out is not None else f"pvectl apply {name}"
