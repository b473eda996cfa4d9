"""A VM hides the hypervisor from its guest."""

from __future__ import annotations

from collections.abc import Iterator

from provision.doctor.guests import NO, Guest
from provision.doctor.rule import Outcome, Rule
from provision.doctor.say import each_guest, found
from provision.host.model import HostModel

ID = "vm-hypervisor-hidden"
SOURCE = "qemu-server, src/PVE/QemuServer/CPUConfig.pm; NVIDIA open-gpu-kernel-modules, hypervisor.c"


def check(model: HostModel) -> Outcome:
    yield from each_guest(ID, model, _check)


def _check(guest: Guest) -> Outcome:
    hiding = () if guest.has_clique else tuple(_hiding(guest))
    if hiding:
        yield found(
            ID,
            "info",
            (guest.subject, *(key for key, _ in hiding)),
            f"{guest.name} hides the hypervisor: {', '.join(word for _, word in hiding)}",
            (guest.cite(key) for key, _ in hiding),
            "it has not been needed since NVIDIA's driver 465; the guest loses what depends on the hypervisor, and "
            "peer-to-peer between its GPUs stays off",
            f"leave it if the guest needs it; otherwise drop it and set: qm set {guest.vm.vmid} --cpu host,hidden=0",
            source=SOURCE,
        )


def _hiding(guest: Guest) -> Iterator[tuple[str, str]]:
    cpu = guest.options("cpu", "cputype")
    if cpu.get("hidden", "0") not in NO:
        yield "cpu", f"hidden={cpu['hidden']}"
    for slot in guest.vm.hostpci:
        if slot.options.get("x-vga", "0") not in NO and "hidden" not in cpu:
            yield f"hostpci{slot.index}", f"x-vga={slot.options['x-vga']} (implies kvm=off)"
    if "kvm=off" in (guest.args.cpu or "").split(","):
        yield "args", "kvm=off"


RULE = Rule(ID, "A VM hides the hypervisor from its guest", check)
