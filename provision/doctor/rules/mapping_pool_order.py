"""A VM's slots draw from a pool that has more devices than they take."""

from __future__ import annotations

from collections import Counter

from provision.doctor import cite
from provision.doctor.guests import Guest
from provision.doctor.rule import Outcome, Rule, undecided
from provision.doctor.say import each_guest, found
from provision.evidence import Unknown
from provision.host.model import HostModel
from provision.pve.mapping import MAPPING_FILE

ID = "mapping-pool-order"


def check(model: HostModel) -> Outcome:
    yield from each_guest(ID, model, _check)


def _check(guest: Guest) -> Outcome:
    taken = Counter(slot.mapping for slot in guest.vm.hostpci if slot.mapping is not None)
    mappings = guest.model.proxmox.mappings
    if not taken:
        return
    if isinstance(mappings, Unknown):
        yield undecided(ID, mappings, MAPPING_FILE)
        return
    for mapping in mappings:
        entries = [entry for entry in mapping.entries if entry.node == guest.vm.node]
        if 0 < taken[mapping.id] < len({entry.path.partition(".")[0] for entry in entries}):
            count = taken[mapping.id]
            yield found(
                ID,
                "info",
                (guest.subject, f"mapping/{mapping.id}"),
                f"{guest.name} takes {count} of the {len(entries)} devices of mapping {mapping.id}: which, a start "
                "decides",
                (cite.mapping_line(guest.model, mapping.id, entry.raw) for entry in entries[:8]),
                "Proxmox gives the first that is free: order, NUMA node and identity of the VM's devices may be others "
                "after each start",
                f"pvectl mapping split {mapping.id}   # one mapping for each device, for VMs that must keep theirs",
                source="qemu-server, src/PVE/QemuServer/PCI.pm (choose_hostpci_devices)",
            )


RULE = Rule(ID, "A start decides which devices of a pool a VM gets", check)
