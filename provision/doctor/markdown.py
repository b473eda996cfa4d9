"""A report as Markdown for a forum or an issue tracker: short lines, commands in fences, no tables."""

from __future__ import annotations

import re
from collections.abc import Sequence

from provision.doctor.causes import explained_by
from provision.doctor.finding import Evidence, Finding, Report
from provision.doctor.order import groups
from provision.doctor.questions import questions
from provision.doctor.text import cited, counts

_SPECIAL = re.compile(r"([\\`*_\[\]<>|~#])")
_COMMAND = re.compile(
    r"(?:sudo |cat |echo |qm |pct |pvesh |pvesm |pvectl |lspci|dmesg|journalctl|update-|proxmox-boot-tool|efibootmgr|"
    r"grep |nvidia-|modprobe|rmmod|systemctl|sed |sysctl|mokutil|apt|ls |cp |setpci|dkms|virsh|reboot(?:$|\s{2,}#)|"
    r"dmidecode|export |NCCL_|mst|mlxconfig|ethtool|displaymodeselector|git |make|nccl|for )"
)
_SEVERITY = {"info": "note"}
_MAX_EVIDENCE = 6
_MAX_QUESTIONS = 8
_MAX_EXCERPT = 160


def report_markdown(report: Report, host: str, *, next_command: str = "") -> str:
    """Return the report of ``host`` as Markdown."""
    lines = [f"## pvectl doctor: {_plain(host)}", "", f"{counts(report)}.", ""]
    lines += [f"Note: {_plain(note)}" for note in report.notes] + ([""] if report.notes else [])
    for group in groups(report):
        lines += [f"### {group.title}", ""]
        for finding in group.findings:
            lines += [*_finding(finding, report), ""]
    lines += _undecided(report)
    lines += [f"**Bug in pvectl:** rule `{crash.rule}` failed: {_plain(crash.error)}\n" for crash in report.crashed]
    if next_command:
        lines += ["Next:", "", *_fence([next_command])]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).rstrip("\n") + "\n"


def _finding(finding: Finding, report: Report) -> list[str]:
    lines = [f"**{_SEVERITY.get(finding.severity, finding.severity)} `{finding.rule}`**: {_plain(finding.summary)}", ""]
    shown = finding.evidence[:_MAX_EVIDENCE]
    if shown:
        lines += _fence([_short(evidence) for evidence in shown] + _more(len(finding.evidence) - len(shown)))
        lines.append("")
    lines += [f"So: {_plain(finding.consequence)}", ""]
    lines += _remedies(finding.remedy)
    for one in explained_by(finding, report.absorbed):
        lines.append(f"- explains `{one.rule}`: {_plain(one.summary)}")
    return lines


def _more(count: int) -> list[str]:
    return [f"... and {count} more"] if count > 0 else []


def _short(evidence: Evidence) -> str:
    text = cited(evidence)
    return text if len(text) <= _MAX_EXCERPT else text[: _MAX_EXCERPT - 4] + " ..."


def _remedies(remedy: Sequence[str]) -> list[str]:
    """Neighboring commands share a fence; what a person does is a line of a list."""
    lines: list[str] = []
    commands: list[str] = []
    for one in remedy:
        if is_command(one):
            commands.append(one)
            continue
        lines += [*_fenced_block(commands), f"- {_plain(one)}"]
        commands = []
    return [*lines, *_fenced_block(commands)]


def is_command(text: str) -> bool:
    """Whether a remedy can be pasted into a shell as it stands."""
    return _COMMAND.match(text) is not None


def _fenced_block(commands: Sequence[str]) -> list[str]:
    return ["", *_fence(commands), ""] if commands else []


def _fence(lines: Sequence[str]) -> list[str]:
    """Return a fence that is longer than any run of marks in the text."""
    longest = max((len(run) for line in lines for run in re.findall("`+", line)), default=0)
    mark = "`" * max(3, longest + 1)
    return [mark, *(line.replace("\n", " ") for line in lines), mark]


def _undecided(report: Report) -> list[str]:
    asked = questions(report.undecidable)
    if not asked:
        return []
    lines = ["### Could not decide", ""]
    for question in asked[:_MAX_QUESTIONS]:
        more = f" (and {question.more} more like it)" if question.more else ""
        lines.append(f"- {_plain(question.missing)}{more}: {_plain(question.supply)}")
    rest = len(asked) - _MAX_QUESTIONS
    return [*lines, *([f"- ... and {rest} more facts"] if rest > 0 else []), ""]


def _plain(text: str) -> str:
    """Return text in which no character is markup."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))
