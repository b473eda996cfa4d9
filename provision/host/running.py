"""What the running kernel shows beyond its name: interrupts, huge pages, services, who owns the boot screen."""

from __future__ import annotations

import re

from provision.evidence import Maybe, Unknown
from provision.host.facts import NOT_CAPTURED, Facts
from provision.host.model import HugePages

_IRQS = "/sys/kernel/irq/*/chip_name"
_UNSAFE = "/sys/module/vfio_iommu_type1/parameters/allow_unsafe_interrupts"
_PAGES = "/sys/devices/system/node/node*/hugepages/hugepages-*/nr_hugepages"
_PAGE_FOLDER = re.compile(r"/sys/devices/system/node/node(\d+)/hugepages/hugepages-(\d+)kB/nr_hugepages")
_SERVICES = "/sys/fs/cgroup/system.slice"
_FRAMEBUFFER = re.compile(r"^\s*([0-9a-f]+)-([0-9a-f]+) : (?:BOOTFB|simple-framebuffer|efifb|vesafb)\b", re.MULTILINE)


def interrupt_remapping(facts: Facts) -> Maybe[bool]:
    """The kernel puts ``IR-`` before the name of every interrupt chip whose interrupts are remapped."""
    paths = facts.all(_IRQS)
    if isinstance(paths, Unknown):
        return paths
    chips = [chip for path in paths if isinstance(chip := facts.word(path), str)]
    if any(chip.startswith("IR-") for chip in chips):
        return True
    if any("IO-APIC" in chip or "PCI-MSI" in chip for chip in chips):
        return False
    return Unknown(unknown=f"{_IRQS} names no interrupt chip", supply="look at /proc/interrupts: names with IR-")


def unsafe_interrupts(facts: Facts) -> Maybe[bool | None]:
    """``None`` where vfio_iommu_type1 is not loaded."""
    value = facts.word(_UNSAFE)
    return value in ("Y", "1") if isinstance(value, str) else value


def huge_pages(facts: Facts) -> Maybe[tuple[HugePages, ...]]:
    paths = facts.all(_PAGES)
    if isinstance(paths, Unknown):
        return paths
    found = []
    for path in paths:
        match = _PAGE_FOLDER.fullmatch(path)
        total, free = facts.number(path), facts.number(path.replace("/nr_", "/free_"))
        if match is None or not isinstance(total, int) or not isinstance(free, int):
            return Unknown(unknown=f"{path} could not be read", supply=NOT_CAPTURED)
        found.append(HugePages(node=int(match[1]), size=int(match[2]) << 10, total=total, free=free))
    return tuple(sorted(found, key=lambda pages: (pages.node, pages.size)))


def services(facts: Facts) -> Maybe[tuple[str, ...]]:
    """Units with a control group are the ones that run."""
    names = facts.names(_SERVICES)
    if names is None:
        return Unknown(unknown=f"{_SERVICES} is not there", supply="look with: systemctl list-units")
    return names if isinstance(names, Unknown) else tuple(name for name in names if name.endswith(".service"))


def boot_framebuffer(facts: Facts) -> Maybe[tuple[int, int] | None]:
    """Addresses in /proc/iomem are zero for everybody but root."""
    text = facts.text("/proc/iomem")
    if not isinstance(text, str):
        return Unknown(unknown="/proc/iomem is not there", supply=NOT_CAPTURED) if text is None else text
    found = _FRAMEBUFFER.search(text)
    if found is None:
        return None
    first, last = int(found[1], 16), int(found[2], 16)
    return (first, last) if last else Unknown(unknown="/proc/iomem hides its addresses", supply=NOT_CAPTURED)
