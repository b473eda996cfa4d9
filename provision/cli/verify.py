"""``pvectl verify``: prove the result on host and guest."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from provision.cli.context import Site, open_pve, open_session, resolve
from provision.cli.output import OutputFormat, answer, emit_json, progress, style


def command(
    host: Annotated[
        str | None, typer.Argument(help="Inventory name of the host; none: the inventory's only host.")
    ] = None,
    inventory: Annotated[Path | None, typer.Option("-i", "--inventory", help="Inventory file.")] = None,
    plan: Annotated[Path | None, typer.Option("--plan", help="Judge by the expectations of this plan file.")] = None,
    junit: Annotated[Path | None, typer.Option("--junit", help="Also write a JUnit XML report.")] = None,
    output: Annotated[OutputFormat, typer.Option("--output", help="Form of the answer.")] = OutputFormat.text,
) -> int:
    """Prove on the host and in the guest that the result is what the plan wanted.

    Reads the host once, asks Proxmox for its own verdict on the mappings, and runs one probe in each
    guest that the inventory says how to reach. Changes nothing.

    Examples:
      pvectl verify
      pvectl verify pve1 --junit report.xml

    Exit codes: 0 all proven, 7 something is not as planned, 8 something could not be decided.
    """
    from provision.verify.runner import run_suite
    from provision.verify.text import report_text

    site = resolve(host, inventory)
    facts, expectations = _facts(site, plan)
    targets = {site.name: site.target, **{f"guest-{v}": t for v, t in _guests(site).items()}}
    progress(f"judging {len(expectations)} expectations ...")
    report = run_suite(facts, expectations, targets, junit)
    if output is OutputFormat.json:
        emit_json("report", report)
    else:
        answer(report_text(report, style))
    return report.exit_code


def _facts(site: Site, plan: Path | None):  # type: ignore[no-untyped-def]
    raise NotImplementedError
