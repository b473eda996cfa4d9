"""A kernel log shows a fault; the table of messages is ``provision.doctor.log.signatures``."""

from __future__ import annotations

from provision.doctor.log.findings import log_findings
from provision.doctor.rule import DocumentRule, Outcome
from provision.host.model import HostModel
from provision.readers.document import Document

ID = "kernel-log"


def check(document: Document, model: HostModel) -> Outcome:
    """Yield one finding for each cause; its name is the message's (``pvectl explain --list``)."""
    yield from log_findings(document, model)


RULE = DocumentRule(ID, "A kernel log of host or guest shows a fault", frozenset({"kernel-log"}), check)
