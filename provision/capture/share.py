"""A bundle to be shared: of a capture what doctor and plan need, with pseudonyms for what names people and places.

Nothing goes in that no rule of :mod:`provision.capture.share_rules` names; the table of pseudonyms stays out.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from provision.capture import share_known
from provision.capture.model import Capture, Item, Manifest
from provision.capture.secrets import MASK, is_secret, mask
from provision.capture.share_names import COMMON, Pseudonyms, search_for
from provision.capture.share_rules import COMMANDS, FOLDERS, LINKS, Shared, file_rules, rule_for
from provision.capture.share_scrub import scrub

NOTE = "shared: names, addresses and numbers are pseudonyms"
_BINARY = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")
_OWN_NOTE = re.compile(r"(?:read without root|the time was up): \d+ facts were (?:denied|not asked for)")
_REASONS = ("permission denied", "the time was up", "never collected", "masked")
_TELLS_IN_STDERR = "proxmox-boot-tool status"
_BY_PLACE = ("mapping", "path", "volume", "label")
"""Kinds that are replaced where they stand as names: as words they may be part of anything."""
_KEY_LIMIT = 32
_SHORTEST = 5
"""Shorter originals stand in other words by chance."""


@dataclass(frozen=True)
class Bundle:
    """``replaced`` and ``removed`` count different things by kind; ``table`` is for the owner alone."""

    capture: Capture
    replaced: dict[str, int]
    removed: dict[str, int]
    table: dict[str, dict[str, str]]


def share(capture: Capture, *, key: bytes | None = None) -> Bundle:
    """Return the bundle of ``capture``.  ``key`` makes its addresses; none: new ones for each bundle.

    The host's items only.  The same thing has the same pseudonym everywhere in the bundle.
    """
    names = Pseudonyms(key or secrets.token_bytes(_KEY_LIMIT))
    share_known.learn(capture, names)
    rules = file_rules(share_known.interfaces(capture))
    blobs: dict[str, bytes] = {}
    items = tuple(_checked(_shared(capture, rules, names, blobs), names, blobs))
    used = {item.sha256 for item in items}
    shared = Capture(
        _manifest(capture.manifest, names), items, {digest: data for digest, data in blobs.items() if digest in used}
    )
    table: dict[str, dict[str, str]] = {kind: dict(own) for kind, own in names.table.items() if own}
    return Bundle(shared, names.counts(), dict(names.removed), table)


def _manifest(manifest: Manifest, names: Pseudonyms) -> Manifest:
    hostname = names.name("host name", manifest.hostname.partition(".")[0]) if manifest.hostname else ""
    key = names.of("SSH key", manifest.host_key) if manifest.host_key else ""
    return Manifest(
        target=hostname or "host",
        hostname=hostname,
        created=manifest.created,
        agent_sha256=manifest.agent_sha256,
        host_key=key,
        euid=manifest.euid,
        notes=(NOTE, *(note for note in manifest.notes if _OWN_NOTE.fullmatch(note))),
    )


def _shared(capture: Capture, rules: tuple[Shared, ...], names: Pseudonyms, blobs: dict[str, bytes]) -> Iterator[Item]:
    tables = {"file": rules, "command": COMMANDS, "dir": FOLDERS, "link": LINKS}
    for item in capture.items:
        rule = rule_for(item.key, tables.get(item.kind, ()))
        if item.subject != "host" or rule is None or (item.kind == "file" and is_secret(item.key)):
            names.remove("fact of no use", int(item.state == "read"))
            continue
        yield _item(item, capture.blobs.get(item.sha256 or ""), rule, names, blobs)


def _item(item: Item, data: bytes | None, rule: Shared, names: Pseudonyms, blobs: dict[str, bytes]) -> Item:
    """Return the item for the bundle and put its content into ``blobs``."""
    update: dict[str, object] = {
        "key": _key(item, names),
        "argv": tuple(scrub(word, names) for word in item.argv),
        "stderr": _stderr(item, rule, names),
        "reason": _reason(item),
        "mtime_ns": None,
        "sha256": None,
    }
    if data is not None:
        content = _content(item.key, data, rule, names)
        if content is None:
            names.remove("binary content")
            update |= {"state": "not_asked", "reason": "not shared: its content is not known"}
        else:
            update["sha256"] = hashlib.sha256(content).hexdigest()
            blobs[str(update["sha256"])] = content
    return item.model_copy(update=update)


def _content(key: str, data: bytes, rule: Shared, names: Pseudonyms) -> bytes | None:
    if rule.data is not None:
        return rule.data(data, names)
    if rule.text is None or _BINARY.search(data):
        return None
    masked = mask(key, data)
    text = masked.data.decode("utf-8", "replace")
    names.remove("secret value", len(masked.names) + text.count(MASK) * (not masked.names))
    return rule.text(text, names).encode()


def _key(item: Item, names: Pseudonyms) -> str:
    """A path with the names in it replaced; what firmware calls its variables is the same everywhere."""
    if item.key.startswith("/sys/firmware/"):
        return item.key
    if item.kind == "command":
        return item.key
    if item.key.startswith("/etc/pve/nodes/"):
        parts = item.key.split("/")
        parts[4] = names.name("host name", parts[4])
        return "/".join(parts)
    return scrub(item.key, names)


def _stderr(item: Item, rule: Shared, names: Pseudonyms) -> str:
    """Only of one command it is part of the answer."""
    return rule.text(item.stderr, names).strip("\n") if rule.text and item.key == _TELLS_IN_STDERR else ""


def _reason(item: Item) -> str:
    """Only what pvectl itself says."""
    own = next((one for one in _REASONS if item.reason.lower().startswith(one)), "could not be read")
    return own if item.reason else ""


def _checked(items: Iterable[Item], names: Pseudonyms, blobs: dict[str, bytes]) -> Iterator[Item]:
    """Drop the content of an item in which an original still stands: it is better to lack a fact than to tell it."""
    every = tuple(items)
    found = _originals(names)
    for item in every:
        data = blobs.get(item.sha256 or "", b"")
        text = data.decode("utf-8", "replace") + item.stderr
        if found is not None and found.search(text):
            names.remove("text with a name left")
            yield item.model_copy(update={"state": "not_asked", "sha256": None, "stderr": "", "reason": "not shared"})
        else:
            yield item


def _originals(names: Pseudonyms) -> re.Pattern[str] | None:
    """Return a search for everything that has a pseudonym, in any letters."""
    left = {
        text
        for kind, own in names.table.items()
        if kind not in _BY_PLACE
        for text, other in own.items()
        if len(text) >= _SHORTEST and text != other and text not in COMMON
    }
    return search_for(left, names.compounds()) if left else None
