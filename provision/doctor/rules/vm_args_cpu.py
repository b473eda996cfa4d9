"""args sets another processor than cpu."""

from __future__ import annotations

from provision.doctor.guests import Guest
from provision.doctor.rule import Outcome, Rule
from provision.doctor.say import each_guest, found
from provision.host.model import HostModel

ID = "vm-args-cpu"
SOURCE = "QEMU, qemu-options.hx, -cpu; Proxmox VE Administration Guide, qm.conf(5), args"


def check(model: HostModel) -> Outcome:
    yield from each_guest(ID, model, _check)


def _check(guest: Guest) -> Outcome:
    cpu = guest.args.cpu
    if cpu is not None:
        own = guest.get("cpu") or "kvm64 (the default)"
        yield found(
            ID,
            "info",
            (guest.subject, "args"),
            f"{guest.name}: -cpu {cpu} in args replaces cpu: {own}",
            (guest.cite("args"), guest.cite("cpu")),
            "what stands in cpu: has no effect, and what Proxmox would add to it (address bits, flags) is not there",
            "move it to the option cpu where Proxmox knows the type; keep it where the guest needs this very line",
            source=SOURCE,
        )


RULE = Rule(ID, "args sets a processor of its own, which replaces the option cpu", check)
