"""A report as SARIF 2.1.0 (OASIS, Static Analysis Results Interchange Format), for viewers and code scanning."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any, Final
from urllib.parse import quote

from provision import __version__
from provision.doctor.causes import explained_by
from provision.doctor.explain import Part, listing, page
from provision.doctor.finding import Crash, Evidence, Finding, Report
from provision.doctor.order import stage_of
from provision.doctor.questions import Question, questions

SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"
DOCS: Final = "pvectl:docs/"
"""Base of the documentation's pages as an absolute URI: the pages travel with pvectl (``pvectl explain``)."""
_LEVELS: Final = {"error": "error", "warning": "warning", "info": "note"}
_ROOT: Final = "ROOT"


def report_sarif(report: Report, host: str) -> dict[str, Any]:
    """Return the report of ``host`` as the values of one SARIF log with one run."""
    known = {part.id: part for part in listing()}
    names = list(dict.fromkeys(finding.rule for finding in report.findings))
    results = [_result(finding, report, names.index(finding.rule)) for finding in report.findings]
    run = {
        "tool": {"driver": _driver(names, known, report)},
        "automationDetails": {"id": f"pvectl-doctor/{quote(host, safe='')}/"},
        "originalUriBaseIds": {
            _ROOT: {
                "uri": "file:///",
                "description": {"text": "the root folder of the host, or of the machine that pasted files lie on"},
            }
        },
        "columnKind": "unicodeCodePoints",
        "invocations": [_invocation(report)],
        "results": results,
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _driver(names: Iterable[str], known: dict[str, Part], report: Report) -> dict[str, Any]:
    first = {finding.rule: finding for finding in reversed(report.findings)}
    return {
        "name": "pvectl",
        "version": __version__,
        "informationUri": f"{DOCS}index.html",
        "rules": [_rule(name, known.get(name), first[name]) for name in names],
    }


def _rule(name: str, part: Part | None, finding: Finding) -> dict[str, Any]:
    """A rule has a page; a message of a log its sentence."""
    title = finding.cause or finding.summary if part is None else part.title
    text = page(name) if part is not None and part.kind == "rule" else ""
    place = "rules" if text else "symptoms"
    return {
        "id": name,
        "name": "".join(word.capitalize() for word in name.split("-")),
        "shortDescription": {"text": title},
        "fullDescription": {"text": _meaning(text) or finding.consequence},
        "helpUri": f"{DOCS}reference/{place}.html#{'rule' if text else 'message'}-{quote(name)}",
        "help": {"text": text or f"{title}\n\nSource: {finding.source}", **({"markdown": text} if text else {})},
        "defaultConfiguration": {"level": _LEVELS[finding.severity]},
    }


def _meaning(text: str) -> str:
    """Return the first section of a rule's page."""
    _, _, rest = text.partition("## What it means\n")
    return rest.partition("\n## ")[0].strip()


def _result(finding: Finding, report: Report, index: int) -> dict[str, Any]:
    explained = [one.summary for one in explained_by(finding, report.absorbed)]
    lines = [finding.summary, f"So: {finding.consequence}", *(f"Do: {remedy}" for remedy in finding.remedy)]
    return {
        "ruleId": finding.rule,
        "ruleIndex": index,
        "level": _LEVELS[finding.severity],
        "message": {"text": "\n".join(lines + [f"Explains: {one}" for one in explained])},
        "locations": [_location(evidence, finding) for evidence in finding.evidence[:1] or (None,)],
        "relatedLocations": [_location(evidence, finding) for evidence in finding.evidence[1:]],
        "partialFingerprints": {"pvectlFinding/v1": _fingerprint(finding)},
        "properties": {
            "subjects": list(finding.subjects),
            "remedy": list(finding.remedy),
            "source": finding.source,
            "planFixes": finding.plan_fixes,
            "stage": stage_of(finding, report),
        },
    }


def _location(evidence: Evidence | None, finding: Finding) -> dict[str, Any]:
    """The place of a fact; of a finding without one its first subject."""
    source = evidence.source if evidence is not None else (finding.subjects or ("host",))[0]
    physical: dict[str, Any] = {"artifactLocation": _artifact(source)}
    if evidence is not None:
        region: dict[str, Any] = {"startLine": evidence.line or 1}
        if evidence.excerpt:
            region["snippet"] = {"text": evidence.excerpt}
        physical["region"] = region
    location: dict[str, Any] = {"physicalLocation": physical}
    if evidence is not None and evidence.excerpt:
        location["message"] = {"text": evidence.excerpt}
    if finding.subjects:
        location["logicalLocations"] = [{"name": name, "kind": "resource"} for name in finding.subjects]
    return location


def _artifact(source: str) -> dict[str, str]:
    """A file of the host stands below its root folder; a pasted file is named as it was given."""
    if source == "-":
        return {"uri": "stdin"}
    if source.startswith("/"):
        return {"uri": quote(source.lstrip("/"), safe="/") or "%2F", "uriBaseId": _ROOT}
    return {"uri": quote(source, safe="/")}


def _fingerprint(finding: Finding) -> str:
    """The same finding of the same things has the same fingerprint in every run."""
    text = "\n".join((finding.rule, *sorted(finding.subjects)))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _invocation(report: Report) -> dict[str, Any]:
    notes = [_open(one) for one in questions(report.undecidable)]
    notes += [{"level": "note", "message": {"text": note}} for note in report.notes]
    return {
        "executionSuccessful": not report.crashed,
        "toolExecutionNotifications": [*map(_crash, report.crashed), *notes],
    }


def _open(one: Question) -> dict[str, Any]:
    """One missing fact; where several rules wait for it, they are named in the text."""
    names = ", ".join(one.rules)
    more = f" (and {one.more} more like it)" if one.more else ""
    return {
        "level": "note",
        "message": {"text": f"not decided ({names}): {one.missing}{more}. To supply it: {one.supply}"},
        "associatedRule": {"id": one.rules[0]},
    }


def _crash(crash: Crash) -> dict[str, Any]:
    return {
        "level": "error",
        "message": {"text": f"rule {crash.rule} failed: {crash.error}"},
        "associatedRule": {"id": crash.rule},
    }
