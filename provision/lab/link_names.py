"""Names of network interfaces at a boot: systemd's .link files, and the bridge that waits for one of them by name.

Read from the lab's root folder with readers of its own, so that a mistake in the product's writers shows.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from provision.lab.machine import Interface, Machine

FOLDERS = ("etc/systemd/network", "run/systemd/network", "usr/local/lib/systemd/network", "usr/lib/systemd/network")
"""In systemd's order: of two files with one name the first folder's counts."""


def renamed(machine: Machine, root: Path, *, by_links: bool = True) -> Machine:
    """Return the machine with its interfaces' names after a boot; ports that a bridge does not name are in none.

    Without ``by_links`` the early boot has an old copy of the files, and every name is the kernel's own.
    """
    names = dict(_names(root)) if by_links else {}
    ports = _bridge_ports(root)
    interfaces = tuple(_interface(one, names.get(one.mac, one.name), ports) for one in machine.interfaces)
    return machine.model_copy(update={"interfaces": interfaces})


def _interface(interface: Interface, name: str, ports: dict[str, set[str]]) -> Interface:
    bridge = next((bridge for bridge, members in ports.items() if name in members), None)
    return interface.model_copy(update={"name": name, "bridge": bridge})


def _names(root: Path) -> Iterator[tuple[str, str]]:
    """Yield address and name of each file that matches by address; the first file that matches a card counts."""
    files: dict[str, Path] = {}
    for folder in FOLDERS:
        for path in (root / folder).glob("*.link"):
            files.setdefault(path.name, path)
    taken: set[str] = set()
    for _, path in sorted(files.items()):
        values = dict(_settings(path))
        addresses = values.get("Match.MACAddress", values.get("Match.PermanentMACAddress", "")).lower().split()
        for mac in addresses:
            if mac not in taken and values.get("Link.Name"):
                yield mac, values["Link.Name"]
            taken.add(mac)


def _settings(path: Path) -> Iterator[tuple[str, str]]:
    section = ""
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        text = line.strip()
        if text.startswith("[") and text.endswith("]"):
            section = text[1:-1]
        elif "=" in text and not text.startswith(("#", ";")):
            key, _, value = text.partition("=")
            yield f"{section}.{key.strip()}", value.strip()


def _bridge_ports(root: Path) -> dict[str, set[str]]:
    """Ports of each bridge in /etc/network/interfaces and its parts."""
    found: dict[str, set[str]] = {}
    bridge = ""
    for path in (root / "etc/network/interfaces", *sorted((root / "etc/network/interfaces.d").glob("*"))):
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines() if path.is_file() else ():
            words = line.split()
            if words[:1] == ["iface"] and len(words) > 1:
                bridge = words[1]
            elif words[:1] in (["bridge-ports"], ["bridge_ports"]):
                found.setdefault(bridge, set()).update(word for word in words[1:] if word != "none")
    return found
