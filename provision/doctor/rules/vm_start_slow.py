"""A VM takes long to start, and Proxmox knows it."""

from __future__ import annotations

from provision.doctor.guests import Guest
from provision.doctor.rule import Outcome, Rule
from provision.doctor.say import each_guest, found
from provision.host.model import HostModel
from provision.pve.start_timeout import start_timeout_of

ID = "vm-start-slow"
SOURCE = "qemu-server, src/PVE/QemuServer/Helpers.pm, config_aware_timeout"
LONG = 600
"""Seconds; clients of the API mostly give up before that."""


def check(model: HostModel) -> Outcome:
    yield from each_guest(ID, model, _check)


def _check(guest: Guest) -> Outcome:
    seconds = start_timeout_of(guest.vm.config)
    if seconds >= LONG:
        yield found(
            ID,
            "info",
            (guest.subject,),
            f"{guest.name}: Proxmox gives it {seconds} s to start",
            (guest.cite("memory"),),
            "a start that seems to hang may only be pinning memory; a client with a shorter limit of its own reports "
            "an error while the VM comes up",
            f"wait for the task instead of a fixed time, or start with: qm start {guest.vm.vmid} --timeout {seconds}",
            source=SOURCE,
            consequence_of=("vm-no-hugepages",),
        )


RULE = Rule(ID, "A VM may take many minutes to start", check)
