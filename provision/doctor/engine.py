"""Runs every rule over one host model and the documents that came with it, and sorts what they say."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Sequence

from provision.doctor.causes import absorb
from provision.doctor.document_rules import BUNDLE_RULES, DOCUMENT_RULES
from provision.doctor.finding import Crash, Finding, Report, Undecidable
from provision.doctor.merge import merged
from provision.doctor.rule import BundleRule, DocumentRule, Outcome, Rule
from provision.doctor.rules import RULES
from provision.doctor.urgency import SEVERITIES, urgency
from provision.host.model import HostModel
from provision.readers.document import Document

__all__ = ["SEVERITIES", "diagnose"]


def diagnose(
    model: HostModel,
    documents: Sequence[Document] = (),
    *,
    rules: Sequence[Rule] = RULES,
    document_rules: Sequence[DocumentRule] = DOCUMENT_RULES,
    bundle_rules: Sequence[BundleRule] = BUNDLE_RULES,
) -> Report:
    """Return what the rules find on this host and in these documents.

    A rule has three outcomes: it fires, it is silent, or it cannot decide and names the missing fact.
    A rule that crashes is a fault of pvectl; it is reported as one and the other rules still speak.
    """
    said: dict[str, list[Finding | Undecidable]] = {}
    crashed: list[Crash] = []
    for name, check in _checks(model, documents, rules, document_rules, bundle_rules):
        try:
            outcome = list(check())
        except Exception as error:  # noqa: BLE001 (shown to the user as a fault of ours, exit code 1)
            crashed.append(_crash(name, error))
        else:
            said.setdefault(name, []).extend(outcome)
    everything = [one for outcome in said.values() for one in outcome]
    kept, absorbed = absorb(merged([one for one in everything if isinstance(one, Finding)]))
    return Report(
        findings=tuple(sorted(kept, key=urgency)),
        undecidable=tuple(dict.fromkeys(one for one in everything if isinstance(one, Undecidable))),
        silent=tuple(name for name, outcome in said.items() if not outcome),
        absorbed=absorbed,
        crashed=tuple(crashed),
        notes=tuple(_notes(model, documents)),
    )


def _checks(
    model: HostModel,
    documents: Sequence[Document],
    rules: Sequence[Rule],
    document_rules: Sequence[DocumentRule],
    bundle_rules: Sequence[BundleRule],
) -> Iterator[tuple[str, Callable[[], Outcome]]]:
    for rule in rules:
        yield rule.id, lambda rule=rule: rule.check(model)  # type: ignore[misc]
    for one in document_rules:
        for document in documents:
            if document.kind in one.kinds:
                yield one.id, lambda one=one, document=document: one.check(document, model)  # type: ignore[misc]
    for bundle in bundle_rules:
        given = [document for document in documents if document.kind in bundle.kinds]
        if given:
            yield bundle.id, lambda bundle=bundle, given=given: bundle.check(given, model)  # type: ignore[misc]


def _notes(model: HostModel, documents: Sequence[Document]) -> Iterator[str]:
    if documents and not any(document.kind == "pci-listing" for document in documents):
        return
    if not model.gpus() and model.other_pci is None:
        seen = f"{len(model.pci)} PCI functions were read" if model.pci else "no PCI function was read"
        yield f"no NVIDIA GPU was found ({seen}): rules about GPUs have nothing to look at"


def _crash(rule: str, error: Exception) -> Crash:
    trace = traceback.format_exception(type(error), error, error.__traceback__)
    return Crash(rule=rule, error=f"{type(error).__name__}: {error}", trace=tuple("".join(trace).splitlines()))
