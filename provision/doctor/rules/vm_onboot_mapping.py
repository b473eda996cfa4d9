"""A VM starts with the host before anybody checks its mappings."""

from __future__ import annotations

from provision.doctor.guests import Guest
from provision.doctor.rule import Outcome, Rule, undecided
from provision.doctor.say import each_guest, found
from provision.evidence import Unknown
from provision.host.boot_files import text_of
from provision.host.model import HostModel
from provision.pve.mapping import MAPPING_FILE

ID = "vm-onboot-mapping"
SOURCE = "pve-guest-common, src/PVE/Mapping/PCI.pm (assert_valid)"
UNIT = "/etc/systemd/system/pvectl-mapping.service"


def check(model: HostModel) -> Outcome:
    yield from each_guest(ID, model, _check)


def _check(guest: Guest) -> Outcome:
    wanted = {slot.mapping: slot.index for slot in reversed(guest.vm.hostpci) if slot.mapping}
    if guest.get("onboot") != "1" or not wanted:
        return
    mappings, unit = guest.model.proxmox.mappings, text_of(guest.model, UNIT)
    if isinstance(mappings, Unknown):
        yield undecided(ID, mappings, MAPPING_FILE)
        return
    numbered = sorted(m.id for m in mappings if m.id in wanted and any(e.iommugroup is not None for e in m.entries))
    if not numbered or isinstance(unit, str):
        return
    if isinstance(unit, Unknown):
        yield undecided(ID, unit, UNIT)
        return
    yield found(
        ID,
        "warning",
        (guest.subject, *(f"mapping/{name}" for name in numbered)),
        f"{guest.name} starts with the host, and its mapping {', '.join(numbered)} records IOMMU groups",
        (guest.cite("onboot"), *(guest.cite(f"hostpci{wanted[name]}") for name in numbered)),
        "after an update of firmware or kernel the groups may have other numbers: the VM then does not come up",
        "pvectl plan   # offers the unit that repairs mappings before VMs start",
        source=SOURCE,
        plan_fixes=True,
    )


RULE = Rule(ID, "A VM starts at boot with a mapping that may be stale by then", check)
