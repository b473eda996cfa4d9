"""Which network interfaces get a name of their own, and why one cannot."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from provision.boot.interfaces import INTERFACES_FILE, INTERFACES_FOLDER, InterfacesFile
from provision.boot.link_file import LinkFile
from provision.evidence import Maybe, Unknown
from provision.host.boot_files import folder_texts, text_of
from provision.host.model import HostModel, NetworkInterface
from provision.pci.address import Bdf

PROXMOX_TOOL = "/usr/bin/pve-network-interface-pinning"
PROXMOX_LINKS = "/usr/local/lib/systemd/network"
SYSTEM_LINKS = "/etc/systemd/network"
_MAC = re.compile(r"(?:[0-9a-f]{2}:){5}[0-9a-f]{2}")
_PINNING = ("50-pvectl-", "50-pmx-")
_ELSEWHERE = ("/etc/pve/sdn/", "/etc/pve/nodes/")


@dataclass(frozen=True)
class Pin:
    """One interface: its name now, the address it is known by, the name it is to have."""

    old: str
    mac: str
    new: str


@dataclass
class Pins:
    pins: list[Pin] = field(default_factory=list)
    kept: list[tuple[str, str]] = field(default_factory=list)
    """Interfaces that stay as they are, and why."""
    problem: str = ""
    """Why nothing at all can be renamed."""

    @property
    def names(self) -> dict[str, str]:
        return {pin.old: pin.new for pin in self.pins}


def link_folder(model: HostModel) -> str:
    """Proxmox keeps its own pins in a folder of its own, where its tool finds them."""
    tool = model.files.get(PROXMOX_TOOL)
    return PROXMOX_LINKS if tool is not None and isinstance(tool.content, str) else SYSTEM_LINKS


def link_path(model: HostModel, name: str) -> str:
    folder = link_folder(model)
    return f"{folder}/50-{'pmx' if folder == PROXMOX_LINKS else 'pvectl'}-{name}.link"


def interfaces_files(model: HostModel) -> Maybe[Mapping[str, InterfacesFile]]:
    """Return ``/etc/network/interfaces`` and its parts, or why one is not known."""
    own = text_of(model, INTERFACES_FILE)
    parts = folder_texts(model, INTERFACES_FOLDER)
    if isinstance(own, Unknown):
        return own
    if isinstance(parts, Unknown):
        return parts
    texts = {**({} if own is None else {INTERFACES_FILE: own}), **parts}
    return {path: InterfacesFile.parse(text) for path, text in texts.items()}


def pins(model: HostModel) -> Pins:
    """Return the names to give; an interface that a link file names already keeps its name."""
    found = Pins()
    files, links = interfaces_files(model), _links(model)
    for fact in (files, links, model.interfaces):
        if isinstance(fact, Unknown):
            found.problem = str(fact)
            return found
    assert not isinstance(files, Unknown)  # noqa: S101
    assert not isinstance(links, Unknown)  # noqa: S101
    taken = {link.name for link in links} | set(_all_names(model))
    free = (name for name in (f"nic{number}" for number in range(1000)) if name not in taken)
    for interface in _physical(model):
        mac = interface.permanent_mac or interface.mac
        if any(link.name == interface.name and mac in link.macs for link in links):
            found.kept.append((interface.name, "a .link file gives it this name by its address"))
        elif any(file.words(interface.name) for file in files.values()):
            _pin(found, interface, mac, next(free))
    found.problem = _problem(model, found, files)
    if found.problem:
        found.pins = []
    return found


def pinned(model: HostModel) -> tuple[tuple[str, str], ...]:
    """Return address and name of each card of this host that a link file of pvectl or Proxmox names already."""
    there = {interface.permanent_mac or interface.mac for interface in _physical(model)}
    found = []
    for folder in (SYSTEM_LINKS, PROXMOX_LINKS):
        texts = folder_texts(model, folder)
        for path, text in sorted(texts.items()) if not isinstance(texts, Unknown) else ():
            link = LinkFile.parse(text)
            if path.rsplit("/", 1)[1].startswith(_PINNING) and link.name is not None:
                found += [(mac, link.name) for mac in link.macs if mac in there]
    return tuple(found)


def _links(model: HostModel) -> Maybe[tuple[LinkFile, ...]]:
    found: list[LinkFile] = []
    for folder in (SYSTEM_LINKS, PROXMOX_LINKS):
        texts = folder_texts(model, folder)
        if isinstance(texts, Unknown):
            return texts
        found += (LinkFile.parse(text) for text in texts.values())
    return tuple(found)


def _all_names(model: HostModel) -> Iterator[str]:
    yield from (one.name for one in (model.interfaces if isinstance(model.interfaces, tuple) else ()))


def _physical(model: HostModel) -> list[NetworkInterface]:
    """Interfaces of PCI functions that are no virtual ones, by address."""
    found = []
    for interface in model.interfaces if isinstance(model.interfaces, tuple) else ():
        function = model.function(interface.bdf) if isinstance(interface.bdf, str) else None
        if function is not None and function.physfn is None and function.base_class == 0x02:
            found.append((Bdf.parse(function.bdf), interface.name, interface))
    return [interface for _, _, interface in sorted(found, key=lambda one: (str(one[0]), one[1]))]


def _pin(found: Pins, interface: NetworkInterface, mac: Maybe[str | None], name: str) -> None:
    if isinstance(mac, str) and _MAC.fullmatch(mac):
        found.pins.append(Pin(interface.name, mac, name))
    else:
        found.kept.append((interface.name, f"its hardware address is not known ({mac})"))


def _problem(model: HostModel, found: Pins, files: Mapping[str, InterfacesFile]) -> str:
    macs = [pin.mac for pin in found.pins]
    if len(set(macs)) < len(macs):
        return "two interfaces have the same hardware address"
    for pin in found.pins:
        for path, file in files.items():
            lines = file.doubtful(pin.old)
            if lines:
                return f"{path} line {lines[0][0]} names {pin.old} inside a longer word: {lines[0][1]}"
        for path, state in model.files.items():
            if path.startswith(_ELSEWHERE) and (isinstance(state.content, Unknown) or _names(state.content, pin.old)):
                return f"{path} names {pin.old} as well, and pvectl does not edit it"
    return ""


def _names(text: str | None, name: str) -> bool:
    return re.search(rf"(?<![A-Za-z0-9_-]){re.escape(name)}(?![A-Za-z0-9_-])", text or "") is not None
