"""What a capture never holds: files that are never read, and values that are replaced before they are stored."""

from __future__ import annotations

import fnmatch
import re
from typing import NamedTuple

NEVER: tuple[str, ...] = (
    "/etc/shadow*",
    "/etc/gshadow*",
    "/etc/sudoers*",
    "/etc/pve/priv/*",
    "/etc/pve/nodes/*/priv/*",
    "/etc/pve/nodes/*/*.key",
    "/etc/pve/authkey*",
    "/etc/pve/pve-www.key",
    "/etc/corosync/authkey",
    "/etc/ssh/*_key",
    "*/.ssh/*",
    "*.key",
    "*.pem",
    "*.p12",
    "*.pfx",
    "*/id_rsa*",
    "*/id_ecdsa*",
    "*/id_ed25519*",
)
"""Patterns over the whole path, ``*`` across folders.  What matches is never asked for and never kept."""

MASK = "pvectl-masked"


class Masked(NamedTuple):
    data: bytes
    names: tuple[str, ...]
    """Names of the values that were replaced, in order, each once."""


class _Rule(NamedTuple):
    paths: str
    line: re.Pattern[bytes]
    """Groups: everything before the value, the name in it, the value."""


def _lines(expression: bytes) -> re.Pattern[bytes]:
    return re.compile(expression, re.MULTILINE)


# Only files that no plan writes as a whole: masked text must never go back to a host.
_RULES: tuple[_Rule, ...] = (
    _Rule("/etc/pve/*.conf", _lines(rb"^([ \t]*(cipassword)[ \t]*:[ \t]*)([^\r\n]+)")),
    _Rule(
        "/etc/network/interfaces*",
        _lines(rb"^([ \t]*(wpa-psk|wpa-password|wpa-private-key-passwd\d*|wireless-key\d*)[ \t]+)([^\r\n]+)"),
    ),
    _Rule("/boot/grub/grub.cfg", _lines(rb"^([ \t]*(password_pbkdf2|password)[ \t]+\S+[ \t]+)([^\r\n]+)")),
)


def is_secret(path: str) -> bool:
    """Whether ``path`` is on the list of what is never collected."""
    return any(fnmatch.fnmatchcase(path, pattern) for pattern in NEVER)


def mask(path: str, data: bytes) -> Masked:
    """Return ``data`` of the file ``path`` with every secret value replaced by a mark.

    The same input always gives the same output, so a digest of masked text can be compared with another one.
    """
    names: dict[str, None] = {}
    for rule in _RULES:
        if fnmatch.fnmatchcase(path, rule.paths):
            names.update(dict.fromkeys(match[2].decode() for match in rule.line.finditer(data)))
            data = rule.line.sub(rb"\1" + MASK.encode(), data)
    return Masked(data, tuple(names))
