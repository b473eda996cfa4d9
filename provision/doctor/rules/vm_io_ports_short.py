"""More GPUs with an I/O BAR in one VM than OVMF has I/O ports for."""

from __future__ import annotations

from provision.doctor import cite
from provision.doctor.finding import Finding
from provision.doctor.guest_window import GuestGpus, guest_gpus
from provision.doctor.rule import Outcome, Rule, undecided
from provision.evidence import Unknown
from provision.host.model import HostModel, Vm
from provision.pve.layout import IO_LIMIT

ID = "vm-io-ports-short"


def check(model: HostModel) -> Outcome:
    vms = model.proxmox.vms
    if isinstance(vms, Unknown):
        yield undecided(ID, vms, "the VMs of this node")
        return
    for vm in vms:
        if isinstance(vm.config_text, Unknown):
            yield undecided(ID, vm.config_text, f"configuration of VM {vm.vmid}")
        elif len(vm.hostpci) > IO_LIMIT and vm.config.get("bios") == "ovmf":
            yield from _check_vm(vm, model)


def _check_vm(vm: Vm, model: HostModel) -> Outcome:
    gpus = guest_gpus(vm, model)
    if isinstance(gpus, Unknown):
        yield undecided(ID, gpus, f"devices of VM {vm.vmid}")
        return
    with_io = [index for index, bars in gpus.bars.items() if any(bar.is_io for bar in bars)]
    if len(with_io) > IO_LIMIT:
        yield _finding(vm, gpus, with_io)
    elif gpus.missing is not None and len(vm.hostpci) - len(gpus.bars) + len(with_io) > IO_LIMIT:
        yield undecided(ID, gpus.missing, f"devices of VM {vm.vmid}")


def _finding(vm: Vm, gpus: GuestGpus, with_io: list[int]) -> Finding:
    count = len(with_io)
    first = gpus.bdfs[with_io[0]]
    bar = next(bar for bar in gpus.bars[with_io[0]] if bar.is_io)
    return Finding(
        rule=ID,
        severity="error",
        subjects=(f"vm/{vm.vmid}", *(gpus.bdfs[index] for index in with_io)),
        summary=f"VM {vm.vmid}: {count} of its GPUs have an I/O BAR, OVMF has I/O ports for {IO_LIMIT}",
        evidence=(
            cite.hardware(f"{first}/resource", f"BAR {bar.index}: {bar.size} I/O ports (and {count - 1} more GPUs)"),
            *(cite.vm_option(vm, f"hostpci{index}") for index in with_io),
        ),
        consequence="a GPU whose I/O BAR finds no place loses its memory BARs too: it is missing in the guest",
        remedy=(
            f"give the VM at most {IO_LIMIT} such GPUs: vms.{vm.vmid}.gpus in the inventory, then pvectl plan",
            "or use cards without I/O ports (data center cards, or display mode off with NVIDIA's displaymodeselector)",
        ),
        source="docs/explanation/mmio-window.md (measured with OVMF in QEMU)",
        plan_fixes=False,
    )


RULE = Rule(ID, "More GPUs with I/O ports than the guest's firmware can serve", check)
