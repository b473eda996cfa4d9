"""Where things lie, of a bundle: devices, folders, mounts, pools, servers; what somebody named gets a pseudonym."""

from __future__ import annotations

import ipaddress
import re

from provision.capture.share_names import COMMON, Pseudonyms
from provision.capture.share_scrub import scrub

_NETWORK_TYPES = ("nfs", "cifs", "smb", "ceph", "gluster", "fuse.gluster")


_SYSTEM_TOPS = frozenset({"", "proc", "sys", "dev", "run", "tmp", "boot", "etc", "var", "usr", "efi", "root"})


def mounts(text: str, names: Pseudonyms) -> str:
    """``/proc/mounts``: where what is mounted, without options but addresses."""
    return "".join(_mount(line.split(" "), names) for line in text.splitlines() if line.count(" ") > 2)


def _mount(words: list[str], names: Pseudonyms) -> str:
    source, place, kind = words[:3]
    options = [option for option in words[3].split(",") if option.startswith(("addr=", "mon_addr="))]
    source = _network_source(source, names) if kind.startswith(_NETWORK_TYPES) else device(source, names)
    return scrub(f"{source} {path(place, names)} {kind} {','.join(['rw', *options])} 0 0\n", names)


def _network_source(source: str, names: Pseudonyms) -> str:
    server, colon, folder = source.rpartition(":/")
    if colon:
        return f"{server_of(server, names)}:{path('/' + folder, names)}"
    head, _, rest = source.lstrip("/").partition("/")
    return f"//{server_of(head, names)}{path('/' + rest, names)}"


def server_of(text: str, names: Pseudonyms) -> str:
    """An address, or the name of a host."""
    bare = text.strip("[]")
    try:
        ipaddress.ip_address(bare.partition(",")[0])
    except ValueError:
        return ",".join(
            part if re.fullmatch(r"[\d.:]+", part) else _named_server(part, names) for part in text.split(",")
        )
    return text


def _named_server(text: str, names: Pseudonyms) -> str:
    head, dot, _ = text.partition(".")
    names.name("host name", head)
    return scrub(text, names) if dot else names.words(text)


def device(text: str, names: Pseudonyms) -> str:
    """A device path, or the data set of a pool."""
    return names.words(text) if text.startswith("/dev/") or "/" not in text else _parts(text, names)


def path(text: str, names: Pseudonyms) -> str:
    """A folder: what the system makes stays, other parts of the way get pseudonyms."""
    head = text.lstrip("/").partition("/")[0]
    return names.words(text) if head in _SYSTEM_TOPS and not text.startswith("/run/user") else _parts(text, names)


def _parts(text: str, names: Pseudonyms) -> str:
    parts = text.split("/")
    return "/".join(_part(part, names) for part in parts)


def _part(text: str, names: Pseudonyms) -> str:
    known = names.words(text)
    return text if text in COMMON or not text else known if known != text else names.of("path", text)


def pools(text: str, names: Pseudonyms) -> str:
    """``zpool status``: each pool and its devices."""
    lines = []
    for line in text.splitlines():
        words = line.split()
        if len(words) == 2 and words[0] == "pool:":
            lines.append(f"  pool: {names.name('storage name', words[1])}\n")
        elif words and words[0].startswith("/dev/"):
            state = words[1] if len(words) > 1 and words[1].isupper() else ""
            lines.append(f"\t{device(words[0], names)} {state}\n")
        elif "no pools available" in line:
            lines.append("no pools available\n")
    return scrub("".join(lines), names)
