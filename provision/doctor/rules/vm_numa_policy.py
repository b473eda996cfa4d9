"""A numaN option is half of a binding."""

from __future__ import annotations

import re

from provision.doctor.guests import Guest
from provision.doctor.rule import Outcome, Rule
from provision.doctor.say import each_guest, found
from provision.host.model import HostModel

ID = "vm-numa-policy"
SOURCE = "qemu-server, src/PVE/QemuServer/Memory.pm"


def check(model: HostModel) -> Outcome:
    yield from each_guest(ID, model, _check)


def _check(guest: Guest) -> Outcome:
    for key in guest.vm.config:
        options = guest.options(key, "cpus") if re.fullmatch(r"numa\d+", key) else {}
        missing = [name for name in ("policy", "hostnodes") if name not in options]
        if len(missing) == 1 and ("policy" in options or "hostnodes" in options):
            yield found(
                ID,
                "error",
                (guest.subject, key),
                f"{guest.name}: {key} has no {missing[0]}",
                (guest.cite(key),),
                "Proxmox ends the start: a policy needs nodes and nodes need a policy",
                f"qm set {guest.vm.vmid} --{key} {guest.get(key)},"
                + ("policy=bind" if missing[0] == "policy" else "hostnodes=0"),
                source=SOURCE,
            )


RULE = Rule(ID, "A numaN option names nodes without a policy, or a policy without nodes", check)
