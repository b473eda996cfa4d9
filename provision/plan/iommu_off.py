"""No passthrough without an IOMMU: nothing is planned where it is off.

A plan could take the parameter away that turns it off, but mappings name IOMMU groups, and the numbers of groups
that do not exist yet cannot be foretold: apply would stop after the reboot.
"""

from __future__ import annotations

from provision.boot.cmdline import Cmdline
from provision.errors import Refused
from provision.evidence import Unknown, known
from provision.host.model import HostModel
from provision.pci.grouping import options_for
from provision.plan.boot_change import BootEdit

SWITCHES = ("iommu", "amd_iommu", "intel_iommu")
"""Kernel parameters that turn an IOMMU off when one of their words is ``off``."""
_NAMES = {"GenuineIntel": "VT-d", "AuthenticAMD": "AMD-Vi (IOMMU)"}
_UPDATE = {"grub": "update-grub", "grub-pbt": "proxmox-boot-tool refresh", "systemd-boot": "proxmox-boot-tool refresh"}


def switches_off(line: Cmdline) -> tuple[str, ...]:
    """Return the parameters of a command line that turn the IOMMU off."""
    return tuple(t.raw for t in line.kernel if t.key in SWITCHES and "off" in (t.value or "").split(","))


def refuse_iommu_off(name: str, model: HostModel, boot: BootEdit) -> None:
    """Raise Refused where no IOMMU is active.  Units that could not be read are no evidence that it is off."""
    units = model.iommu.units
    if isinstance(units, Unknown) or units:
        return
    cause, hint = _firmware(model) or _kernel(model, boot)
    raise Refused(f"Unable to plan for {name}: no IOMMU is active, so no GPU can go to a guest: {cause}", hint)


def _firmware(model: HostModel) -> tuple[str, str] | None:
    if model.iommu.firmware_table is not None:
        return None
    what = _NAMES.get(known(model.kernel.cpu_vendor, "") or "", "VT-d (Intel) or AMD-Vi (AMD)")
    return (
        "the firmware does not offer one (neither DMAR nor IVRS among its ACPI tables)",
        f"turn on {what} in the firmware setup, boot, and plan again",
    )


def _kernel(model: HostModel, boot: BootEdit) -> tuple[str, str]:
    running = model.kernel.running_cmdline
    if isinstance(running, Unknown):
        return f"why is not known, since the running command line is {running}", "take a new capture as root"
    if options_for(model, running).iommu_on:
        return (
            "the kernel was not told to leave it off, and does not use it",
            "look for the reason in its log: dmesg | grep -i -e DMAR -e AMD-Vi -e iommu",
        )
    told = switches_off(Cmdline.parse(running))
    if not told:
        return (
            "the kernel was not told to use it, and does not by itself",
            f"{_by_hand(model, 'add intel_iommu=on to')}, reboot, and plan again",
        )
    cause = f"the kernel was told so ({' '.join(told)})"
    coming = {edit.token for edit in boot.removed}
    if boot.problem is None and not coming & set(told):
        return cause, "reboot, and plan again: the parameter does not stand in the boot set-up any more"
    words = " ".join(told)
    return cause, f"{_by_hand(model, f'remove {words} from')}, reboot, and plan again"


def _by_hand(model: HostModel, what: str) -> str:
    file = model.boot.cmdline_file
    tool = _UPDATE.get(model.boot.kind, "")
    where = file if isinstance(file, str) else "the kernel command line"
    return f"{what} {where}" + (f", run {tool}" if tool else "")
