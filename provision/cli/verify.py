"""``pvectl verify``: prove the result on host and guest."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from provision.cli.context import Site, open_pve, open_session, resolve
from provision.cli.output import OutputFormat, answer, emit_json, progress, style
from provision.errors import UsageError

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
    *,
    cycles: Annotated[
        int | None,
        typer.Option("--cycles", min=1, max=1000, help="Stop and start the VMs this often: do their GPUs come back?"),
    ] = None,
    reset: Annotated[bool, typer.Option("--reset", help="With --cycles: also reset each VM while it runs.")] = False,
    vm: Annotated[
        list[int] | None, typer.Option("--vm", help="With --cycles: this VM; without it, all of the inventory's.")
    ] = None,
    boot_timeout: Annotated[
        float, typer.Option("--boot-timeout", min=1, help="With --cycles: seconds that a guest may take to boot.")
    ] = 900.0,
    release: Annotated[
        str | None, typer.Option("--release", metavar="BDF", help="Take a GPU out of quarantine.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="With --cycles: do not ask.")] = False,
    output: Annotated[OutputFormat, typer.Option("--output", help="Form of the answer.")] = OutputFormat.text,
) -> int:
    """Prove on the host and in the guest that the result is what the plan wanted.

    Reads the host once, asks Proxmox for its own verdict on the mappings, and runs one probe in each
    guest that the inventory says how to reach. Changes nothing. With policies.p2p: prove the guests also
    measure between their GPUs, and the verdict is kept on the host (/var/lib/pvectl/p2p.json).

    With --cycles it stops VMs, and asks before: each is shut down and started that often, and every time the host's
    kernel log, the guest's boot, its GSP firmware and its GPUs are looked at. Some cards need a power cycle of the
    host after a stop. A GPU that does not come back is put in quarantine and its VM left stopped.

    Examples:
      pvectl verify
      pvectl verify pve1 --junit report.xml
      pvectl verify --cycles 5 --reset --vm 100
      pvectl verify --release 0000:41:00.0

    Exit codes: 0 all as planned, 7 something is not, 8 something could not be decided,
    1 error, 4 not agreed to or a GPU is in quarantine, 64 wrong usage or inventory, 130 interrupted.
    """
    from provision.cli import cycling
    from provision.cli.guest_way import guest_targets
    from provision.host.text_layout import count
    from provision.verify.runner import run_suite
    from provision.verify.text import report_text

    site = resolve(host, inventory)
    if cycles is None and (reset or vm or yes):
        raise UsageError("Unable to use --reset, --vm or --yes alone: they belong to --cycles", "add --cycles N")
    if release is not None:
        return cycling.release(site, release, output)
    if cycles is not None:
        return cycling.run(site, cycling.Asked(cycles, reset, tuple(vm or ()), boot_timeout, yes, junit, output))
    guests = guest_targets(site)
    proof, notes = _proof(site, guests, plan)
    progress(f"judging {count(len(proof.expectations), 'expectation')} ...")
    targets = {site.name: site.target, **{f"guest-{vmid}": target for vmid, target in guests.items()}}
    report = run_suite(proof.facts, proof.expectations, targets, junit.absolute() if junit else None)
    report = report.model_copy(update={"notes": notes})
    if output is OutputFormat.json:
        emit_json("report", report)
    else:
        answer(report_text(report, style))
    return report.exit_code


def _proof(site: Site, guests: dict[int, Target], plan: Path | None) -> tuple[Proof, tuple[str, ...]]:
    """Return what is to be judged, and what to know before: how the last run on the host ended."""
    from provision.apply.last_run import last_run_note
    from provision.cli.p2p_record import record_p2p
    from provision.host.text_layout import count
    from provision.verify.facts import Proof
    from provision.verify.gather import gather
    from provision.verify.p2p_measure import Wish

    with open_session(site) as session:
        progress(f"reading {site.name} and asking {count(len(guests), 'guest')} ...")
        pve = open_pve(site, session)
        wish = Wish() if site.policies.p2p == "prove" else None
        facts = gather(site.name, session, pve, tuple(sorted(site.wish.vms)), guests, wish, progress)
        note = last_run_note(session, site.name)
    notes = (*((note,) if note else ()), *record_p2p(site, facts))
    if plan is not None:
        from provision.cli.planning import read_plan

        return Proof(facts=facts, expectations=read_plan(plan).expectations), notes
    from provision.cli.planning import plan_for

    wanted = plan_for(site, facts.model)
    if not wanted.is_empty:
        number = len(wanted.changes)
        missing = "1 change is" if number == 1 else f"{number} changes are"
        progress(f"note: {missing} not applied yet (pvectl plan); the proof judges the goal")
    return Proof(facts=facts, expectations=wanted.expectations), notes
