"""PCI functions from what a capture holds of sysfs."""

from __future__ import annotations

import re
from collections.abc import Mapping

from provision.evidence import Maybe, Unknown
from provision.host.facts import Facts
from provision.pci.address import Bdf
from provision.pci.config import decode
from provision.pci.model import Bar, ConfigSpace, ErrorCounts, Link, PciFunction
from provision.pci.tree import UNPLACED

DEVICES = "/sys/bus/pci/devices"
NO_VENDOR = 0xFFFF
"""Stands for an id that could not be read; no device has it (PCI Local Bus 3.0, 6.2.1)."""

_BDF = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_ROOT = re.compile(r"pci[0-9a-f]{4,8}:[0-9a-f]{2}")
_MODALIAS = re.compile(r"pci:v(\w{8})d(\w{8})sv(\w{8})sd(\w{8})bc(\w\w)sc(\w\w)i(\w\w)")
_GENERATIONS = {"2.5": 1, "5": 2, "5.0": 2, "8.0": 3, "8": 3, "16.0": 4, "16": 4, "32.0": 5, "32": 5, "64.0": 6}

_BARS, _VF_BARS = slice(7), slice(7, 13)
_IO, _PREFETCH, _MEM_64 = 0x100, 0x2000, 0x100000
"""Resource flags (linux include/linux/ioport.h)."""


def read_functions(facts: Facts) -> tuple[PciFunction, ...]:
    """Return every PCI function, sorted by BDF."""
    slots = _slots(facts)
    found = {path.split("/")[5] for kind in ("link", "file") for path in _paths(facts, kind)}
    bdfs = sorted((bdf for bdf in found if _BDF.fullmatch(bdf)), key=Bdf.parse)
    return tuple(_function(facts, bdf, slots) for bdf in bdfs)


def _paths(facts: Facts, kind: str) -> tuple[str, ...]:
    pattern = f"{DEVICES}/*" if kind == "link" else f"{DEVICES}/*/vendor"
    paths = facts.all(pattern, "link" if kind == "link" else "file")
    return () if isinstance(paths, Unknown) else paths


def _function(facts: Facts, bdf: str, slots: Maybe[Mapping[str, str]]) -> PciFunction:
    base = f"{DEVICES}/{bdf}"
    root, chain, proxy = _place(facts, base)
    ids = _Ids(facts, base)
    return PciFunction(
        bdf=bdf,
        vendor=ids.vendor,
        device=ids.device,
        class_code=ids.class_code,
        revision=_or_unknown(facts.number(f"{base}/revision"), base),
        subsystem_vendor=ids.subsystem(0),
        subsystem_device=ids.subsystem(1),
        parent=chain[-1] if chain else None,
        root=root,
        acpi_path=facts.word(f"{base}/firmware_node/path"),
        root_acpi_path=facts.word(f"/sys/devices/{root}/firmware_node/path") if root and not proxy else None,
        driver=facts.link_name(f"{base}/driver"),
        driver_override=_driver_override(facts, base),
        iommu_group=_group(facts, base),
        numa_node=_numa_node(facts, base),
        bars=_bars(facts.text(f"{base}/resource"), _BARS),
        vf_bars=_bars(facts.text(f"{base}/resource"), _VF_BARS),
        link=_link(facts, base),
        reset_methods=_reset_methods(facts, base),
        boot_vga=_flag(facts, f"{base}/boot_vga"),
        d3cold_allowed=_flag(facts, f"{base}/d3cold_allowed"),
        power_state=facts.word(f"{base}/power_state"),
        errors=_errors(facts, base),
        modalias=facts.word(f"{base}/modalias"),
        slot_name=slots if isinstance(slots, Unknown) else slots.get(Bdf.parse(bdf).slot),
        physfn=facts.link_name(f"{base}/physfn"),
        dma_proxy=proxy,
        iommu_unit=_iommu_unit(facts, base),
        sriov_total_vfs=facts.number(f"{base}/sriov_totalvfs"),
        mediated=_is_mediated(facts, base),
        config=_config(facts, base),
    )


