"""vm-clique-untested: the branches that the table of examples does not have."""

from __future__ import annotations

import pytest
from doctor_hosts import CLIQUE, P2P, VM, Build, proven

from provision.doctor.finding import Finding, Undecidable
from provision.doctor.rules.vm_clique_untested import RULE
from provision.host.p2p_host import host_part

QEMU = {"qemu": "10.1.2"}
HOST = Build(vms={100: CLIQUE + VM}, proxmox=QEMU)


def outcome(record: str, **build):
    return list(RULE.check(Build(vms={100: CLIQUE + VM}, files={P2P: record}, **build).model()))


@pytest.mark.parametrize("verdict", ["WRONG_DATA", "HANG"])
def test_fires_as_an_error_where_a_test_has_failed(verdict):
    (finding,) = outcome(proven(verdict), proxmox=QEMU)
    assert isinstance(finding, Finding)
    assert (finding.severity, finding.plan_fixes) == ("error", True)
    assert verdict in finding.summary
    assert finding.consequence == "a word was lost"


def test_fires_where_a_test_has_shown_nothing():
    (finding,) = outcome(proven("GRANTED_UNPROVEN"), proxmox=QEMU)
    assert (finding.severity, finding.plan_fixes) == ("warning", False)


def test_fires_where_the_host_has_changed_since():
    record = proven(host=host_part(HOST.model(), 100))
    (finding,) = outcome(record, proxmox=QEMU, kernel={"release": "6.17.2-1-pve"})
    assert "6.14.8-2-pve -> 6.17.2-1-pve" in finding.summary


def test_is_silent_on_the_host_on_which_it_was_proven():
    assert outcome(proven(host=host_part(HOST.model(), 100)), proxmox=QEMU) == []


def test_cannot_decide_without_the_host_of_the_proof_or_a_part_of_it():
    assert isinstance(outcome(proven(), proxmox=QEMU)[0], Undecidable)
    (asked,) = outcome(proven(host=host_part(HOST.model(), 100)))
    assert asked.missing.startswith("qemu of the host")


def test_cannot_decide_on_a_damaged_record():
    (asked,) = outcome("{}", proxmox=QEMU)
    assert isinstance(asked, Undecidable)
