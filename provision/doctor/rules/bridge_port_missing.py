"""A bridge of the host names a network interface that does not exist."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from provision.boot.interfaces import INTERFACES_FILE, INTERFACES_FOLDER
from provision.doctor.finding import Evidence, Finding
from provision.doctor.rule import Outcome, Rule, undecided
from provision.doctor.say import found
from provision.evidence import Unknown
from provision.host.boot_files import folder_texts, text_of
from provision.host.model import HostModel, NetworkInterface

ID = "bridge-port-missing"
_PORTS = re.compile(r"\s*(?:bridge[-_]ports|bond-slaves|slaves|ovs_bonds)\s+(?P<names>\S.*)$")
_IFACE = re.compile(r"\s*iface\s+(?P<name>\S+)\s")
_CARD = re.compile(r"(?:en|eth|wl|ib)[A-Za-z0-9]+$")
"""Names that a card gets: bonds, VLANs and tunnels are made later, and patterns are no names."""


@dataclass(frozen=True)
class _Port:
    """A card's name as a port of ``owner``."""

    file: str
    line: int
    text: str
    owner: str
    name: str


def check(model: HostModel) -> Outcome:
    own, parts = text_of(model, INTERFACES_FILE), folder_texts(model, INTERFACES_FOLDER)
    texts: dict[str, str] = {} if isinstance(own, Unknown) or own is None else {INTERFACES_FILE: own}
    texts |= {} if isinstance(parts, Unknown) else parts
    present = model.interfaces
    if isinstance(present, Unknown):
        yield undecided(ID, present, "network interfaces of the host")
        return
    names = {interface.name for interface in present}
    gone = [port for file, text in texts.items() for port in _ports(file, text) if port.name not in names]
    for port in gone:
        yield _finding(port, [one for one in present if _is_free(one)])
    for fact, path in ((own, INTERFACES_FILE), (parts, INTERFACES_FOLDER)):
        if isinstance(fact, Unknown):
            yield undecided(ID, fact, path)


def _ports(file: str, text: str) -> Iterator[_Port]:
    owner = ""
    for number, line in enumerate(text.split("\n"), start=1):
        if match := _IFACE.match(line):
            owner = match["name"]
        elif owner and (match := _PORTS.match(line)):
            for name in match["names"].split():
                if _CARD.match(name):
                    yield _Port(file, number, line.strip(), owner, name)


def _is_free(interface: NetworkInterface) -> bool:
    return isinstance(interface.bdf, str) and not interface.uses


def _finding(port: _Port, free: list[NetworkInterface]) -> Finding:
    spare = ", ".join(f"{one.name} ({one.mac if isinstance(one.mac, str) else one.bdf})" for one in free)
    known = f"; without a use are: {spare}" if spare else ""
    return found(
        ID,
        "warning",
        (port.owner, port.name),
        f"{port.owner} is to have {port.name}, and there is no such interface{known}",
        (Evidence(source=port.file, excerpt=port.text, line=port.line),),
        f"{port.owner} has no way out through it: after a card was added, removed or moved, interfaces have other "
        "names, and the host or its VMs are cut off",
        "policies.network.pin: always   # in the inventory, once the names are right: they then stay",
        "pve-network-interface-pinning generate   # Proxmox's own tool for the same",
        source="Proxmox VE Administration Guide, Overriding Network Device Names; systemd.net-naming-scheme(7)",
    )


RULE = Rule(ID, "A bridge names a network interface that does not exist", check)
