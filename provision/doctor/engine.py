"""Runs every rule over one host model and sorts what they say."""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Sequence

from provision.doctor.finding import Crash, Finding, Report, Undecidable
from provision.doctor.rule import Rule
from provision.doctor.rules import RULES
from provision.host.model import HostModel

SEVERITIES = ("error", "warning", "info")


def diagnose(model: HostModel, *, rules: Sequence[Rule] = RULES) -> Report:
    """Return what the rules find on this host.

    A rule has three outcomes: it fires, it is silent, or it cannot decide and names the missing fact.
    A rule that crashes is a fault of pvectl; it is reported as one and the other rules still speak.
    """
    said: dict[str, list[Finding | Undecidable]] = {}
    crashed: list[Crash] = []
    for rule in rules:
        try:
            said[rule.id] = list(rule.check(model))
        except Exception as error:  # noqa: BLE001 (shown to the user as a fault of ours, exit code 1)
            crashed.append(_crash(rule, error))
    everything = [finding for outcome in said.values() for finding in outcome]
    findings = [finding for finding in everything if isinstance(finding, Finding)]
    absorbed = [finding for finding in findings if _is_explained(finding, findings)]
    return Report(
        findings=tuple(sorted((f for f in findings if f not in absorbed), key=_urgency)),
        undecidable=tuple(dict.fromkeys(u for u in everything if isinstance(u, Undecidable))),
        silent=tuple(name for name, outcome in said.items() if not outcome),
        absorbed=tuple(absorbed),
        crashed=tuple(crashed),
        notes=tuple(_notes(model)),
    )


def _notes(model: HostModel) -> Iterator[str]:
    if not model.gpus():
        seen = f"{len(model.pci)} PCI functions were read" if model.pci else "no PCI function was read"
        yield f"no NVIDIA GPU was found ({seen}): rules about GPUs have nothing to look at"


def _urgency(finding: Finding) -> int:
    return SEVERITIES.index(finding.severity)


def _is_explained(finding: Finding, findings: Sequence[Finding]) -> bool:
    """Whether a cause on the same subject was found that is no less severe; a lesser one must not hide it."""
    return any(
        cause.rule in finding.consequence_of
        and ("host" in cause.subjects or set(cause.subjects) & set(finding.subjects))
        and _urgency(cause) <= _urgency(finding)
        for cause in findings
    )


def _crash(rule: Rule, error: Exception) -> Crash:
    trace = traceback.format_exception(type(error), error, error.__traceback__)
    return Crash(rule=rule.id, error=f"{type(error).__name__}: {error}", trace=tuple("".join(trace).splitlines()))
