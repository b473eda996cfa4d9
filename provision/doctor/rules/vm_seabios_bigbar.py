"""A VM without UEFI firmware gets a device with a large BAR."""

from __future__ import annotations

from provision.doctor import cite
from provision.doctor.fabric import titles
from provision.doctor.guests import Guest
from provision.doctor.rule import Outcome, Rule, undecided
from provision.doctor.say import each_guest, found, open_question
from provision.evidence import Unknown, known
from provision.host.model import HostModel
from provision.host.text_layout import size

ID = "vm-seabios-bigbar"
SOURCE = "EDK II, OvmfPkg; SeaBIOS, src/fw/pciinit.c; Proxmox VE Administration Guide, PCI(e) Passthrough"
LARGE = 16 << 30
"""Bytes; SeaBIOS keeps a small window above 4 GiB."""


def check(model: HostModel) -> Outcome:
    yield from each_guest(ID, model, _check)


def _check(guest: Guest) -> Outcome:
    if guest.get("bios") == "ovmf":
        return
    gpus = guest.gpus
    if isinstance(gpus, Unknown):
        yield undecided(ID, gpus, f"devices of {guest.name}")
        return
    for gpu in gpus:
        yield from open_question(ID, (gpu.bars, f"BARs of {gpu.bdf}"))
    large = [(gpu, bar) for gpu in gpus for bar in known(gpu.bars, ()) if bar.size >= LARGE]
    if large:
        yield found(
            ID,
            "warning",
            (guest.subject, *(gpu.bdf for gpu, _ in large)),
            f"{guest.name} starts with SeaBIOS and gets {titles(dict.fromkeys(gpu for gpu, _ in large))}",
            (
                guest.cite("bios"),
                *(cite.hardware(f"{gpu.bdf}/resource", f"BAR {bar.index} {size(bar.size)}") for gpu, bar in large),
            ),
            "its firmware may leave the large BAR without an address; the driver then finds no usable GPU",
            f"install the guest anew with --bios ovmf and an EFI disk (VM {guest.vm.vmid}); a BIOS disk does not boot",
            source=SOURCE,
        )


RULE = Rule(ID, "A VM with BIOS firmware gets a device with a large BAR", check)
