"""``pvectl apply``: carry out a plan, with backups and receipts."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from provision.cli.changing import Words, Work, open_work, options_for, parse_words, show
from provision.cli.context import Site, resolve
from provision.cli.output import OutputFormat, answer, progress, style
from provision.cli.planning import read_plan
from provision.errors import UsageError

if TYPE_CHECKING:
    from provision.apply.outcome import ApplyOptions, RunOutcome
    from provision.plan.model import Plan


class Confirm(StrEnum):
    apply = "apply"
    local = "local"


def command(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[HOST] [PLAN.json] [RUN]",
            help="Inventory name, root@host[:port] or local; a plan file; with --resume the run to go on with.",
        ),
    ] = None,
    inventory: Annotated[Path | None, typer.Option("-i", "--inventory", help="Inventory file.")] = None,
    plan: Annotated[Path | None, typer.Option("--plan", help="Carry out this plan file, as it is.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask: the plan's own objects may be changed.")] = False,
    reboot: Annotated[bool, typer.Option("--reboot", help="Reboot the host where the plan needs it.")] = False,
    stop_guests: Annotated[
        bool, typer.Option("--stop-guests", help="Running guests that the plan or the reboot needs down may go down.")
    ] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the latest unfinished run, or with the RUN that is named.")
    ] = False,
    confirm: Annotated[
        Confirm,
        typer.Option(
            "--confirm",
            help="Who keeps the new boot set-up: apply, or also the host itself where address and gateway answer.",
        ),
    ] = Confirm.apply,
    accept_lost_text: Annotated[
        bool, typer.Option(help="Agree that Proxmox drops comments and damaged lines of pci.cfg at its next write.")
    ] = False,
    output: Annotated[OutputFormat, typer.Option("--output", help="Form of the answer.")] = OutputFormat.text,
) -> int:
    """Carry out a plan on a host, step by step, with a backup and a receipt for each.

    Without a plan file the plan is made now, shown and asked about. The run lives on the host: after Ctrl-C,
    a cut connection or a crash, --resume goes on with it and pvectl rollback undoes it.

    Examples:
      pvectl apply pve1 --reboot
      pvectl apply plan.json --yes --stop-guests

    Exit codes: 0 done or nothing to do, 1 error, 4 refused for safety, 5 stopped with receipts kept,
    6 the host has to reboot, 64 wrong usage or inventory, 130 interrupted.
    """
    given = parse_words(words or [], "apply")
    file = plan or given.plan
    _check_usage(given, plan, resume=resume)
    document = read_plan(file) if file is not None else None
    site = resolve(given.host or (document.host if document else None), inventory)
    options = options_for(site, reboot=reboot, stop_guests=stop_guests)
    options = options.model_copy(update={"confirm": confirm.value})
    with open_work(site, yes=yes, patience=options.reboot_deadline if resume else 0.0) as work:
        if resume:
            outcome = _resume(work, given.run, options)
        else:
            _refuse_unfinished(work)
            wanted = document or _make_plan(site, work, accept_lost_text=accept_lost_text)
            _show_plan(wanted, output, was_seen=document is not None and yes)
            outcome = _apply(work, wanted, options)
    return show(outcome, output)


def _check_usage(given: Words, plan: Path | None, *, resume: bool) -> None:
    hint = "pvectl apply --help shows what may be given"
    if plan is not None and given.plan is not None:
        raise UsageError(f"Unable to carry out two plans: {plan} and {given.plan}", hint)
    if resume and (plan or given.plan):
        raise UsageError("Unable to resume a plan file: a run has its own plan on the host", hint)
    if given.run and not resume:
        raise UsageError(f"Unable to apply run {given.run}: it has begun", f"pvectl apply --resume {given.run}")


def _refuse_unfinished(work: Work) -> None:
    """Say that a run is unfinished before a whole plan is made and shown."""
    from provision.apply.begin import refuse_unfinished

    refuse_unfinished(work.session)


def _make_plan(site: Site, work: Work, *, accept_lost_text: bool) -> Plan:
    from provision.apply.outcome import read_host_now
    from provision.cli.planning import plan_for, present_commands

    progress(f"reading {site.name} ...")
    model = read_host_now(work.session)
    commands = present_commands(site, work.session, model)
    return plan_for(site, model, accept_lost_text=accept_lost_text, commands=commands)


def _show_plan(plan: Plan, output: OutputFormat, *, was_seen: bool) -> None:
    """Show what is about to be done, as ``pvectl plan`` does; with JSON the answer alone goes to stdout.

    A plan file that is carried out without a question was read before: its first line is enough.
    """
    from provision.plan.text import plan_text

    text = plan_text(plan, next_command="", style=style)
    if was_seen:
        text = text.partition("\n")[0]
    if output is OutputFormat.json:
        progress(text)
    else:
        answer(text)


def _apply(work: Work, plan: Plan, options: ApplyOptions) -> RunOutcome:
    from provision.apply.run import apply_plan

    return apply_plan(plan, work.session, work.pve, ask=work.ask, **work.ways(options))


def _resume(work: Work, run: str | None, options: ApplyOptions) -> RunOutcome:
    from provision.apply.run import resume

    work.handler.arm()
    return resume(run, work.session, work.pve, **work.ways(options))
