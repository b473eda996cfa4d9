"""No passthrough without an IOMMU: nothing is planned where it is off and stays off after this plan's boot."""

from __future__ import annotations

from provision.errors import Refused
from provision.evidence import Unknown, known
from provision.host.model import HostModel
from provision.pci.grouping import options_for
from provision.plan.boot_change import BootEdit

_NAMES = {"GenuineIntel": "VT-d", "AuthenticAMD": "AMD-Vi (IOMMU)"}


def refuse_iommu_off(name: str, model: HostModel, boot: BootEdit) -> None:
    """Raise Refused where no IOMMU is active and this plan does not remove the cause.

    Units that could not be read are no evidence that it is off.
    """
    units = model.iommu.units
    if isinstance(units, Unknown) or units:
        return
    cause, hint = _firmware(model) or _kernel(model, boot) or ("", "")
    if cause:
        raise Refused(f"Unable to plan for {name}: no IOMMU is active, and no GPU can go to a guest: {cause}", hint)


def _firmware(model: HostModel) -> tuple[str, str] | None:
    if model.iommu.firmware_table is not None:
        return None
    what = _NAMES.get(known(model.kernel.cpu_vendor, "") or "", "VT-d (Intel) or AMD-Vi (AMD)")
    return (
        "the firmware does not offer one (neither DMAR nor IVRS among its ACPI tables)",
        f"turn on {what} in the firmware setup, boot, and plan again",
    )


def _kernel(model: HostModel, boot: BootEdit) -> tuple[str, str] | None:
    """Return why the kernel does not use it, ``None`` where the plan's command line takes that away."""
    running = model.kernel.running_cmdline
    if isinstance(running, Unknown):
        return f"why is not known, since the running command line is {running}", "take a new capture as root"
    if options_for(model, running).iommu_on:
        return (
            "the kernel was not told to leave it off, and does not use it",
            "look for the reason in its log: dmesg | grep -i -e DMAR -e AMD-Vi -e iommu",
        )
    if boot.problem is not None:
        return (
            f"the kernel was told so, and its command line cannot be edited: {boot.problem.unknown}",
            boot.problem.supply or "remove the parameter yourself (pvectl doctor names it), then reboot",
        )
    if isinstance(boot.configured, Unknown) or not options_for(model, boot.configured).iommu_on:
        return (
            "the kernel was told so, and would be at the next boot too",
            "remove the parameter (pvectl doctor names it), then reboot",
        )
    return None
