"""A capture: raw text and bytes read from a host or a guest, with how each read went."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from provision.evidence import Frozen, Maybe, Unknown

State = Literal["read", "absent", "denied", "error", "truncated", "not_asked"]
Kind = Literal["file", "link", "dir", "command", "api"]


class Item(Frozen):
    """One thing that was asked for.

    ``key`` is the absolute path for files, links and folders, and the argv joined by
    blanks (or a short name) for commands and API calls.  A folder's blob is its sorted
    entry names, one per line; a link's blob is its target as text.
    """

    subject: str
    """``host``, ``api`` or ``guest/<vmid>``."""
    key: str
    kind: Kind
    state: State
    argv: tuple[str, ...] = ()
    rc: int | None = None
    stderr: str = ""
    mode: int | None = None
    uid: int | None = None
    gid: int | None = None
    mtime_ns: int | None = None
    sha256: str | None = None
    reason: str = ""


class Manifest(Frozen):
    target: str
    """What the user typed: ``root@pve1``, ``local``."""
    hostname: str = ""
    created: str
    agent_sha256: str = ""
    host_key: str = ""
    euid: int | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Capture:
    """Evidence of one or more subjects.  Everything after reading works on this alone."""

    manifest: Manifest
    items: tuple[Item, ...]
    blobs: Mapping[str, bytes]
    """By SHA-256 in hex."""
    _index: dict[tuple[str, str, str], Item] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        for item in self.items:
            self._index[(item.subject, item.kind, item.key)] = item

    def item(self, key: str, kind: Kind = "file", subject: str = "host") -> Item | None:
        return self._index.get((subject, kind, key))

    def data(self, key: str, kind: Kind = "file", subject: str = "host") -> Maybe[bytes | None]:
        """Return the bytes, ``None`` where the thing is absent, Unknown otherwise."""
        item = self.item(key, kind, subject)
        if item is None or item.state == "not_asked":
            return Unknown(unknown=f"{key} was not captured", supply="take a new capture as root")
        if item.state == "absent":
            return None
        if item.state != "read":
            why = {"denied": "permission denied", "truncated": "was cut"}.get(item.state, item.reason or "error")
            return Unknown(unknown=f"{key}: {why}", supply="take the capture as root" if item.state == "denied" else "")
        blob = self.blobs.get(item.sha256 or "")
        if blob is None:
            return Unknown(unknown=f"{key}: its content is missing from the capture", supply="take a new capture")
        return blob

    def text(self, key: str, kind: Kind = "file", subject: str = "host") -> Maybe[str | None]:
        """Like :meth:`data`, decoded as UTF-8 with replacement characters."""
        value = self.data(key, kind, subject)
        return value.decode("utf-8", "replace") if isinstance(value, bytes) else value

    def keys(self, prefix: str, kind: Kind = "file", subject: str = "host") -> Iterable[str]:
        """Yield the keys of ``kind`` that begin with ``prefix`` and were read, in order of capture."""
        for item in self.items:
            if item.subject == subject and item.kind == kind and item.key.startswith(prefix) and item.state == "read":
                yield item.key
