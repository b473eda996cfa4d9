"""Keep what was shown about P2P on the host, for ``p2p`` and ``verify``."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from provision.cli.context import Site
    from provision.guest.verdict_model import P2pReport
    from provision.verify.facts import ProofFacts


def keep(site: Site, vmid: int, report: P2pReport) -> str:
    """Record a report on its host.  Returns why it could not be recorded; empty where it was, or there is nothing."""
    from provision.cli.context import open_session
    from provision.errors import PvectlError
    from provision.guest.record import record_of
    from provision.verify.p2p_store import store

    record = record_of(report)
    if record is None:
        return ""
    try:
        with open_session(site) as session:
            return store(session, vmid, record)
    except PvectlError as error:
        return f"the verdict is not recorded on {site.name}: {error.message}"


def record_p2p(site: Site, facts: ProofFacts) -> tuple[str, ...]:
    """Record every guest that has measured, and return what to tell the user."""
    from provision.evidence import Unknown
    from provision.verify.checks.guest_p2p import report_of

    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    notes = []
    for vmid, guest in facts.guests.items():
        if not isinstance(guest, Unknown) and guest.p2p_measured:
            notes.append(keep(site, vmid, report_of(facts, guest, created=now)))
    return tuple(note for note in notes if note)