def _place(facts: Facts, base: str) -> tuple[str, tuple[str, ...], str | None]:
    """Return host bridge, bridges from the top down, and the controller in front of a domain of its own (VMD).

    Without a readable place the host bridge is empty and the bridge above is ``UNPLACED``.
    """
    target = facts.link(base)
    if not isinstance(target, str):
        return "", (UNPLACED,), None
    parts = target.split("/")[:-1]
    roots = [index for index, part in enumerate(parts) if _ROOT.fullmatch(part)]
    if not roots:
        return "", (UNPLACED,), None
    above = [part for part in parts[: roots[-1]] if _BDF.fullmatch(part)]
    chain = tuple(part for part in parts[roots[-1] + 1 :] if _BDF.fullmatch(part))
    return parts[roots[-1]], chain, above[-1] if above else None


class _Ids:
    """Vendor, device, class and subsystem: from their files, else from ``modalias`` or configuration space."""

    def __init__(self, facts: Facts, base: str) -> None:
        self._facts = facts
        self._base = base
        alias = facts.word(f"{base}/modalias")
        match = _MODALIAS.fullmatch(alias) if isinstance(alias, str) else None
        self._alias = [int(part, 16) for part in match.groups()] if match else None
        config = facts.data(f"{base}/config")
        self._config = config if isinstance(config, bytes) and len(config) >= 64 else None

    @property
    def vendor(self) -> int:
        return self._id("vendor", 0, 0x00)

    @property
    def device(self) -> int:
        return self._id("device", 1, 0x02)

    def _id(self, name: str, part: int, offset: int) -> int:
        value = self._facts.number(f"{self._base}/{name}")
        if isinstance(value, int):
            return value
        if self._alias:
            return self._alias[part]
        return int.from_bytes(self._config[offset : offset + 2], "little") if self._config else NO_VENDOR

    @property
    def class_code(self) -> int:
        value = self._facts.number(f"{self._base}/class")
        if isinstance(value, int):
            return value
        if self._alias:
            return self._alias[4] << 16 | self._alias[5] << 8 | self._alias[6]
        return int.from_bytes(self._config[9:12], "little") if self._config else 0xFF0000

    def subsystem(self, part: int) -> Maybe[int | None]:
        value = self._facts.number(f"{self._base}/{('subsystem_vendor', 'subsystem_device')[part]}")
        if isinstance(value, Unknown) and self._alias:
            value = self._alias[2 + part]
        return value


def _or_unknown(value: Maybe[int | None], base: str) -> Maybe[int]:
    return Unknown(unknown=f"{base} has no such file") if value is None else value


def _driver_override(facts: Facts, base: str) -> Maybe[str | None]:
    value = facts.word(f"{base}/driver_override")
    return None if value in ("(null)", "") else value


def _group(facts: Facts, base: str) -> Maybe[int | None]:
    name = facts.link_name(f"{base}/iommu_group")
    if not isinstance(name, str):
        return name
    return int(name) if name.isdigit() else Unknown(unknown=f"{base}/iommu_group points to {name!r}")


def _iommu_unit(facts: Facts, base: str) -> Maybe[str | None]:
    return facts.link_name(f"{base}/iommu")


def _numa_node(facts: Facts, base: str) -> Maybe[int | None]:
    value = facts.number(f"{base}/numa_node")
    return None if isinstance(value, int) and value < 0 else value


def _flag(facts: Facts, path: str) -> Maybe[bool | None]:
    value = facts.number(path)
    return bool(value) if isinstance(value, int) else value


def _errors(facts: Facts, base: str) -> Maybe[ErrorCounts | None]:
    """Each file lists its errors by name; the last line is their sum: ``TOTAL_ERR_COR 0``."""
    counts: list[int] = []
    for name in ("correctable", "nonfatal", "fatal"):
        text = facts.word(f"{base}/aer_dev_{name}")
        if not isinstance(text, str):
            return text
        last = text.rpartition(" ")[2]
        if not last.isdigit():
            return Unknown(unknown=f"aer_dev_{name} ends {text[-30:]!r}")
        counts.append(int(last))
    return ErrorCounts(correctable=counts[0], nonfatal=counts[1], fatal=counts[2])


