"""A kernel log shows a fault; the table of messages is ``provision.doctor.log.signatures``."""

from __future__ import annotations

from provision.doctor.finding import Finding
from provision.doctor.log.findings import log_findings
from provision.doctor.rule import DocumentRule, Outcome
from provision.doctor.switch_pairs import pair_name, pairs_below_one_switch
from provision.host.model import HostModel
from provision.readers.document import Document

ID = "kernel-log"
_SHARED_LINE = "irq-nobody-cared"


def check(document: Document, model: HostModel) -> Outcome:
    """Yield one finding for each cause; its name is the message's (``pvectl explain --list``)."""
    for one in log_findings(document, model):
        yield _with_candidates(one, model) if isinstance(one, Finding) and one.rule == _SHARED_LINE else one


def _with_candidates(finding: Finding, model: HostModel) -> Finding:
    """The message names no device; where the tree is known, cards that share a switch are the ones to look at."""
    names = [pair_name(pair) for pair in pairs_below_one_switch(model)]
    if not names:
        return finding
    text = f"{finding.summary}; cards that share a switch, and so a line: {', '.join(names)}"
    return finding.model_copy(update={"summary": text})


RULE = DocumentRule(ID, "A kernel log of host or guest shows a fault", frozenset({"kernel-log"}), check)
