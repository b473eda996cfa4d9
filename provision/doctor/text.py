"""A report as text for a person: what to do first stands first."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from provision.doctor.causes import explained_by
from provision.doctor.finding import Evidence, Finding, Report
from provision.doctor.order import groups
from provision.doctor.questions import Question, questions

Style = Callable[[str, str], str]
"""Takes a text and the name of a style (``bold``, ``red``, ``yellow``, ``cyan``, ``dim``)."""

_COLORS = {"error": "red", "warning": "yellow", "info": "cyan"}
_MAX_EVIDENCE = 16
_MAX_QUESTIONS = 8
_MAX_NAMES = 4


def report_text(report: Report, host: str, *, style: Style = lambda text, _: text, next_command: str = "") -> str:
    """Return the report of ``host``.  ``next_command`` is what the last line advises."""
    lines = [style(f"{host}: {counts(report)}", "bold"), *(f"note: {note}" for note in report.notes), ""]
    for group in groups(report):
        lines += [style(f"{group.title} ({len(group.findings)})", "bold"), ""]
        for finding in group.findings:
            lines += [*_finding(finding, report, style), ""]
    if report.undecidable:
        asked = questions(report.undecidable)
        lines += [style(f"Could not decide ({len(asked)})", "bold"), "", *_questions(asked), ""]
    for crash in report.crashed:
        lines += [
            style(f"bug in pvectl: rule {crash.rule} failed: {crash.error}", "red"),
            *_indent(crash.trace[-6:]),
            "",
        ]
    if report.silent:
        lines += [style(f"Looked at, nothing found: {_names(report.silent)}", "dim"), ""]
    if next_command:
        lines.append(f"Next: {next_command}")
    return "\n".join(lines).rstrip("\n") + "\n"


def counts(report: Report) -> str:
    """Return how many findings of each severity there are, and how many facts are missing."""
    parts = [
        _number(report.count("error"), "error"),
        _number(report.count("warning"), "warning"),
        _number(report.count("info"), "note"),
    ]
    text = ", ".join(part for part in parts if part) or "nothing found"
    open_questions = len(questions(report.undecidable))
    return f"{text}; {open_questions} could not be decided" if open_questions else text


def _number(count: int, word: str) -> str:
    return "" if not count else f"{count} {word}{'' if count == 1 else 's'}"


def _finding(finding: Finding, report: Report, style: Style) -> list[str]:
    lines = [f"{style(finding.severity.upper(), _COLORS[finding.severity])} {finding.rule}: {finding.summary}"]
    shown = finding.evidence[:_MAX_EVIDENCE]
    lines += [f"    {cited(evidence)}" for evidence in shown]
    if len(finding.evidence) > len(shown):
        lines.append(f"    ... and {len(finding.evidence) - len(shown)} more (--output json shows all)")
    lines.append(f"  so: {finding.consequence}")
    lines += [f"  do: {remedy}" for remedy in finding.remedy]
    lines += [f"  explains {one.rule}: {one.summary}" for one in explained_by(finding, report.absorbed)]
    return lines


def cited(evidence: Evidence) -> str:
    """Return a fact with the place that it was read from."""
    place = evidence.source if evidence.line is None else f"{evidence.source}:{evidence.line}"
    return f"{place}: {evidence.excerpt}"


def _questions(asked: tuple[Question, ...]) -> list[str]:
    lines = []
    for question in asked[:_MAX_QUESTIONS]:
        more = f" (and {question.more} more like it)" if question.more else ""
        lines += [f"UNKNOWN {_names(question.rules)}: {question.missing}{more}", f"  do: {question.supply}"]
    if len(asked) > _MAX_QUESTIONS:
        lines.append(f"... and {len(asked) - _MAX_QUESTIONS} more facts (--output json shows all)")
    return lines


def _names(rules: tuple[str, ...]) -> str:
    return ", ".join(rules) if len(rules) <= _MAX_NAMES else f"{len(rules)} rules"


def _indent(lines: Iterable[str]) -> list[str]:
    return [f"    {line}" for line in lines]
