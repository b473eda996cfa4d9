"""Network settings of a bundle: routes, interfaces, storages and clusters by address."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable

from provision.capture.share_names import Pseudonyms
from provision.capture.share_places import server_of
from provision.capture.share_scrub import scrub
from provision.capture.share_texts import Rewrite

_HEX4 = re.compile(r"[0-9A-F]{8}")


def routes4(text: str, names: Pseudonyms) -> str:
    """``/proc/net/route``: addresses in host byte order, in hexadecimal."""
    return "".join(_route4(line, names) for line in text.splitlines(keepends=True))


def _route4(line: str, names: Pseudonyms) -> str:
    words = line.rstrip("\n").split("\t")
    if len(words) > 7 and all(_HEX4.fullmatch(words[n].strip()) for n in (1, 2, 7)):
        length = int(words[7].strip(), 16).bit_count()
        words[1] = _turned(words[1], names, length)
        words[2] = _turned(words[2], names, None)
        words[0] = names.words(words[0])
        return "\t".join(words[:11]) + "\n"
    return "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"


def _turned(digits: str, names: Pseudonyms, length: int | None) -> str:
    address = ipaddress.IPv4Address(bytes.fromhex(digits.strip())[::-1])
    return names.address(address, length).packed[::-1].hex().upper()


def routes6(text: str, names: Pseudonyms) -> str:
    """``/proc/net/ipv6_route``: destination, source and gateway without colons."""
    lines = []
    for line in text.splitlines():
        words = line.split()
        try:
            lengths = (int(words[1], 16), int(words[3], 16), 128)
            for place, length in zip((0, 2, 4), lengths, strict=True):
                address = ipaddress.IPv6Address(bytes.fromhex(words[place]))
                words[place] = names.address(address, length).packed.hex()
        except (ValueError, IndexError):
            continue
        words[-1] = names.words(words[-1])
        lines.append(" ".join(words[:10]) + "\n")
    return "".join(lines)


def storages(text: str, names: Pseudonyms) -> str:
    """``/etc/pve/storage.cfg``: names, servers, and what is switched off."""
    lines = []
    for line in text.splitlines():
        words = line.split()
        header = re.fullmatch(r"([a-z0-9]+): *(\S+)\s*", line)
        if header is not None:
            lines.append(f"{header[1]}: {names.name('storage name', header[2])}\n")
        elif words and words[0] in ("server", "server2", "portal", "monhost"):
            parts = [part for word in words[1:] for part in re.split(r"[,;]", word) if part]
            lines.append(f"\t{words[0]} {' '.join(_port(part, names) for part in parts)}\n")
        elif words and words[0] == "disable":
            lines.append(f"\t{' '.join(words[:2])}\n")
    return scrub("".join(lines), names)


def _port(text: str, names: Pseudonyms) -> str:
    head, colon, port = text.rpartition(":")
    if colon and port.isdigit() and ":" not in head:
        return f"{server_of(head, names)}:{port}"
    return text if text.startswith("[") else server_of(text, names)


def ceph(text: str, names: Pseudonyms) -> str:
    """``ceph.conf``: networks and monitors by address."""
    wanted = ("mon_host", "public_network", "cluster_network")
    lines = []
    for line in text.splitlines():
        key, equals, value = (part.strip() for part in line.partition("="))
        if equals and key.replace(" ", "_") in wanted:
            addresses = re.findall(r"[0-9a-fA-F.:\[\]/]*[.:][0-9a-fA-F.:\[\]/]+", re.sub(r"\bv[12]:", "", value))
            lines.append(f"{key} = {' '.join(addresses)}\n")
    return scrub("".join(lines), names)


def corosync(text: str, names: Pseudonyms) -> str:
    """``corosync.conf``: rings of the nodes."""
    lines = []
    for line in text.splitlines():
        key, colon, value = (part.strip() for part in line.partition(":"))
        if re.fullmatch(r"ring\d_addr", key) and colon:
            lines.append(f"    {key}: {server_of(value, names)}\n")
        elif key == "name" and colon:
            lines.append(f"    name: {names.name('host name', value)}\n")
        elif re.fullmatch(r"\s*[a-z]+ *\{\s*|\s*\}\s*", line):
            lines.append(line + "\n")
        elif key in ("nodeid", "quorum_votes", "version", "config_version", "provider", "transport"):
            lines.append(f"    {key}: {value if re.fullmatch('[a-z0-9_]+', value) else 'removed'}\n")
    return scrub("".join(lines), names)


def mentions(known: Iterable[str]) -> Rewrite:
    """Of firewall and SDN files counts only which interface they name."""
    wanted = set(known)

    def rewrite(text: str, names: Pseudonyms) -> str:
        found = sorted(wanted & set(re.findall(r"[\w.-]+", text)))
        names.remove("content of no use")
        return "".join(f"{names.words(name)}\n" for name in found)

    return rewrite


def interfaces(known: Iterable[str]) -> Rewrite:
    """``/etc/network/interfaces``: settings that are known; of scripts only which interface they name."""
    wanted = set(known)
    settings = re.compile(
        r"\s*(?:auto|allow-\w+|iface|mapping|source(?:-directory)?|address|gateway|netmask|network|broadcast|mtu|metric|"
        r"hwaddress|inherits|bridge[-_][\w-]+|bond[-_][\w-]+|slaves|vlan[-_][\w-]+|ovs_[\w-]+|vxlan[-_][\w-]+)(?:\s|$)"
    )

    def rewrite(text: str, names: Pseudonyms) -> str:
        lines = [line if settings.match(line) else _hook(line, wanted, names) for line in text.split("\n")]
        return scrub("\n".join(lines), names)

    return rewrite


def _hook(line: str, known: set[str], names: Pseudonyms) -> str:
    """``post-up iptables -o eno1``: the verb and the interfaces."""
    words = line.split()
    if not words or line.strip() == "#":
        return line if not words else "#"
    if words[0].startswith("#"):
        names.remove("comment")
        return "#"
    names.remove("script or setting")
    verb = words[0] if re.fullmatch(r"(?:pre-|post-)?(?:up|down)", words[0]) else "#"
    named = known & set(re.findall(r"[\w.-]+", line))
    return " ".join([f"\t{verb}", *sorted(named)])
