"""Write and release the record of GPUs that did not come back, on the host."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable

from provision.errors import PvectlError, StalePlan, UsageError
from provision.host.quarantine import QUARANTINE_FILE, Quarantined, parse_quarantine, quarantine_text
from provision.remote.session import Session, Want

_TRIES = 3


def read_quarantine(session: Session) -> tuple[Quarantined, ...]:
    """Return the GPUs in quarantine.  Raises PvectlError where the record cannot be read."""
    return _read(session)[0]


def add(session: Session, gpus: Iterable[Quarantined]) -> None:
    """Add to the record; a GPU that is in it already keeps its first entry."""
    new = tuple(gpus)

    def change(old: tuple[Quarantined, ...]) -> tuple[Quarantined, ...]:
        known = {gpu.bdf for gpu in old}
        return (*old, *(gpu for gpu in new if gpu.bdf not in known))

    _change(session, change)


def release(session: Session, bdf: str) -> Quarantined:
    """Take a GPU out of the record and return its entry.  Raises UsageError where it is not in it."""
    found = {gpu.bdf: gpu for gpu in read_quarantine(session)}
    if bdf not in found:
        listed = ", ".join(found) or "none"
        raise UsageError(
            f"Unable to release {bdf} on {session.target}: it is not in quarantine", f"in quarantine: {listed}"
        )
    _change(session, lambda old: tuple(gpu for gpu in old if gpu.bdf != bdf))
    return found[bdf]


def _read(session: Session) -> tuple[tuple[Quarantined, ...], str | None]:
    [read] = session.read([Want(kind="file", pattern=QUARANTINE_FILE)])
    if read.item.state == "absent":
        return (), None
    if read.item.state != "read":
        raise PvectlError(
            f"Unable to read {QUARANTINE_FILE} on {session.target}: {read.item.reason or read.item.state}",
            "run it as root",
        )
    gpus = parse_quarantine(read.data.decode("utf-8", "replace"), f"{QUARANTINE_FILE} on {session.target}")
    return gpus, hashlib.sha256(read.data).hexdigest()


def _change(session: Session, change: Callable[[tuple[Quarantined, ...]], tuple[Quarantined, ...]]) -> None:
    """Compare and swap: two controllers may find something at the same time."""
    for last in range(_TRIES):
        old, digest = _read(session)
        new = change(old)
        try:
            if new:
                text = quarantine_text(new).encode()
                session.write(QUARANTINE_FILE, text, expect=digest, mode=0o600, make_parents=True)
            elif digest is not None:
                session.remove(QUARANTINE_FILE, expect=digest)
        except StalePlan:
            if last == _TRIES - 1:
                raise
            continue
        return
