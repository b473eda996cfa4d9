"""The kernel's routing tables as /proc shows them."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

from provision.evidence import Maybe, Unknown
from provision.host.facts import Facts

_UP, _REJECT = 0x1, 0x200
"""Route flags (linux include/uapi/linux/route.h)."""


@dataclass(frozen=True)
class Route:
    network: ipaddress.IPv4Network | ipaddress.IPv6Network
    interface: str
    metric: int

    @property
    def is_default(self) -> bool:
        return self.network.prefixlen == 0


def read_routes(facts: Facts) -> Maybe[tuple[Route, ...]]:
    """Return the usable routes of both families, without loopback, link-local and multicast."""
    four, six = facts.text("/proc/net/route"), facts.text("/proc/net/ipv6_route")
    if isinstance(four, Unknown):
        return four
    if isinstance(six, Unknown):
        return six
    rows = [_four(line.split()) for line in (four or "").splitlines()[1:]]
    rows += [_six(line.split()) for line in (six or "").splitlines()]
    return tuple(
        route
        for route in rows
        if route is not None
        and route.interface != "lo"
        and not (route.network.is_link_local or (route.network.is_multicast and not route.is_default))
    )


def link_local_interfaces(facts: Facts) -> tuple[str, ...]:
    """Return the interfaces with an IPv4 link-local network: how a BMC speaks to its host over USB."""
    text = facts.text("/proc/net/route")
    rows = [_four(line.split()) for line in (text.splitlines()[1:] if isinstance(text, str) else ())]
    return tuple(route.interface for route in rows if route is not None and route.network.is_link_local)


def _four(words: list[str]) -> Route | None:
    """Iface Destination Gateway Flags RefCnt Use Metric Mask ...; addresses in host byte order."""
    try:
        interface, destination, flags, metric, mask = words[0], words[1], int(words[3], 16), int(words[6]), words[7]
        address = ipaddress.IPv4Address(bytes.fromhex(destination)[::-1])
        length = int(mask, 16).bit_count()
        network = ipaddress.IPv4Network((address, length))
    except (ValueError, IndexError):
        return None
    return Route(network, interface, metric) if flags & _UP and not flags & _REJECT else None


def _six(words: list[str]) -> Route | None:
    """Destination, prefix, source, prefix, gateway, metric, refs, uses, flags, interface."""
    try:
        network = ipaddress.IPv6Network((bytes.fromhex(words[0]), int(words[1], 16)))
        metric, flags, interface = int(words[5], 16), int(words[8], 16), words[9]
    except (ValueError, IndexError):
        return None
    return Route(network, interface, metric) if flags & _UP and not flags & _REJECT else None
