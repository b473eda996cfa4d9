"""A peer-to-peer clique that cannot mean what it says."""

from __future__ import annotations

import re
from collections.abc import Iterator

from provision.doctor import cite
from provision.doctor.finding import Evidence, Finding
from provision.doctor.rule import Outcome, Rule, undecided
from provision.doctor.slots import Slot, slots
from provision.evidence import Unknown
from provision.host.model import HostModel, Vm
from provision.pve.args import Args, ArgsError
from provision.pve.property_string import PropertyString, PropertyStringError

ID = "clique-conflict"
SOURCE = (
    "NVIDIA open-gpu-kernel-modules, hypervisor.c; QEMU, hw/vfio/pci-quirks.c; qemu-server, src/PVE/QemuServer/PCI.pm"
)
CUSTOM_MODELS = "/etc/pve/virtual-guest/cpu-models.conf"

_OF_SLOT = re.compile(r"device\.hostpci(\d+)(?:\.\d+)?\.x-nv-gpudirect-clique=")
_GLOBAL = re.compile(r"vfio-pci\.x-nv-gpudirect-clique=")
_NO = ("0", "no", "off", "false")


def check(model: HostModel) -> Outcome:
    vms = model.proxmox.vms
    if isinstance(vms, Unknown):
        yield undecided(ID, vms, "the VMs of this node")
        return
    for vm in vms:
        if isinstance(vm.config_text, Unknown):
            yield undecided(ID, vm.config_text, f"configuration of VM {vm.vmid}")
            continue
        words = _words(vm)
        if any("x-nv-gpudirect-clique" in word for word in words):
            yield from _pools(vm, words, model)
            yield from _hidden(vm, words)


def _words(vm: Vm) -> tuple[str, ...]:
    try:
        return Args.parse(vm.config.get("args", "")).values
    except ArgsError:
        # Proxmox drops args with an unclosed quote as a whole: no clique is set.
        return ()


def _pools(vm: Vm, words: tuple[str, ...], model: HostModel) -> Outcome:
    used = slots(vm, model)
    if isinstance(used, Unknown):
        yield undecided(ID, used, f"devices of VM {vm.vmid}")
        return
    pools = [slot for slot in used if slot.is_pool and _has_clique(slot, words)]
    if not pools:
        return
    names = ", ".join(sorted({slot.mapping or "" for slot in pools}))
    yield _finding(
        vm,
        f"VM {vm.vmid} sets a clique on slots that take any GPU of a pool ({names})",
        (
            cite.vm_option(vm, "args"),
            *(cite.vm_option(vm, f"hostpci{slot.index}") for slot in pools),
        ),
        "the clique vouches for GPUs that change from start to start; a pair that was never proven may be granted",
        ("mapping: per-gpu   # for this VM in the inventory, then pvectl plan: one mapping for each GPU",),
        subjects=tuple(sorted({f"mapping/{slot.mapping}" for slot in pools})),
    )


def _has_clique(slot: Slot, words: tuple[str, ...]) -> bool:
    numbers = {int(match[1]) for word in words if (match := _OF_SLOT.match(word))}
    return slot.index in numbers or any(_GLOBAL.match(word) for word in words)


def _hidden(vm: Vm, words: tuple[str, ...]) -> Outcome:
    try:
        cpu = PropertyString.parse(vm.config.get("cpu", ""), "cputype").values
    except PropertyStringError as error:
        yield undecided(ID, Unknown(unknown=str(error), supply=f"correct cpu of VM {vm.vmid}"), "the option cpu")
        return
    hiding = list(_hiding(vm, cpu, words))
    if hiding:
        yield _finding(
            vm,
            f"VM {vm.vmid} sets a clique and hides the hypervisor",
            (cite.vm_option(vm, "args"), *hiding),
            "the driver reads the clique only where it sees a hypervisor: peer-to-peer stays off (CNS)",
            ("drop x-vga=1 and kvm=off, and write cpu: host,hidden=0",),
        )
    elif cpu.get("cputype", "").startswith("custom-") and "hidden" not in cpu:
        model_file = Unknown(unknown="not read", supply=f"look for hidden in {CUSTOM_MODELS} on the host")
        yield undecided(ID, model_file, f"CPU model {cpu['cputype']} of VM {vm.vmid}")


def _hiding(vm: Vm, cpu: dict[str, str], words: tuple[str, ...]) -> Iterator[Evidence]:
    if "hidden" in cpu and cpu["hidden"] not in _NO:
        yield cite.vm_option(vm, "cpu")
    if "hidden" not in cpu:
        # An explicit hidden=0 wins over what x-vga implies.
        for slot in vm.hostpci:
            if slot.options.get("x-vga", "0") not in _NO:
                yield cite.vm_option(vm, f"hostpci{slot.index}")
    for word in words:
        if "kvm=off" in word.split(","):
            yield Evidence(source=cite.config_path(vm), excerpt=f"args: ... {word}")


def _finding(
    vm: Vm,
    summary: str,
    evidence: tuple[Evidence, ...],
    consequence: str,
    remedy: tuple[str, ...],
    *,
    subjects: tuple[str, ...] = (),
) -> Finding:
    return Finding(
        rule=ID,
        severity="error",
        subjects=(f"vm/{vm.vmid}", *subjects),
        summary=summary,
        evidence=evidence,
        consequence=consequence,
        remedy=remedy,
        source=SOURCE,
        plan_fixes=False,
    )


RULE = Rule(ID, "A peer-to-peer clique on a pool, or with a hidden hypervisor", check)
