"""``pvectl doctor``: say what is wrong, with evidence and remedy."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from provision.cli.context import load_or_read, resolve
from provision.cli.output import OutputFormat, answer, emit_json, progress, style

if TYPE_CHECKING:
    from provision.doctor.finding import Report


class FailOn(StrEnum):
    error = "error"
    warning = "warning"
    info = "info"
    never = "never"


def command(
    target: Annotated[
        str | None, typer.Argument(help="root@host[:port], local, or an inventory name; none: its only host.")
    ] = None,
    inventory: Annotated[Path | None, typer.Option("-i", "--inventory", help="Inventory file.")] = None,
    from_: Annotated[Path | None, typer.Option("--from", help="Read this capture instead of a host.")] = None,
    fail_on: Annotated[
        FailOn, typer.Option("--fail-on", help="The least severity that makes the exit code 3.")
    ] = FailOn.error,
    output: Annotated[OutputFormat, typer.Option("--output", help="Form of the answer.")] = OutputFormat.text,
) -> int:
    """Say what is wrong with a host, how we know, what follows and what to do.

    Reads the host in one round trip and changes nothing. A rule that lacks a fact says which one and how to supply it.

    Examples:
      pvectl doctor root@pve1
      pvectl doctor --from pve1.tar.gz --fail-on warning --output json

    Exit codes: 0 no finding at or above --fail-on, 3 there are findings, 1 error, 64 wrong usage.
    """
    from provision.doctor.engine import diagnose
    from provision.doctor.text import report_text
    from provision.host.assemble import assemble

    site = None if from_ is not None else resolve(target, inventory)
    if site is not None:
        progress(f"reading {site.name} ...")
    capture = load_or_read(site, from_)
    report = diagnose(assemble(capture))
    if output is OutputFormat.json:
        emit_json("finding", report)
    else:
        name = site.name if site is not None else f"{capture.manifest.hostname or from_} ({from_})"
        words = target or (f"--from {from_}" if from_ is not None else "")
        answer(report_text(report, name, style=style, next_command=_next(report, words)))
    return exit_code(report, fail_on)


def exit_code(report: Report, fail_on: FailOn) -> int:
    """Return 1 where a rule crashed, else 3 for findings at or above ``fail_on``, else 0."""
    from provision.doctor.engine import SEVERITIES

    if report.crashed:
        return 1
    if fail_on is FailOn.never:
        return 0
    counted = SEVERITIES[: SEVERITIES.index(fail_on.value) + 1]
    return 3 if any(finding.severity in counted for finding in report.findings) else 0


def _next(report: Report, words: str) -> str:
    if any(finding.plan_fixes for finding in report.findings):
        return f"pvectl plan {words}".strip()
    if report.findings:
        return f"pvectl explain {report.findings[0].rule}"
    if report.undecidable:
        return "supply the facts named above, then the same command again"
    return f"pvectl plan {words}".strip()
