"""Network interfaces, what the host uses them for, and the PCI functions that carry them."""

from __future__ import annotations

import ipaddress
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator

from provision.evidence import Maybe, Unknown
from provision.host.facts import Facts
from provision.host.model import NetworkInterface
from provision.host.routes import Route, link_local_interfaces, read_routes
from provision.host.storage_network import storage_addresses

_NET = "/sys/class/net"
_BDF = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_OVS = "ovs-system"
"""Master of every port of Open vSwitch; the bridges with the addresses are not linked to their ports."""
_CARRIERS = ("tap", "veth", "fwbr", "fwpr", "fwln", "lo")
"""Interfaces of guests and of Proxmox's firewall: they carry nothing of the host's own."""


def read_interfaces(facts: Facts) -> Maybe[tuple[NetworkInterface, ...]]:
    """Return the interfaces with their uses; a use of a bridge, bond or VLAN is one of all below it.

    Unknown as a whole where routes or the layers could not be read.
    """
    links = facts.all(f"{_NET}/*", "link")
    if isinstance(links, Unknown):
        return links
    names = tuple(path.rsplit("/", 1)[1] for path in links)
    routes = read_routes(facts)
    if isinstance(routes, Unknown):
        return routes
    lower = _layers(facts, names)
    if isinstance(lower, Unknown):
        return lower
    uses: dict[str, list[str]] = defaultdict(list)
    for name, use in _uses(facts, names, routes):
        for layer in _down(name, lower):
            uses[layer].append(use)
    for upper, kind in _stacked(facts, names):
        for layer in _down(upper, lower):
            if layer != upper:
                uses[layer].append(kind)
    return tuple(
        NetworkInterface(
            name=name,
            bdf=_bdf(facts.link(f"{_NET}/{name}")),
            mac=facts.word(f"{_NET}/{name}/address"),
            uses=tuple(dict.fromkeys(uses[name])),
            permanent_mac=_permanent(facts, name),
        )
        for name in names
    )


def _permanent(facts: Facts, name: str) -> Maybe[str | None]:
    """A member of a bond shows the bond's address; its own stands beside it."""
    if not isinstance(facts.link(f"{_NET}/{name}/master"), str):
        return None
    own = facts.word(f"{_NET}/{name}/bonding_slave/perm_hwaddr")
    return own if isinstance(own, str) else None


def _bdf(target: Maybe[str | None]) -> Maybe[str | None]:
    if not isinstance(target, str):
        return target
    found = [part for part in target.split("/") if _BDF.fullmatch(part)]
    return found[-1] if found else None


def _layers(facts: Facts, names: Iterable[str]) -> Maybe[dict[str, set[str]]]:
    """For each interface those directly below it: bridge ports, bond members, the parent of a VLAN."""
    lower: dict[str, set[str]] = defaultdict(set)
    for name in names:
        ports = facts.names(f"{_NET}/{name}/brif")
        slaves = facts.word(f"{_NET}/{name}/bonding/slaves")
        master = facts.link_name(f"{_NET}/{name}/master")
        for value in (ports, slaves, master):
            if isinstance(value, Unknown):
                return value
        lower[name].update(ports if isinstance(ports, tuple) else ())
        lower[name].update(slaves.split() if isinstance(slaves, str) else ())
        if isinstance(master, str):
            lower[master].add(name)
    for name, parent in (*_vlans(facts, names), *_linked(facts)):
        lower[name].add(parent)
    return lower


def _linked(facts: Facts) -> Iterator[tuple[str, str]]:
    """``/sys/class/net/team0/lower_eno1``: the kernel's own word, for every kind of stack."""
    links = facts.all(f"{_NET}/*/lower_*", "link")
    for path in () if isinstance(links, Unknown) else links:
        parts = path.split("/")
        yield parts[4], parts[5].removeprefix("lower_")


def _vlans(facts: Facts, names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """``eno1.20`` lies on eno1; other names say so in /etc/network/interfaces (``vlan-raw-device``)."""
    for name in names:
        parent = name.rpartition(".")[0]
        if parent:
            yield name, parent
    name = ""
    for words in _interfaces_lines(facts):
        if words[0] == "iface":
            name = words[1] if len(words) > 1 else ""
        elif words[0] in ("vlan-raw-device", "vlan_raw_device") and len(words) > 1:
            yield name, words[1]


def _interfaces_lines(facts: Facts) -> Iterator[list[str]]:
    parts = facts.all("/etc/network/interfaces.d/*")
    for path in ("/etc/network/interfaces", *(() if isinstance(parts, Unknown) else parts)):
        text = facts.text(path)
        for line in text.splitlines() if isinstance(text, str) else ():
            words = line.split()
            if words and not words[0].startswith("#"):
                yield words


def _down(name: str, lower: dict[str, set[str]]) -> tuple[str, ...]:
    """The interface and everything below it."""
    found: list[str] = []
    todo = [name]
    while todo:
        here = todo.pop(0)
        if here not in found:
            found.append(here)
            todo.extend(sorted(lower.get(here, ())))
    return tuple(found)


def _stacked(facts: Facts, names: Iterable[str]) -> Iterator[tuple[str, str]]:
    for name in names:
        if name.startswith(_CARRIERS):
            continue
        if facts.names(f"{_NET}/{name}/brif") is not None:
            yield name, f"bridge {name}"
        elif facts.word(f"{_NET}/{name}/bonding/slaves") is not None:
            yield name, name
        elif name == _OVS:
            yield name, "Open vSwitch"


def _uses(facts: Facts, names: Iterable[str], routes: tuple[Route, ...]) -> Iterator[tuple[str, str]]:
    own = set(names)
    for route in routes:
        if route.interface in own:
            yield route.interface, "default route" if route.is_default else f"network {route.network}"
    for use, address in (*_connection(facts), *_corosync(facts), *storage_addresses(facts)):
        interface = _towards(address, routes)
        if interface is not None:
            yield interface, use
    for name in link_local_interfaces(facts):
        target = facts.link(f"{_NET}/{name}")
        if name in own and isinstance(target, str) and "/usb" in target:
            yield name, "link to the BMC"


def _connection(facts: Facts) -> Iterator[tuple[str, str]]:
    """Both ends of the SSH connection; ``ssh-connection`` holds client address and port, server address and port."""
    text = facts.command("ssh-connection")
    words = text.split() if isinstance(text, str) else []
    yield from (("this connection", words[index]) for index in (0, 2) if index < len(words))


def _corosync(facts: Facts) -> Iterator[tuple[str, str]]:
    """Ring addresses of all nodes: the ways to the others are the cluster network."""
    text = facts.text("/etc/pve/corosync.conf")
    for match in re.finditer(r"^\s*ring\d_addr:\s*(\S+)", text if isinstance(text, str) else "", re.MULTILINE):
        yield "corosync", match[1]


def _towards(address: str, routes: Iterable[Route]) -> str | None:
    """Interface of the most specific route to ``address``; None where it is no address or the host's own loopback."""
    try:
        target = ipaddress.ip_address(address.split("%", 1)[0])
    except ValueError:
        return None
    if isinstance(target, ipaddress.IPv6Address) and target.ipv4_mapped:
        target = target.ipv4_mapped
    if target.is_loopback:
        return None
    fitting = [route for route in routes if target.version == route.network.version and target in route.network]
    best = max(fitting, key=lambda route: (route.network.prefixlen, -route.metric), default=None)
    return best.interface if best is not None else None
