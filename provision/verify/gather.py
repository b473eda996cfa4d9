"""Gather everything the proof judges: one read of the host, Proxmox' own answers, one probe per guest."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from provision.capture.collect import collect_host
from provision.errors import PvectlError
from provision.evidence import Maybe, Unknown
from provision.guest.facts import GuestFacts, parse_probe
from provision.host.assemble import assemble
from provision.pve.session import CheckMessage, PveSession
from provision.remote.connect import connect
from provision.remote.session import Session, Target
from provision.verify.facts import ProofFacts

PROBE = Path(__file__).resolve().parent.parent / "guest" / "probe.py"
_PROBE_DEADLINE = 180.0


def gather(
    host: str, session: Session, pve: PveSession, vmids: tuple[int, ...], guests: Mapping[int, Target]
) -> ProofFacts:
    """Read host and guests.  A guest that cannot be reached is Unknown with the reason, not an error."""
    return ProofFacts(
        host=host,
        model=assemble(collect_host(session)),
        mapping_checks=_mapping_checks(pve),
        vm_status={vmid: _vm_status(pve, vmid) for vmid in vmids},
        guests={vmid: probe_guest(vmid, target) for vmid, target in guests.items()},
    )


def _mapping_checks(pve: PveSession) -> Maybe[dict[str, tuple[CheckMessage, ...]]]:
    try:
        return {row.id: row.checks for row in pve.mappings(check_node=True)}
    except PvectlError as error:
        return Unknown(unknown=error.message, supply=error.hint)


def _vm_status(pve: PveSession, vmid: int) -> Maybe[str]:
    try:
        return pve.vm_status(vmid)
    except PvectlError as error:
        return Unknown(unknown=error.message, supply=error.hint)


def probe_guest(vmid: int, target: Target) -> Maybe[GuestFacts]:
    """Run the probe in a guest and read its answer."""
    try:
        session = connect(target)
    except PvectlError as error:
        return Unknown(unknown=error.message, supply=error.hint)
    try:
        done = session.python(PROBE.read_bytes(), timeout=_PROBE_DEADLINE)
        if done.rc != 0:
            tail = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
            why = f"the probe ended with {done.rc}" + (f": {tail[0]}" if tail else "")
            return Unknown(unknown=why, supply="run it by hand in the guest: python3 -I - < probe.py")
        return parse_probe(done.stdout.decode("utf-8", "replace"), vmid)
    except PvectlError as error:
        return Unknown(unknown=error.message, supply=error.hint)
    finally:
        session.close()
