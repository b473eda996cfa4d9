"""Strict SSH host keys: a parser of known_hosts of our own and a verdict per host.

paramiko's loader stops at the first ``@revoked`` line, matches no wildcards and is quadratic in the number of
lines; fabric accepts every key.  Here a file is parsed once per process and shared.  Format: sshd(8), section
SSH_KNOWN_HOSTS FILE FORMAT.
"""

from __future__ import annotations

import base64
import binascii
import fnmatch
import hashlib
import hmac
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

Mark = Literal["", "@cert-authority", "@revoked"]


@dataclass(frozen=True)
class KnownKey:
    """One line of known_hosts."""

    mark: Mark
    patterns: tuple[str, ...]
    key_type: str
    blob: bytes
    source: str
    """``path:line``."""

    def matches(self, name: str) -> bool:
        """Say whether the line is for ``name``: ``host``, ``[host]:port`` or an alias, in lower case."""
        wanted = False
        for pattern in self.patterns:
            negated = pattern.startswith("!")
            if _matches(pattern.removeprefix("!"), name):
                if negated:
                    return False
                wanted = True
        return wanted


@dataclass(frozen=True)
class Verdict:
    """What known_hosts says of a key.  ``known`` are the fingerprints it has for the host, with their lines."""

    kind: Literal["known", "unknown", "changed", "revoked"]
    known: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    """Lines for this host that pvectl cannot use: certificate authorities."""


def fingerprint(blob: bytes) -> str:
    """Return ``SHA256:...`` of a public key, as ssh-keygen -l prints it."""
    return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")


def host_names(host: str, port: int, alias: str | None = None) -> tuple[str, ...]:
    """Return the names under which a host may stand in known_hosts, the exact one first."""
    if alias:
        return (alias.lower(),)
    host = host.lower()
    return (host,) if port == 22 else (f"[{host}]:{port}", host)


def load(paths: Iterable[Path]) -> tuple[KnownKey, ...]:
    """Return the lines of all files that exist, in order.  A line that cannot be read is passed over, as ssh does.

    Raises OSError for a file that exists and cannot be read.
    """
    keys: list[KnownKey] = []
    for path in paths:
        try:
            about = path.stat()
        except (FileNotFoundError, NotADirectoryError):
            continue
        keys.extend(_parsed(str(path), about.st_mtime_ns, about.st_size))
    return tuple(keys)


def judge(keys: Sequence[KnownKey], names: Sequence[str], blob: bytes) -> Verdict:
    """Compare a host's key with the lines for ``names`` (see :func:`host_names`).

    A line under a later name (the host without its port) can accept a key, as in OpenSSH, and only lines under
    the first name can call it changed.
    """
    mine = [key for key in keys if any(key.matches(name) for name in names)]
    skipped = tuple(key.source for key in mine if key.mark == "@cert-authority")
    revoked = tuple(key.source for key in mine if key.mark == "@revoked" and key.blob == blob)
    if revoked:
        return Verdict("revoked", revoked, skipped)
    plain = [key for key in mine if not key.mark]
    if any(key.blob == blob for key in plain):
        return Verdict("known", skipped=skipped)
    exact = [key for key in plain if key.matches(names[0])]
    known = tuple(f"{key.key_type} {fingerprint(key.blob)} ({key.source})" for key in exact)
    return Verdict("changed" if exact else "unknown", known, skipped)


def key_types(keys: Sequence[KnownKey], names: Sequence[str]) -> tuple[str, ...]:
    """Return the key types known for a host: the server is asked for these first."""
    found = [key.key_type for name in names for key in keys if not key.mark and key.matches(name)]
    return tuple(dict.fromkeys(found))


def parse(text: str, source: str) -> tuple[KnownKey, ...]:
    """Read known_hosts text.  Comments, empty and damaged lines are passed over."""
    keys = (_line(line, f"{source}:{number}") for number, line in enumerate(text.splitlines(), 1))
    return tuple(key for key in keys if key is not None)


@lru_cache(maxsize=64)
def _parsed(path: str, _mtime_ns: int, _size: int) -> tuple[KnownKey, ...]:
    return parse(Path(path).read_text("utf-8", "replace"), path)


def _line(line: str, source: str) -> KnownKey | None:
    words = line.split()
    if not words or words[0].startswith("#"):
        return None
    mark: Mark = ""
    if words[0] == "@cert-authority":
        mark = "@cert-authority"
    elif words[0] == "@revoked":
        mark = "@revoked"
    elif words[0].startswith("@"):
        return None
    words = words[1:] if mark else words
    if len(words) < 3:
        return None
    try:
        blob = base64.b64decode(words[2], validate=True)
    except binascii.Error:
        return None
    patterns = words[0] if words[0].startswith("|1|") else words[0].lower()
    return KnownKey(mark, tuple(patterns.split(",")), words[1], blob, source)


def _matches(pattern: str, name: str) -> bool:
    if pattern.startswith("|1|"):
        return _matches_hash(pattern, name)
    # Brackets are part of [host]:port here, never a character class.
    return fnmatch.fnmatchcase(name, pattern.replace("[", "[[]"))


def _matches_hash(pattern: str, name: str) -> bool:
    try:
        salt, digest = (base64.b64decode(part, validate=True) for part in pattern[3:].split("|"))
    except (binascii.Error, ValueError):
        return False
    return hmac.compare_digest(hmac.new(salt, name.encode(), "sha1").digest(), digest)
