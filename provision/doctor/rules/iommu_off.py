"""No IOMMU is active: nothing can be passed through."""

from __future__ import annotations

from provision.boot.cmdline import Cmdline, Token
from provision.doctor import cite
from provision.doctor.finding import Evidence, Finding
from provision.doctor.rule import Outcome, Rule, undecided
from provision.evidence import Unknown
from provision.host.model import HostModel

ID = "iommu-off"
UNITS = "/sys/class/iommu"
TABLES = "/sys/firmware/acpi/tables"


def check(model: HostModel) -> Outcome:
    units = model.iommu.units
    if isinstance(units, Unknown):
        yield undecided(ID, units, UNITS)
        return
    if units:
        return
    cause, remedy, evidence = _cause(model)
    yield Finding(
        rule=ID,
        severity="error",
        subjects=("host",),
        summary=f"no IOMMU is active: {cause}",
        evidence=(Evidence(source=UNITS, excerpt="(no entry)"), *evidence),
        consequence="a VM with hostpci ends with: cannot prepare PCI pass-through, IOMMU not present",
        remedy=remedy,
        source="pve-common, src/PVE/SysFSTools.pm (check_iommu_support); kernel-parameters, intel_iommu, amd_iommu",
        plan_fixes=False,
    )


def _cause(model: HostModel) -> tuple[str, tuple[str, ...], tuple[Evidence, ...]]:
    """Return cause, remedy and further evidence.  What is unknown here makes the cause less exact, not the finding."""
    table = model.iommu.firmware_table
    off = _switched_off(model)
    if off:
        words = " ".join(token.raw for token in off)
        return (
            f"the kernel was told so ({words})",
            (f"remove {words} from the kernel command line, then reboot",),
            tuple(cite.running(token) for token in off),
        )
    if isinstance(table, Unknown):
        return (
            "firmware or kernel has it off",
            ("turn on VT-d or AMD-Vi (IOMMU) in the firmware; on kernels before 6.8 with Intel add intel_iommu=on",),
            (),
        )
    if table is None:
        return (
            "the firmware does not offer one",
            ("turn on VT-d (Intel) or AMD-Vi, also called IOMMU or SVM with IOMMU (AMD), in the firmware setup",),
            (Evidence(source=TABLES, excerpt="neither DMAR nor IVRS"),),
        )
    return (
        f"the firmware offers one ({table}) and the kernel does not use it",
        ("add intel_iommu=on to the kernel command line if the kernel is older than 6.8",)
        if table == "DMAR"
        else ("look for AMD-Vi in the kernel log: dmesg | grep -i -e AMD-Vi -e iommu",),
        (Evidence(source=f"{TABLES}/{table}", excerpt="present"),),
    )


def _switched_off(model: HostModel) -> tuple[Token, ...]:
    text = model.kernel.running_cmdline
    if isinstance(text, Unknown):
        return ()
    line = Cmdline.parse(text)
    names = ("iommu", "intel_iommu", "amd_iommu")
    return tuple(t for t in line.kernel if t.key in names and "off" in (t.value or "").split(","))


RULE = Rule(ID, "No IOMMU is active, so nothing can be passed through", check)
