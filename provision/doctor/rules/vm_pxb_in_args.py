"""args adds an expander bridge."""

from __future__ import annotations

from provision.doctor.guests import Guest
from provision.doctor.rule import Outcome, Rule
from provision.doctor.say import each_guest, found
from provision.host.model import HostModel

ID = "vm-pxb-in-args"
SOURCE = "QEMU, docs/pcie.txt; qemu-server, src/PVE/QemuServer/PCI.pm"


def check(model: HostModel) -> Outcome:
    yield from each_guest(ID, model, _check)


def _check(guest: Guest) -> Outcome:
    bridges = [value for value in guest.args.values_of("device") if value.startswith("pxb")]
    moved = [one.id for one in guest.args.device_sets if one.property == "bus" and one.id.startswith("hostpci")]
    if not bridges:
        return
    yield found(
        ID,
        "error" if moved else "warning",
        (guest.subject, *moved),
        f"{guest.name}: args adds {', '.join(bridge.split(',')[0] for bridge in bridges)}"
        + (f" and moves {', '.join(moved)} there" if moved else ""),
        (guest.cite("args"), *(guest.cite(slot) for slot in moved if slot in guest.vm.config)),
        "args comes after the devices on QEMU's command line: a hostpci slot on such a bus ends the start with "
        "'Bus not found'",
        "leave it out; tell NCCL about the nodes with a topology file (NCCL_TOPO_FILE)",
        source=SOURCE,
    )


RULE = Rule(ID, "args adds an expander bridge, which comes after the devices", check)
