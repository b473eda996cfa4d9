"""One device of a text: its head line, the lines below it, its hex dump and its group."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from provision.evidence import Maybe, Unknown
from provision.pci.model import Bar, ConfigSpace, Link, PciFunction
from provision.pci.tree import UNPLACED
from provision.readers.capabilities import capability_space
from provision.readers.capability_text import AS_ROOT, Device
from provision.readers.heads import Head, device_ids
from provision.readers.hexdump import HexDump, header_ids, read_space, subsystem_ids
from provision.readers.names import NO_CLASS, NO_ID
from provision.readers.tree_text import Node

ADD_GROUPS = "add the output of: find /sys/kernel/iommu_groups -type l"
ADD_LSPCI = AS_ROOT
TAKE_CAPTURE = "take a capture instead: pvectl capture"

_DRIVER = re.compile(r"^\s*Kernel driver in use: (?P<value>\S+)")
_GROUP = re.compile(r"^\s*IOMMU group: (?P<value>\d+)\s*$|^\s*Flags:.*\bIOMMU group (?P<flag>\d+)\b")
_NUMA = re.compile(r"^\s*NUMA node: (?P<value>\d+)")
_NUMA_FLAG = re.compile(r"^\s*Flags:.*\bNUMA node (?P<value>\d+)\b")
_SLOT = re.compile(r"^\s*Physical Slot: (?P<value>\S.*?)\s*$")
_SUBSYSTEM = re.compile(r"^\s*Subsystem: (?P<value>\S.*?)\s*$")
_BRIDGE_SUBSYSTEM = re.compile(r"^\s*Capabilities: \[[0-9a-f]+\] Subsystem: (?P<value>\S.*?)\s*$")
_REGION = re.compile(r"^\s*(?:Region (?P<index>[0-5]):|(?P<rom>Expansion ROM)) (?P<rest>.*)$")
_START = re.compile(r"\bat (?P<start>[0-9a-fA-F]+)\b(?!>)")
_KERNEL = re.compile(r"^\s*(?:Kernel driver in use|Kernel modules|Subsystem|DeviceName): ")
_SIZE = re.compile(r"\[size=(?P<number>\d+)(?P<unit>[KMGT]?)\]")
_UNITS = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}


@dataclass
class Stanza:
    """What the text gives for one function; ``group`` comes from a listing of groups."""

    line: int
    head: Head
    group: int | None = None
    details: list[str] = field(default_factory=list)
    ignored: list[tuple[int, str]] = field(default_factory=list)
    """Lines of memory that the kernel left without an address."""
    dump: HexDump = field(default_factory=HexDump)
    node: Node | None = None

    @property
    def bdf(self) -> str:
        return self.head.bdf

    @property
    def verbosity(self) -> int:
        """0 head alone, 1 ``-k``, 2 ``-v``, 3 ``-vv`` or more."""
        if any(re.match(r"^\s*Control:", line) for line in self.details):
            return 3
        if any(re.match(r"^\s*Flags:", line) for line in self.details):
            return 2
        return 1 if any(_KERNEL.match(line) for line in self.details) else 0

    @property
    def shows_extended(self) -> bool:
        return any(re.match(r"^\s*Capabilities: \[[1-9a-f][0-9a-f]{2}\b", line) for line in self.details)


@dataclass(frozen=True)
class Context:
    """What the listing around a device proves about lines that this device lacks."""

    sees_extended: bool
    keys: frozenset[str]
    """Names of optional lines that some device of the listing shows."""


_OPTIONAL = {
    "driver": _DRIVER,
    "group": _GROUP,
    "numa": _NUMA,
    "numa flag": _NUMA_FLAG,
    "slot": _SLOT,
    "subsystem": _SUBSYSTEM,
}


def keys_of(stanza: Stanza) -> frozenset[str]:
    return frozenset(name for name, pattern in _OPTIONAL.items() if any(pattern.match(line) for line in stanza.details))


def to_function(stanza: Stanza, context: Context) -> PciFunction:
    """Return the function; every fact that the text does not carry is Unknown.

    The place in the tree is left open, but for what the line itself says.
    """
    return _Function(stanza, context).build()


class _Function:
    def __init__(self, stanza: Stanza, context: Context) -> None:
        self._stanza = stanza
        self._context = context
        self._data = bytes(stanza.dump.data)
        ids = header_ids(self._data)
        head = stanza.head
        self.vendor = ids[0] if ids else (NO_ID if head.vendor is None else head.vendor)
        self.device = ids[1] if ids else (NO_ID if head.device is None else head.device)
        self.class_code = ids[2] if ids else self._class_code()
        self.revision: Maybe[int] = ids[3] if ids else self._revision()

    def _class_code(self) -> int:
        head = self._stanza.head
        if head.class_code is None:
            return 0x060400 if self._stanza.node is not None and self._stanza.node.buses else NO_CLASS << 16
        return head.class_code << 8 | (head.prog_if or 0)

    def _revision(self) -> Maybe[int]:
        revision = self._stanza.head.revision
        return _not_shown("the revision", ADD_LSPCI) if revision is None else revision

    def build(self) -> PciFunction:
        stanza, head, node = self._stanza, self._stanza.head, self._stanza.node
        config = self._config()
        subsystem = self._subsystem()
        return PciFunction(
            bdf=head.bdf,
            vendor=self.vendor,
            device=self.device,
            class_code=self.class_code,
            revision=self.revision,
            subsystem_vendor=subsystem if isinstance(subsystem, Unknown) else subsystem[0],
            subsystem_device=subsystem if isinstance(subsystem, Unknown) else subsystem[1],
            parent=node.parent if node else (head.chain[-1] if head.chain else UNPLACED),
            root=node.root if node else "",
            description=head.name or None,
            driver=self._optional("driver", str),
            iommu_group=stanza.group if stanza.group is not None else self._optional("group", int),
            numa_node=self._numa_node(),
            bars=self._bars(),
            link=_link(config),
            slot_name=self._optional("slot", str),
            config=config,
            sriov_total_vfs=_driver_vfs(config),
            **dict.fromkeys(_SYSFS_ONLY, _SYSFS),
        )

    def _optional(self, name: str, kind: type[str] | type[int]) -> Maybe[str | int | None]:
        """A line that lspci leaves out where there is nothing: absent counts only where another device shows it."""
        value = self._line(name)
        if value is not None:
            return kind(value)
        if name in self._context.keys:
            return None
        return _not_shown(*_MISSING[name])

    def _line(self, name: str) -> str | None:
        for line in self._stanza.details:
            match = _OPTIONAL[name].match(line)
            if match is not None:
                return next(value for value in match.groups() if value is not None)
        return None

    def _numa_node(self) -> Maybe[int | None]:
        flag = self._line("numa flag")
        if flag is not None:
            return int(flag)
        value = self._optional("numa", int)
        return value if isinstance(value, int | Unknown) else None

    def _subsystem(self) -> Maybe[tuple[Maybe[int | None], Maybe[int | None]]]:
        in_dump = subsystem_ids(self._data)
        if in_dump is not None:
            return in_dump
        value = self._line("subsystem") or next(
            (match["value"] for line in self._stanza.details if (match := _BRIDGE_SUBSYSTEM.match(line))), None
        )
        if value is not None:
            vendor, device = device_ids(value)
            named = _not_shown("the subsystem's id, only its name", ADD_LSPCI)
            return named if vendor is None else vendor, named if device is None else device
        if self._stanza.verbosity == 3 or "subsystem" in self._context.keys:
            return 0, 0
        return _not_shown("the subsystem", ADD_LSPCI)

    def _config(self) -> Maybe[ConfigSpace]:
        texts = self._config_of_text()
        if not self._data:
            return texts
        dump = read_space(self._data)
        return dump if isinstance(texts, Unknown) else fill(dump, texts)

    def _config_of_text(self) -> Maybe[ConfigSpace]:
        stanza = self._stanza
        is_bridge = self.class_code >> 8 == 0x0604
        has_lines = stanza.verbosity >= 2 or any(
            re.match(r"^\s*(?:Capabilities: |Express |ACSCap:)", line) for line in stanza.details
        )
        if not has_lines and stanza.node is None:
            return _not_shown("configuration space", ADD_LSPCI)
        space = capability_space(
            Device(
                lines=tuple(stanza.details),
                vendor=self.vendor,
                device=self.device,
                is_asleep=self._is_asleep(),
                is_bridge=None if self.class_code >> 16 == NO_CLASS else is_bridge,
                sees_extended=self._context.sees_extended,
            )
        )
        if stanza.node is not None and stanza.node.buses:
            first, last = stanza.node.buses
            space = space.model_copy(update={"secondary_bus": first, "subordinate_bus": last})
        return space

    def _is_asleep(self) -> bool:
        return self._stanza.head.revision == 0xFF or any(
            "Unknown header type 7f" in line for line in self._stanza.details
        )

    def _bars(self) -> Maybe[tuple[Bar, ...]]:
        """``-vv`` numbers the regions; those of a capability below are of virtual functions."""
        if self._stanza.verbosity < 3:
            return _not_shown("the numbers of the memory regions", ADD_LSPCI)
        bars: list[Bar] = []
        for line in self._stanza.details:
            if re.match(r"^\s*Capabilities:", line):
                break
            region = _REGION.match(line)
            start = _START.search(region["rest"]) if region else None
            if region is None or start is None:
                continue
            size = _SIZE.search(line)
            if size is None:
                return _not_shown("the size of a memory region", ADD_LSPCI)
            index = 6 if region["rom"] else int(region["index"])
            bars.append(_bar(index, int(start["start"], 16), int(size["number"]) << _UNITS[size["unit"]], line))
        return tuple(bars)


def _bar(index: int, start: int, size: int, line: str) -> Bar:
    return Bar(
        index=index,
        start=start,
        size=size,
        is_64bit="64-bit" in line,
        is_prefetchable=", prefetchable" in line,
        is_io="I/O ports" in line,
    )


def _link(config: Maybe[ConfigSpace]) -> Maybe[Link | None]:
    """sysfs shows what the registers hold, and no width where the link is down."""
    if isinstance(config, Unknown) or not isinstance(config.link, Link):
        return config if isinstance(config, Unknown) else config.link
    link = config.link
    down = Unknown(unknown="the link shows no lanes")
    return link if link.current_width else link.model_copy(update={"current_width": down})


def _driver_vfs(config: Maybe[ConfigSpace]) -> Maybe[int | None]:
    if isinstance(config, Unknown) or not isinstance(config.sriov_total_vfs, int):
        return config if isinstance(config, Unknown) else config.sriov_total_vfs
    return _not_shown("how many virtual functions the driver offers", TAKE_CAPTURE)


def fill(first: ConfigSpace, second: ConfigSpace) -> ConfigSpace:
    """Return ``first`` with what only ``second`` knows."""
    update = {
        name: getattr(second, name)
        for name in ConfigSpace.model_fields
        if isinstance(getattr(first, name), Unknown) and not isinstance(getattr(second, name), Unknown)
    }
    update["length"] = max(first.length, second.length)
    return first.model_copy(update=update)


def _not_shown(what: str, supply: str) -> Unknown:
    return Unknown(unknown=f"the text does not show {what}", supply=supply)


_MISSING = {
    "driver": ("which driver is bound", ADD_LSPCI),
    "group": ("IOMMU groups", ADD_GROUPS),
    "numa": ("NUMA nodes", TAKE_CAPTURE),
    "slot": ("physical slots", ADD_LSPCI),
}

_SYSFS = _not_shown("what only sysfs has", TAKE_CAPTURE)
_SYSFS_ONLY = (
    "acpi_path",
    "root_acpi_path",
    "driver_override",
    "reset_methods",
    "boot_vga",
    "modalias",
    "physfn",
    "iommu_unit",
    "mediated",
)
