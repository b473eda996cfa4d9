"""``pvectl verify``: prove the result on host and guest."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from provision.cli.context import Site, open_pve, open_session, resolve
from provision.cli.output import OutputFormat, answer, emit_json, progress, style

if TYPE_CHECKING:
    from provision.remote.session import Target
    from provision.verify.facts import Proof


def command(
    host: Annotated[
        str | None, typer.Argument(help="Inventory name; not needed where the inventory has one host.")
    ] = None,
    inventory: Annotated[Path | None, typer.Option("--inventory", "-i", help="Inventory file.")] = None,
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

    Exit codes: 0 all as planned, 7 something is not, 8 something could not be decided,
    1 error, 64 wrong usage or inventory.
    """
    from provision.verify.runner import run_suite
    from provision.verify.text import report_text

    site = resolve(host, inventory)
    guests = _guests(site)
    proof = _proof(site, guests, plan)
    progress(f"judging {len(proof.expectations)} expectations ...")
    targets = {site.name: site.target, **{f"guest-{vmid}": target for vmid, target in guests.items()}}
    report = run_suite(proof.facts, proof.expectations, targets, junit.absolute() if junit else None)
    if output is OutputFormat.json:
        emit_json("report", report)
    else:
        answer(report_text(report, style))
    return report.exit_code


def _proof(site: Site, guests: dict[int, Target], plan: Path | None) -> Proof:
    from provision.verify.facts import Proof
    from provision.verify.gather import gather

    with open_session(site) as session:
        progress(f"reading {site.name} and asking {len(guests)} guest(s) ...")
        pve = open_pve(site, session)
        facts = gather(site.name, session, pve, tuple(sorted(site.wish.vms)), guests)
    if plan is not None:
        from provision.cli.planning import read_plan

        return Proof(facts=facts, expectations=read_plan(plan).expectations)
    from provision.cli.planning import plan_for

    wanted = plan_for(site, facts.model)
    if not wanted.is_empty:
        progress(f"note: {len(wanted.changes)} changes are not applied yet (pvectl plan); the proof judges the goal")
    return Proof(facts=facts, expectations=wanted.expectations)


def _guests(site: Site) -> dict[int, Target]:
    """The way to each guest that the inventory names."""
    from provision.remote.connect import parse_target

    targets = {}
    for vmid, wish in sorted(site.wish.vms.items()):
        if wish.guest is not None:
            base = parse_target(wish.guest.address)
            given = wish.guest.model_dump(include={"user", "identity_file", "known_hosts", "jump"})
            more = {
                "name": f"guest {vmid} ({wish.guest.address})",
                "port": wish.guest.port,
                "ssh_config": wish.guest.config,
            }
            targets[vmid] = base.model_copy(update={**given, **more})
    return targets
