"""A report as text for a person: what to do first stands first."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from provision.doctor.finding import Evidence, Finding, Report, Undecidable

Style = Callable[[str, str], str]
"""Takes a text and the name of a style (``bold``, ``red``, ``yellow``, ``cyan``, ``dim``)."""

_GROUPS = (
    ("error", "To do first", "red"),
    ("warning", "After that", "yellow"),
    ("info", "Good to know", "cyan"),
)
_MAX_EVIDENCE = 16


def report_text(report: Report, host: str, *, style: Style = lambda text, _: text, next_command: str = "") -> str:
    """Return the report of ``host``.  ``next_command`` is what the last line advises."""
    lines = [style(f"{host}: {_counts(report)}", "bold"), *(f"note: {note}" for note in report.notes), ""]
    for severity, title, color in _GROUPS:
        findings = [finding for finding in report.findings if finding.severity == severity]
        if findings:
            lines += [style(f"{title} ({len(findings)})", "bold"), ""]
            for finding in findings:
                lines += [*_finding(finding, report, style, color), ""]
    if report.undecidable:
        lines += [style(f"Could not decide ({len(_merged(report.undecidable))})", "bold"), ""]
        lines += [*_undecidable(report.undecidable), ""]
    for crash in report.crashed:
        lines += [
            style(f"bug in pvectl: rule {crash.rule} failed: {crash.error}", "red"),
            *_indent(crash.trace[-6:]),
            "",
        ]
    if report.silent:
        lines += [style(f"Looked at, nothing found: {', '.join(report.silent)}", "dim"), ""]
    if next_command:
        lines.append(f"Next: {next_command}")
    return "\n".join(lines).rstrip("\n") + "\n"


def _counts(report: Report) -> str:
    parts = [
        _number(report.count("error"), "error"),
        _number(report.count("warning"), "warning"),
        _number(report.count("info"), "note"),
    ]
    text = ", ".join(part for part in parts if part) or "nothing found"
    open_questions = len(_merged(report.undecidable))
    return f"{text}; {open_questions} could not be decided" if open_questions else text


def _number(count: int, word: str) -> str:
    return "" if not count else f"{count} {word}{'' if count == 1 else 's'}"


def _finding(finding: Finding, report: Report, style: Style, color: str) -> list[str]:
    lines = [f"{style(finding.severity.upper(), color)} {finding.rule}: {finding.summary}"]
    shown = finding.evidence[:_MAX_EVIDENCE]
    lines += [f"    {_cite(evidence)}" for evidence in shown]
    if len(finding.evidence) > len(shown):
        lines.append(f"    ... and {len(finding.evidence) - len(shown)} more (--output json shows all)")
    lines.append(f"  so: {finding.consequence}")
    lines += [f"  do: {remedy}" for remedy in finding.remedy]
    explained = [other.rule for other in report.absorbed if finding.rule in other.consequence_of]
    if explained:
        lines.append(f"  explains: {', '.join(explained)} (goes away with this)")
    return lines


def _cite(evidence: Evidence) -> str:
    place = evidence.source if evidence.line is None else f"{evidence.source}:{evidence.line}"
    return f"{place}: {evidence.excerpt}"


def _merged(undecidable: Iterable[Undecidable]) -> dict[tuple[str, str], list[str]]:
    """Return the rules that lack each fact, so that one missing fact is one line."""
    merged: dict[tuple[str, str], list[str]] = {}
    for one in undecidable:
        merged.setdefault((one.missing, one.supply), []).append(one.rule)
    return merged


def _undecidable(undecidable: Iterable[Undecidable]) -> list[str]:
    lines = []
    for (missing, supply), rules in _merged(undecidable).items():
        lines += [f"UNKNOWN {', '.join(rules)}: {missing}", f"  do: {supply}"]
    return lines


def _indent(lines: Iterable[str]) -> list[str]:
    return [f"    {line}" for line in lines]
