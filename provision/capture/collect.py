"""From a session to a capture: everything in one read."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from datetime import UTC, datetime

from provision.capture import secrets
from provision.capture.model import Capture, Item, Manifest
from provision.capture.wants import GUEST_WANTS, HOST_WANTS
from provision.remote.bootstrap import AGENT_SHA256
from provision.remote.session import Read, Session, Want

DEADLINE = 120.0


def collect_host(session: Session) -> Capture:
    """Read a host.  A fact that cannot be read is an item that says so; only the way to the host can fail.

    Raises a child of :class:`provision.errors.RemoteError`.
    """
    return _collect(session, HOST_WANTS, "host")


def collect_guest(session: Session, vmid: int) -> Capture:
    """Read a guest over a session of its own; the subject is ``guest/<vmid>``.  Raises as :func:`collect_host`."""
    return _collect(session, GUEST_WANTS, f"guest/{vmid}")


def merge(first: Capture, *others: Capture) -> Capture:
    """Return one capture with the items of all; the manifest is the first one's, notes are joined."""
    notes = tuple(dict.fromkeys(note for one in (first, *others) for note in one.manifest.notes))
    items = tuple(item for one in (first, *others) for item in one.items)
    blobs = {digest: data for one in (first, *others) for digest, data in one.blobs.items()}
    return Capture(first.manifest.model_copy(update={"notes": notes}), items, blobs)


def _collect(session: Session, wants: tuple[Want, ...], subject: str) -> Capture:
    created = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    items: dict[tuple[str, str], Item] = {}
    blobs: dict[str, bytes] = {}
    for item, data in _kept(session.read(wants, deadline=DEADLINE), subject):
        items.setdefault((item.kind, item.key), item)
        if item.sha256 is not None:
            blobs[item.sha256] = data
    hostname = items.get(("file", "/proc/sys/kernel/hostname"))
    manifest = Manifest(
        target=session.target,
        hostname=_text(blobs, hostname),
        created=created,
        agent_sha256=AGENT_SHA256,
        host_key=session.host_key,
        euid=session.euid,
        notes=_notes(session.euid, items.values()),
    )
    return Capture(manifest, tuple(items.values()), blobs)


def _kept(reads: Iterable[Read], subject: str) -> Iterable[tuple[Item, bytes]]:
    """Yield the items with their bytes, without what is secret."""
    for read in reads:
        item, data = read.item.model_copy(update={"subject": subject}), read.data
        if item.kind == "file" and secrets.is_secret(item.key):
            yield Item(subject=subject, key=item.key, kind="file", state="not_asked", reason="never collected"), b""
            continue
        if item.kind == "file" and item.sha256 is not None:
            masked = secrets.mask(item.key, data)
            if masked.names:
                data = masked.data
                update = {"reason": f"masked: {', '.join(masked.names)}", "sha256": hashlib.sha256(data).hexdigest()}
                item = item.model_copy(update=update)
        yield item, data


def _text(blobs: dict[str, bytes], item: Item | None) -> str:
    return blobs.get(item.sha256 or "", b"").decode("utf-8", "replace").strip() if item is not None else ""


def _notes(euid: int, items: Iterable[Item]) -> tuple[str, ...]:
    """Return what a reader must know of the capture as a whole."""
    kept = tuple(items)
    denied = sum(item.state == "denied" for item in kept)
    late = sum(item.state == "not_asked" and item.reason == "the time was up" for item in kept)
    masked = tuple(item.key for item in kept if item.reason.startswith("masked: "))
    notes = []
    if euid != 0:
        notes.append(f"read without root: {denied} facts were denied")
    if late:
        notes.append(f"the time was up: {late} facts were not asked for")
    notes.extend(f"secret values were replaced in {key}" for key in masked)
    return tuple(notes)
