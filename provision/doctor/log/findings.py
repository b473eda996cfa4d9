"""From a kernel log to findings: one for each cause, with what follows from it below."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from provision.doctor.finding import Finding, Undecidable
from provision.doctor.log import absorb
from provision.doctor.log.detect import together
from provision.doctor.log.say import finding_of, follower_of, harmless_of
from provision.doctor.log.sighting import Sighting, sightings
from provision.host.model import HostModel
from provision.readers.document import Document
from provision.readers.kernel_log import KernelLog

UNEXPLAINED = frozenset({"rminit", "rminit2", "probe-fail", "none-init", "probe-routine"})
"""Messages that only say that something failed."""


def log_findings(document: Document, model: HostModel) -> Iterator[Finding | Undecidable]:
    """Yield what a kernel log shows.

    One cause is one finding with every device that has it, how often and when; messages that follow from it are
    findings of their own that name it in ``consequence_of``.  Where only consequences were seen, the missing cause
    is an :class:`Undecidable`.
    """
    log: KernelLog = document.reading
    parts = absorb.sort_out((*sightings(log.records), *together(log)))
    faults = [one for one in parts.causes if one.signature.nature != "harmless" and not _is_proven(one, model)]
    causes: dict[str, Finding] = {}
    for key, group in _by_key(faults).items():
        details = [one for one, cause in parts.followers if cause == key and one.signature.is_detail]
        causes[key] = finding_of(group, details, document, log)
        yield causes[key]
        if group[0].id in UNEXPLAINED:
            yield _open_cause(group)
    for (_, cause), group in _by_cause(parts.followers).items():
        if cause in causes and not group[0].signature.is_detail:
            yield follower_of(causes[cause], group, document, log)
    harmless = [one for one in parts.causes if one.signature.nature == "harmless"]
    if harmless:
        yield harmless_of(harmless, document)


def _is_proven(one: Sighting, model: HostModel) -> bool:
    """A line that proves nothing needs no word where the host's groups prove it."""
    return one.signature.nature == "no-proof" and bool(model.iommu.groups)


def _by_key(found: Sequence[Sighting]) -> dict[str, list[Sighting]]:
    groups: dict[str, list[Sighting]] = {}
    for one in found:
        groups.setdefault(absorb.key_of(one), []).append(one)
    return groups


def _by_cause(followers: Sequence[tuple[Sighting, str]]) -> dict[tuple[str, str], list[Sighting]]:
    groups: dict[tuple[str, str], list[Sighting]] = {}
    for one, cause in followers:
        groups.setdefault((absorb.key_of(one), cause), []).append(one)
    return groups


def _open_cause(group: Sequence[Sighting]) -> Undecidable:
    devices = ", ".join(dict.fromkeys(one.subject for one in group if one.subject)) or "the device"
    return Undecidable(
        rule=group[0].signature.name,
        missing=f"why {devices} did not start: the log shows only that it failed",
        supply="add the whole log from the boot on, of the guest (dmesg) and of the host (journalctl -k -b)",
    )
