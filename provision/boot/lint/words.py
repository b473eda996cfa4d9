"""Names that stand for another: near misses, module names, ids."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator

from provision.boot.lint.parameters import MODULE_OPTIONS, NAMES, REAL
from provision.boot.lint.remark import KERNEL, PASSTHROUGH, Doubt, LintFacts, Remark
from provision.evidence import Unknown
from provision.pci.model import PciFunction

ID = re.compile(r"[0-9a-fA-F]{4}:[0-9a-fA-F]{4}(?::[0-9a-fA-F]{4}:[0-9a-fA-F]{4})?(?::[0-9a-fA-F]{1,6}){0,2}")
_CLOSE = 0.84

NO_MODULES = {
    "nvidia_fb": "nvidiafb",
    "nvidia_drivers": "nvidia",
    "nouveaufb": "nouveau",
    "snd_hda_nvidia": "snd_hda_intel",
    "efifb": "",
    "simpledrm": "",
}
"""Names on blacklists that are no module, and the module that is meant (empty: it is built into the kernel)."""

_STORAGE_MAKERS = {0x144D: "Samsung", 0x15B7: "SanDisk", 0x1987: "Phison", 0xC0A9: "Micron", 0x1344: "Micron",
                   0x1C5C: "SK hynix", 0x2646: "Kingston", 0x1E0F: "KIOXIA", 0x126F: "Silicon Motion"}  # fmt: skip
"""Makers whose PCI devices are NVMe controllers."""


def meant(name: str) -> str | None:
    """Return the parameter that a name nearly is, ``None`` where it is one, or near none."""
    lower = name.lower()
    if "." in lower and (module := lower.partition(".")[0]) in MODULE_OPTIONS:
        option = lower.partition(".")[2]
        if option in MODULE_OPTIONS[module]:
            return None
        near = difflib.get_close_matches(option, MODULE_OPTIONS[module], n=1, cutoff=_CLOSE)
        return f"{module}.{near[0]}" if near else None
    if lower in REAL:
        return lower if lower != name else None
    near = difflib.get_close_matches(lower, NAMES, n=1, cutoff=_CLOSE)
    return near[0] if near and len(lower) > _SHORT else None


_SHORT = 4
"""Words of so few letters resemble everything."""


def blacklisted(names: list[str]) -> Iterator[Remark]:
    """Judge the names on a blacklist."""
    for name in names:
        key = name.replace("-", "_")
        if key == "xhci_hcd":
            yield Remark(
                "no-op",
                "warning",
                name,
                "no device names it: the PCI driver of USB controllers is xhci_pci, which loads it all the same",
                "bind the controller by its address: companions: with-gpu, or driver_override",
                "Linux, drivers/usb/host/xhci-pci.c",
            )
        elif key in NO_MODULES:
            right = NO_MODULES[key]
            text = f"there is no such module; {right} is the name" if right else "it is part of the kernel, no module"
            yield Remark("misspelt", "warning", name, text, f"write {right}" if right else "leave it out", KERNEL)
        elif key in ("vfio", "vfio_pci", "vfio_iommu_type1"):
            text = "without it no device can go to a guest; a blacklist keeps it from loading at boot"
            yield Remark("risky", "error", name, text, "leave it out", PASSTHROUGH)


def given_ids(value: str, facts: LintFacts) -> Iterator[Remark | Doubt]:
    """Judge the ``ids=`` of vfio-pci: their form, and the devices that they take from the host."""
    parts = [part.strip() for part in value.split(",") if part.strip()]
    wrong = [part for part in parts if not ID.fullmatch(part)]
    if wrong:
        text = f"{', '.join(wrong)} is no id: vfio-pci reads vendor:device, with a comma between two of them"
        yield Remark("misspelt", "warning", value, text, "write vvvv:dddd,vvvv:dddd", PASSTHROUGH)
    for part in dict.fromkeys(p.lower()[:9] for p in parts if ID.fullmatch(p)):
        yield from _captured(part, facts)


def _captured(ids: str, facts: LintFacts) -> Iterator[Remark | Doubt]:
    if isinstance(facts.functions, Unknown):
        maker = _STORAGE_MAKERS.get(int(ids[:4], 16))
        if maker is not None:
            yield Remark("risky", "warning", ids, f"ids= {_NVME} ({maker})", _BY_ADDRESS, PASSTHROUGH)
        return
    held = [f for f in facts.functions if f.ids == ids]
    vital = facts.vital
    if isinstance(vital, Unknown):
        if any(not f.is_nvidia_gpu for f in held):
            yield Doubt(ids, vital, "risky")
        return
    lost = [f.bdf for f in held if f.bdf in vital]
    if lost:
        text = f"ids= takes {', '.join(lost)} from the host, which lives on it"
        yield Remark("risky", "error", ids, text, _BY_ADDRESS, PASSTHROUGH)
    elif any(_is_nvme(f) for f in held):
        yield Remark("risky", "warning", ids, f"ids= {_NVME}", _BY_ADDRESS, PASSTHROUGH)


_NVME = "takes every NVMe controller of this model from the host; the boot fails if the root disk is behind one of them"
_BY_ADDRESS = "bind the one device by its address instead (driver_override)"


def _is_nvme(function: PciFunction) -> bool:
    return function.class_code >> 8 == 0x0108
