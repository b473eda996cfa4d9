"""Gather everything the proof judges: one read of the host, Proxmox' own answers, one probe per guest."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from provision.capture.collect import collect_host
from provision.errors import PvectlError
from provision.evidence import Maybe, Unknown
from provision.guest.bundle import probe_source
from provision.guest.facts import RUN_BY_HAND, GuestFacts, parse_probe
from provision.host.assemble import assemble
from provision.host.model import HostModel
from provision.host.p2p_host import path_states
from provision.pve.session import CheckMessage, PveSession
from provision.remote.connect import connect
from provision.remote.session import Session, Target
from provision.verify.facts import ProofFacts
from provision.verify.p2p_measure import Wish, measure

_PROBE_DEADLINE = 180.0


def gather(
    host: str,
    session: Session,
    pve: PveSession,
    vmids: tuple[int, ...],
    guests: Mapping[int, Target],
    wish: Wish | None = None,
    tell: Callable[[str], None] = lambda _text: None,
) -> ProofFacts:
    """Read host and guests.  A guest that cannot be reached is Unknown with the reason, not an error.

    With ``wish`` each guest measures between its GPUs too.
    """
    model = assemble(collect_host(session))
    return ProofFacts(
        host=host,
        model=model,
        mapping_checks=_mapping_checks(pve),
        vm_status={vmid: _vm_status(pve, vmid) for vmid in vmids},
        guests={
            vmid: probe_guest(vmid, target) if wish is None else measure_guest(vmid, target, wish, model, tell)
            for vmid, target in guests.items()
        },
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
        done = session.python(probe_source().encode(), timeout=_PROBE_DEADLINE)
        if done.rc != 0:
            tail = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
            why = f"the probe ended with {done.rc}" + (f": {tail[0]}" if tail else "")
            return Unknown(unknown=why, supply=RUN_BY_HAND)
        return parse_probe(done.stdout.decode("utf-8", "replace"), vmid)
    except PvectlError as error:
        return Unknown(unknown=error.message, supply=error.hint)
    finally:
        session.close()


def measure_guest(
    vmid: int, target: Target, wish: Wish, model: HostModel, tell: Callable[[str], None]
) -> Maybe[GuestFacts]:
    """Run the probe in a guest, with a measurement between its GPUs."""
    try:
        session = connect(target)
    except PvectlError as error:
        return Unknown(unknown=error.message, supply=error.hint)
    try:
        return measure(session, vmid, wish, lambda facts: path_states(model, vmid, facts.pci), tell)
    except PvectlError as error:
        return Unknown(unknown=error.message, supply=error.hint)
    finally:
        session.close()
