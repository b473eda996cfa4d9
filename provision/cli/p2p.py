"""``pvectl p2p``: whether GPUs of a guest reach each other, with proof."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from provision.cli.output import OutputFormat

if TYPE_CHECKING:
    from provision.cli.context import Site
    from provision.cli.guest_way import GuestWay
    from provision.guest.facts import GuestFacts
    from provision.guest.verdict_model import P2pReport
    from provision.host.model import HostModel
    from provision.verify.p2p_measure import Wish


def command(
    guest: Annotated[
        str, typer.Argument(metavar="GUEST", help="VMID or HOST/VMID of the inventory, or user@address[:port].")
    ],
    inventory: Annotated[Path | None, typer.Option("-i", "--inventory", help="Inventory file.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Sampled, within 90 s for two GPUs (the default).")] = False,
    full: Annotated[
        bool, typer.Option("--full", help="Every word of memory, every size and setting: minutes.")
    ] = False,
    nccl_env: Annotated[
        Path | None, typer.Option("--nccl-env", metavar="FILE", help="Also run NCCL with these NAME=value settings.")
    ] = None,
    accept_risk: Annotated[
        bool,
        typer.Option("--accept-risk", help="Write to peers even where the host's way is unsafe or not known."),
    ] = False,
    while_busy: Annotated[
        bool, typer.Option("--while-busy", help="Measure although other processes use the GPUs.")
    ] = False,
    pairs: Annotated[str, typer.Option("--pairs", help="Ordered pairs by number, 0-1,1-0; all without it.")] = "",
    output: Annotated[OutputFormat, typer.Option("--output", help="Form of the answer.")] = OutputFormat.text,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Also write one HTML page with heat maps.")
    ] = None,
) -> int:
    """Prove that the GPUs of a guest reach each other's memory, and measure how fast.

    Every ordered pair writes a pattern that the other GPU's own kernel reads; then the server's own NCCL runs
    value-checked collectives under a watchdog. Refuses while others use the GPUs. Leaves nothing in the guest, and
    the verdict on the host (/var/lib/pvectl/p2p.json).

    Examples:
      pvectl p2p 100
      pvectl p2p pve1/100 --full --html p2p.html
      pvectl p2p root@192.0.2.20 --pairs 0-1,1-0

    Exit codes: 0 proven, or with policies.p2p: off nothing granted over PCIe; 7 data lost or a hang;
    8 not proven or not known; 1 error; 64 wrong usage or inventory.
    """
    from provision.cli.guest_way import find_guest
    from provision.cli.output import answer, emit_json, style
    from provision.verify.p2p_text import render

    wish = _wish(quick, full, nccl_env, accept_risk=accept_risk, while_busy=while_busy, pairs=pairs)
    report = _report(find_guest(guest, inventory), wish)
    if html is not None:
        _write_page(report, html)
    if output is OutputFormat.json:
        emit_json("p2p", report)
    else:
        answer(render(report, style))
    return report.exit_code


def _wish(quick: bool, full: bool, nccl_env: Path | None, *, accept_risk: bool, while_busy: bool, pairs: str) -> Wish:
    from provision.errors import UsageError
    from provision.verify.p2p_measure import Wish, read_environment

    if quick and full:
        raise UsageError("Unable to measure both --quick and --full", "give one of the two; --quick is the default")
    _check_pairs(pairs)
    given = None
    if nccl_env is not None:
        try:
            given = read_environment(nccl_env.read_text(encoding="utf-8"), str(nccl_env))
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"Unable to read {nccl_env}: {error}", "name a file with NCCL_NAME=value lines") from error
    return Wish("full" if full else "quick", given, accept_risk, while_busy, pairs)


def _check_pairs(pairs: str) -> None:
    from argparse import ArgumentTypeError

    from provision.errors import UsageError
    from provision.guest.onboard.arguments import pairs as read_pairs

    try:
        if pairs:
            read_pairs(pairs)
    except ArgumentTypeError as error:
        raise UsageError(f"Unable to read --pairs {pairs}: {error}", "write ordered pairs such as 0-1,1-0") from error


def _report(way: GuestWay, wish: Wish) -> P2pReport:
    from provision.cli.output import progress
    from provision.errors import PvectlError
    from provision.evidence import Unknown
    from provision.guest.verdict import judge
    from provision.host.p2p_host import host_part
    from provision.remote.connect import connect
    from provision.verify.p2p_measure import measure

    notes: list[str] = []
    model = None
    if way.site is not None:
        progress(f"reading {way.site.name}: which ways between its GPUs are safe ...")
        try:
            model = _model(way.site)
        except PvectlError as error:
            notes.append(f"the host could not be read: {error.message}")
    session = connect(way.target)
    try:
        facts = measure(session, way.vmid, wish, lambda facts: _paths(model, way.vmid, facts), progress)
    finally:
        session.close()
    here = Unknown(unknown="the guest was named without its host", supply="name it by VMID, with an inventory")
    report = judge(
        facts,
        here if model is None else host_part(model, way.vmid),
        created=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        guest=way.name,
        host_name=way.site.name if way.site is not None else None,
        policy=way.site.policies.p2p if way.site is not None else None,
        expected_gpus=_expected(model, way.vmid),
        notes=tuple(notes),
    )
    return _recorded(report, way)


def _model(site: Site) -> HostModel:
    from provision.capture.collect import collect_host
    from provision.cli.context import open_session
    from provision.host.assemble import assemble

    with open_session(site) as session:
        return assemble(collect_host(session))


def _paths(model: HostModel | None, vmid: int, facts: GuestFacts) -> dict[str, str]:
    from provision.host.p2p_host import path_states

    return {} if model is None else dict(path_states(model, vmid, facts.pci))


def _expected(model: HostModel | None, vmid: int) -> int | None:
    """Return how many GPUs the VM was given, where its slots say so."""
    from provision.host.p2p_host import gpu_slots

    return None if model is None else gpu_slots(model, vmid)


def _recorded(report: P2pReport, way: GuestWay) -> P2pReport:
    """Keep the verdict on the host; where that fails the report says so."""
    from provision.cli.p2p_record import keep

    note = "" if way.site is None else keep(way.site, way.vmid, report)
    return report.model_copy(update={"notes": (*report.notes, note)}) if note else report


def _write_page(report: P2pReport, path: Path) -> None:
    from provision.cli.output import progress
    from provision.errors import PvectlError
    from provision.report.p2p_html import page

    try:
        path.write_text(page(report), encoding="utf-8")
    except OSError as error:
        raise PvectlError(
            f"Unable to write {path}: {error.strerror}", "name a file in a folder that is there"
        ) from error
    progress(f"wrote {path}")
