"""``pvectl doctor``: say what is wrong, with evidence and remedy."""

from __future__ import annotations

import shlex
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from provision.cli.context import load_or_read, resolve
from provision.cli.output import answer, emit_json, progress, style

if TYPE_CHECKING:
    from provision.doctor.finding import Report


_SOME_HOST = "root@HOST"


class DoctorOutputFormat(StrEnum):
    text = "text"
    json = "json"
    markdown = "markdown"
    sarif = "sarif"


class FailOn(StrEnum):
    error = "error"
    warning = "warning"
    info = "info"
    never = "never"


def command(
    targets: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[TARGET]",
            help="root@host[:port], local, or an inventory name; none: the inventory's only host; -: read what is "
            "pasted on standard input.  With --from: more files to read.",
        ),
    ] = None,
    inventory: Annotated[Path | None, typer.Option("-i", "--inventory", help="Inventory file.")] = None,
    from_: Annotated[
        list[Path] | None,
        typer.Option(
            "--from",
            metavar="PATH...",
            help="Read a capture, or what was pasted (lspci, logs, configuration, nvidia-smi ...): files, folders, "
            "archives, - for standard input.",
        ),
    ] = None,
    fail_on: Annotated[
        FailOn, typer.Option("--fail-on", help="The least severity that makes the exit code 3.")
    ] = FailOn.error,
    output: Annotated[
        DoctorOutputFormat,
        typer.Option("--output", help="Form of the answer: markdown for a forum, sarif for code scanning."),
    ] = DoctorOutputFormat.text,
) -> int:
    """Say what is wrong with a host, how we know, what follows and what to do.

    Reads the host in one round trip and changes nothing. A rule that lacks a fact says which one and how to supply it.

    Examples:
      pvectl doctor root@pve1
      pvectl doctor --from dmesg.txt lspci.txt /etc/default/grub
      nvidia-smi -q | pvectl doctor -
      pvectl doctor --from bundle.tar.gz --output markdown

    Exit codes: 0 no finding at or above --fail-on, 3 there are findings, 8 the texts hold nothing that is known,
    1 error, 64 wrong usage.
    """
    paths = _paths(from_, targets or [])
    seen = _of_texts(paths) if paths else _of_host(targets or [], inventory)
    _write(seen, output)
    return exit_code(seen.report, fail_on)


class _Seen(NamedTuple):
    report: Report
    name: str
    """Of the host or of the texts."""
    plan_words: str
    """What ``pvectl plan`` must be given for the same host."""


def _write(seen: _Seen, output: DoctorOutputFormat) -> None:
    from provision.doctor.markdown import report_markdown
    from provision.doctor.sarif import report_sarif
    from provision.doctor.text import report_text
    from provision.envelope import dumps

    after = _next(seen.report, seen.plan_words)
    if output is DoctorOutputFormat.json:
        emit_json("finding", seen.report)
    elif output is DoctorOutputFormat.sarif:
        answer(dumps(report_sarif(seen.report, seen.name)))
    elif output is DoctorOutputFormat.markdown:
        answer(report_markdown(seen.report, seen.name, next_command=after))
    else:
        answer(report_text(seen.report, seen.name, style=style, next_command=after))


def _paths(from_: list[Path] | None, targets: list[str]) -> list[Path]:
    """Return the files to read instead of a host; ``-`` alone is standard input."""
    return [*from_, *map(Path, targets)] if from_ else [Path("-") for target in targets if targets == ["-"]]


def _of_host(targets: list[str], inventory: Path | None) -> _Seen:
    from provision.doctor.engine import diagnose
    from provision.errors import UsageError
    from provision.host.assemble import assemble

    if len(targets) > 1:
        raise UsageError(
            f"Unable to diagnose {len(targets)} hosts at once: {', '.join(targets)}",
            "name one host, or put --from in front of files; see pvectl doctor --help",
        )
    site = resolve(targets[0] if targets else None, inventory)
    progress(f"reading {site.name} ...")
    return _Seen(diagnose(assemble(load_or_read(site, None))), site.name, " ".join(targets))


def _of_texts(paths: list[Path]) -> _Seen:
    """A capture can be planned for; other texts are not the whole of a host."""
    from provision.cli.handed_over import hand_over
    from provision.doctor.engine import diagnose

    if Path("-") in paths and sys.stdin.isatty():
        progress("reading standard input; end with Ctrl-D ...")
    given = hand_over(paths)
    for note in given.notes:
        progress(note)
    words = _SOME_HOST if given.capture is None else f"--from {shlex.quote(given.capture_name)}"
    return _Seen(diagnose(given.model, given.documents), given.name, words)


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
    """A note alone stops nobody from planning; for texts that are no whole host there is no plan."""
    if any(finding.plan_fixes for finding in report.findings):
        return f"pvectl plan {words}".strip()
    if report.count("error") or report.count("warning") or (report.findings and words == _SOME_HOST):
        return f"pvectl explain {report.findings[0].rule}"
    if report.undecidable:
        return "supply the facts named above, then the same command again"
    return f"pvectl plan {words}".strip()