def _reset_methods(facts: Facts, base: str) -> Maybe[tuple[str, ...]]:
    value = facts.word(f"{base}/reset_method")
    return value if isinstance(value, Unknown) else tuple((value or "").split())


def _is_mediated(facts: Facts, base: str) -> Maybe[bool]:
    folders = [facts.names(f"{base}/{name}") for name in ("mdev_supported_types", "nvidia")]
    if any(isinstance(folder, tuple) for folder in folders):
        return True
    return next((folder for folder in folders if isinstance(folder, Unknown)), False)


def _config(facts: Facts, base: str) -> Maybe[ConfigSpace]:
    data = facts.data(f"{base}/config")
    if isinstance(data, bytes):
        return decode(data)
    return data if isinstance(data, Unknown) else Unknown(unknown=f"{base} has no configuration space")


def _bars(text: Maybe[str | None], lines: slice) -> Maybe[tuple[Bar, ...]]:
    """Lines ``start end flags``: six BARs, the expansion ROM, six of virtual functions, then windows of bridges."""
    if text is None or isinstance(text, Unknown):
        return text if isinstance(text, Unknown) else Unknown(unknown="sysfs shows no resources")
    bars: list[Bar] = []
    for index, line in list(enumerate(text.splitlines()))[lines]:
        try:
            start, end, flags = (int(word, 16) for word in line.split())
        except ValueError:
            return Unknown(unknown=f"resource line {index + 1} reads {line!r}")
        if flags and end > start:
            bars.append(_bar(index, start, end, flags))
    return tuple(bars)


def _bar(index: int, start: int, end: int, flags: int) -> Bar:
    return Bar(
        index=index,
        start=start,
        size=end - start + 1,
        is_64bit=bool(flags & _MEM_64),
        is_prefetchable=bool(flags & _PREFETCH),
        is_io=bool(flags & _IO),
    )


def _link(facts: Facts, base: str) -> Maybe[Link | None]:
    """``None`` where sysfs has no link files: a conventional or integrated function."""
    speeds = {which: facts.word(f"{base}/{which}_link_speed") for which in ("current", "max")}
    widths = {which: facts.word(f"{base}/{which}_link_width") for which in ("current", "max")}
    values = (*speeds.values(), *widths.values())
    if all(value is None for value in values):
        return None
    if all(isinstance(value, Unknown) for value in values):
        return next(value for value in values if isinstance(value, Unknown))
    return Link(
        current_gen=_generation(speeds["current"]),
        current_width=_width(widths["current"]),
        max_gen=_generation(speeds["max"]),
        max_width=_width(widths["max"]),
    )


def _generation(speed: Maybe[str | None]) -> Maybe[int]:
    """``32.0 GT/s PCIe`` is generation 5."""
    if isinstance(speed, Unknown):
        return speed
    number = (speed or "").split(" ", 1)[0]
    return _GENERATIONS.get(number) or Unknown(unknown=f"link speed reads {speed!r}")


def _width(width: Maybe[str | None]) -> Maybe[int]:
    if isinstance(width, Unknown):
        return width
    lanes = int(width) if width and width.isdigit() else 0
    return lanes if 0 < lanes <= 32 else Unknown(unknown=f"link width reads {width!r}")


def _slots(facts: Facts) -> Maybe[Mapping[str, str]]:
    """Physical slot names by address without function."""
    paths = facts.all("/sys/bus/pci/slots/*/address")
    if isinstance(paths, Unknown):
        return paths
    slots: dict[str, str] = {}
    for path in paths:
        address = facts.word(path)
        if isinstance(address, str):
            slots[address] = path.split("/")[5]
    return slots
