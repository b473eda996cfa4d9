"""Addresses that the host's storage is reached at: whatever carries them is a storage network."""

from __future__ import annotations

import re
from collections.abc import Iterator

from provision.evidence import Unknown
from provision.host.facts import Facts

STORAGE_FILE = "/etc/pve/storage.cfg"
CEPH_FILE = "/etc/pve/ceph.conf"
ISCSI = "/sys/class/iscsi_connection"
_NETWORK_TYPES = ("nfs", "nfs4", "cifs", "smb3", "ceph", "glusterfs", "fuse.glusterfs")
_ADDRESS_KEYS = frozenset({"server", "server2", "portal", "monhost"})
_PORT = re.compile(r"^\[?(?P<host>[0-9a-fA-F:.]+?)\]?(?::\d+)?$")

Address = tuple[str, str]
"""What it is used for, and the address."""


def storage_addresses(facts: Facts) -> Iterator[Address]:
    """Yield mounts, storages, Ceph monitors and iSCSI sessions by address; names are passed over.

    A file that was not read yields nothing: the interface that carries the storage still has its routes, and those
    are uses of their own.
    """
    yield from _mounts(facts)
    yield from _storages(facts)
    yield from _ceph(facts)
    yield from _iscsi(facts)


def _mounts(facts: Facts) -> Iterator[Address]:
    text = facts.text("/proc/mounts")
    for line in text.splitlines() if isinstance(text, str) else ():
        words = line.split(" ")
        if len(words) < 4 or words[2] not in _NETWORK_TYPES:
            continue
        options = dict(option.partition("=")[::2] for option in words[3].split(","))
        found = [options[key] for key in ("addr", "mon_addr") if options.get(key)] or [words[0].rpartition(":/")[0]]
        for part in re.split(r"[,/]", found[0]):
            yield f"storage {words[2]} {words[1]}", _host(part)


def _storages(facts: Facts) -> Iterator[Address]:
    """``type: name`` begins a section; its lines are indented."""
    text = facts.text(STORAGE_FILE)
    name, is_off = "", False
    found: list[str] = []
    for line in [*(text.splitlines() if isinstance(text, str) else ()), "end: end"]:
        if line and not line[0].isspace() and not line.startswith("#"):
            yield from () if is_off else ((f"storage {name}", address) for address in found)
            name, found, is_off = line.partition(":")[2].strip(), [], False
        words = line.split()
        if words and words[0] == "disable":
            is_off = words[1:2] != ["0"]
        elif len(words) > 1 and words[0] in _ADDRESS_KEYS:
            found += [_host(part) for word in words[1:] for part in re.split(r"[,;]", word) if part]


def _ceph(facts: Facts) -> Iterator[Address]:
    text = facts.text(CEPH_FILE)
    for line in text.splitlines() if isinstance(text, str) else ():
        key, _, value = (part.strip() for part in line.partition("="))
        name = key.replace(" ", "_")
        if name == "mon_host":
            yield from (("Ceph", _host(part)) for part in re.split(r"[\s,;]+", value) if part)
        elif name in ("public_network", "cluster_network"):
            yield from ((f"Ceph {name}", part.split("/")[0]) for part in re.split(r"[\s,]+", value) if part)


def _iscsi(facts: Facts) -> Iterator[Address]:
    found = facts.all(f"{ISCSI}/*/persistent_address")
    for path in () if isinstance(found, Unknown) else found:
        address = facts.word(path)
        if isinstance(address, str):
            yield "iSCSI", address


def _host(text: str) -> str:
    """``10.0.0.1:6789`` and ``[v6]:6789`` without port; ``v2:10.0.0.1:3300/0`` without its marks."""
    plain = re.sub(r"^v[12]:|/\d+$", "", text.strip().strip("[]"))
    if plain.count(":") > 1 and not plain.startswith("["):
        return plain
    match = _PORT.match(plain)
    return match["host"] if match else plain
