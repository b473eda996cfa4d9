"""Firmware, machine type, CPU and balloon of a VM that gets GPUs."""

from __future__ import annotations

import re

from provision.evidence import Unknown
from provision.plan.planners.vm_draft import Draft
from provision.plan.render import one_line
from provision.pve.args_words import ArgsReading
from provision.pve.property_string import PropertyString, PropertyStringError

QEMU_OF = {
    (8, 0): "8.0",
    (8, 1): "8.1",
    (8, 2): "8.1",
    (8, 3): "9.0",
    (8, 4): "9.2",
    (9, 0): "10.0",
    (9, 1): "10.1",
    (9, 2): "11.0",
}
"""QEMU that each Proxmox VE release came with (its release notes): newer machine types are not in it."""

_HIDES = re.compile(r"kvm=off|-kvm|hv_vendor_id=.*|hv-vendor-id=.*|-hypervisor|hypervisor=off")
_DISK = re.compile(r"(?:scsi|virtio|sata|ide)\d+")


def plan_platform(draft: Draft) -> None:
    """Want q35 and OVMF (by ``convert`` alone), a pinned machine version, ``cpu: host`` and no balloon."""
    _firmware(draft)
    _machine(draft)
    _cpu(draft)
    warn_secure_boot(draft)
    if draft.target.gpus:
        draft.set(
            "balloon",
            "0",
            "balloon: 0: all memory of a VM with a passed-through device is pinned, a balloon cannot move it",
        )


def _firmware(draft: Draft) -> None:
    if draft.get("bios") == "ovmf":
        return
    if not draft.target.wish.convert:
        draft.keep("firmware", "stays SeaBIOS: convert is false; its window for large BARs is small")
        draft.warn("SeaBIOS has little room for the BARs of large GPUs; convert: true changes the VM to OVMF")
        return
    storage = _storage(draft)
    if storage is None:
        draft.keep("firmware", "stays SeaBIOS: no disk of the VM names a storage that could hold the EFI variables")
        draft.warn("firmware is not changed: give the VM an efidisk0 first")
        return
    draft.set("bios", "ovmf", "bios: ovmf: convert is true; large BARs need a UEFI firmware")
    if draft.get("efidisk0") is None:
        value = one_line(draft.context.render, "vm/efidisk.j2", {"storage": storage})
        draft.set(
            "efidisk0",
            value,
            "efidisk0: OVMF keeps its variables there; without keys of its own, so that NVIDIA's modules load",
        )
    draft.warn("a guest that was installed under SeaBIOS boots under OVMF only if it has an EFI boot loader")


def _storage(draft: Draft) -> str | None:
    for key, value in sorted(draft.target.vm.config.items()):
        if _DISK.fullmatch(key) and ":" in value.split(",")[0] and "media=cdrom" not in value:
            return value.split(":")[0]
    return None


def _machine(draft: Draft) -> None:
    current = draft.get("machine") or ""
    machine = PropertyString.parse(current, "type")
    try:
        kind = machine.values.get("type", "")
    except PropertyStringError as error:
        draft.warn(f"machine is left alone: {error}")
        return
    if "q35" not in kind:
        _convert(draft, machine)
    elif kind == "q35":
        _pin(draft, machine)


def _convert(draft: Draft, machine: PropertyString) -> None:
    if not draft.target.wish.convert:
        draft.keep("machine type", "stays i440fx: convert is false; GPUs are given without pcie=1")
        draft.warn("i440fx gives GPUs as conventional PCI devices; convert: true changes the VM to q35")
        return
    pinned, _ = _pinned_type(draft)
    kind = pinned or "q35"
    new = machine.set("type", kind).render() if machine.values else kind
    draft.set("machine", new, "machine: convert is true; PCI Express needs q35")


def _pin(draft: Draft, machine: PropertyString) -> None:
    pinned, why = _pinned_type(draft)
    if pinned is None:
        draft.keep("machine version", f"stays unpinned: {why}")
        return
    reason = (
        f"machine: q35 means the newest version at each cold start, and with it another PCI layout; {pinned} is {why}"
    )
    draft.set("machine", machine.set("type", pinned).render(), reason)


def _pinned_type(draft: Draft) -> tuple[str | None, str]:
    version = draft.context.model.proxmox.version
    if isinstance(version, Unknown) or version is None:
        return None, f"the version of Proxmox is not known ({version})"
    match = re.match(r"(\d+)\.(\d+)", version)
    qemu = QEMU_OF.get((int(match[1]), int(match[2]))) if match else None
    if qemu is None:
        return None, f"pvectl does not know the QEMU of Proxmox VE {version}"
    return f"pc-q35-{qemu}", f"the newest of the QEMU that Proxmox VE {version} came with"


def _cpu(draft: Draft) -> None:
    cpu = PropertyString.parse(draft.get("cpu") or "", "cputype")
    try:
        values = cpu.values
    except PropertyStringError as error:
        draft.warn(f"cpu is left alone: {error}")
        return
    if values.get("cputype", "").startswith("custom-"):
        draft.keep("cpu", f"the custom model {values['cputype']} stays; it must not hide the hypervisor")
    elif values.get("cputype") != "host":
        new = PropertyString(("host", *(p for p in cpu.parts if p.strip() and _is_option(p))), "cputype")
        draft.set(
            "cpu",
            new.render(),
            "cpu: host: the guest's firmware sizes its window for BARs by the CPU's address width, "
            "and the NVIDIA driver looks at the real CPU",
        )
        cpu = new
    _folklore(draft, cpu)
    _args_cpu(draft)


def _folklore(draft: Draft, cpu: PropertyString) -> None:
    """Remove what hides the hypervisor: since driver 465 it helps nothing, and it turns every P2P grant off."""
    values = cpu.values
    if values.get("hidden") == "1":
        cpu = cpu.remove("hidden")
        draft.set(
            "cpu",
            cpu.render(),
            "cpu: hidden=1 goes: NVIDIA's driver needs no hiding since 465, and it turns every P2P grant off",
        )
    if "hv-vendor-id" in values:
        draft.set(
            "cpu",
            cpu.remove("hv-vendor-id").render(),
            "cpu: hv-vendor-id goes: it fooled a check that NVIDIA's driver no longer makes since 465",
        )


def _is_option(part: str) -> bool:
    return "=" in part and not part.startswith("cputype=")


def _args_cpu(draft: Draft) -> None:
    """Remove a ``-cpu`` from args that hides the hypervisor: it replaces ``cpu`` as a whole."""
    args = draft.args()
    if args is None:
        return
    for value in ArgsReading.of(args).values_of("cpu"):
        hiding = [part for part in value.split(",") if _HIDES.fullmatch(part)]
        if hiding:
            args = args.remove("-cpu", value)
            draft.set_args(args, f"args: -cpu with {', '.join(hiding)} goes: it replaces cpu and hides the hypervisor")
        elif value.split(",")[0] != "host":
            draft.warn(f"args holds -cpu {value}, which replaces cpu: host; remove it")


def warn_secure_boot(draft: Draft) -> None:
    """Say that keys in the EFI variables turn Secure Boot on: a guest then refuses modules that nobody signed."""
    if "pre-enrolled-keys=1" in (draft.target.vm.config.get("efidisk0") or "").split(","):
        draft.warn("efidisk0 has pre-enrolled keys: with Secure Boot the guest loads NVIDIA's modules only if signed")
