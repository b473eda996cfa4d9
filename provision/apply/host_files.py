"""Reading single files of a host through its session: the bytes and what the file was."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from provision.capture.model import Item
from provision.errors import PvectlError
from provision.remote.session import FileMeta, Read, Session, Want

BOOT_ID = "/proc/sys/kernel/random/boot_id"
LIMIT = 64 * 1024 * 1024
BOOT_SECONDS = 15.0
"""A host that goes down may leave a connection open that never answers again: do not wait long for four words."""


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def read_file(session: Session, path: str) -> tuple[FileMeta, bytes]:
    """Return what stands at ``path`` and its bytes (empty where it does not exist).

    Raises PvectlError where the host cannot say: a file that was not read is not an absent file.
    """
    return read_files(session, (path,))[0]


def read_files(session: Session, paths: Sequence[str], *, deadline: float = 60.0) -> list[tuple[FileMeta, bytes]]:
    """Like :func:`read_file`, for several paths in one round trip."""
    answers = session.read([Want(kind="file", pattern=path, limit=LIMIT) for path in paths], deadline=deadline)
    by_path = {answer.item.key: answer for answer in answers}
    return [_judge(session, path, by_path.get(path)) for path in paths]


def _judge(session: Session, path: str, answer: Read | None) -> tuple[FileMeta, bytes]:
    if answer is None or answer.item.state == "absent":
        return FileMeta(path=path, sha256=None), b""
    item = answer.item
    if item.state != "read":
        raise _unreadable(session, item)
    mode = None if item.mode is None else item.mode & 0o7777
    meta = FileMeta(
        path=path, sha256=digest(answer.data), mode=mode, uid=item.uid, gid=item.gid, mtime_ns=item.mtime_ns
    )
    return meta, answer.data


def read_matches(session: Session, patterns: Sequence[str]) -> dict[str, bytes]:
    """Return the files that match the globs, by path.  Raises PvectlError for one that cannot be read."""
    answers = session.read([Want(kind="file", pattern=pattern, limit=LIMIT) for pattern in patterns])
    found: dict[str, bytes] = {}
    for answer in answers:
        if answer.item.state == "read":
            found[answer.item.key] = answer.data
        elif answer.item.state != "absent":
            raise _unreadable(session, answer.item)
    return found


def folders_present(session: Session, paths: Sequence[str]) -> tuple[str, ...]:
    """Return those of ``paths`` that are folders now."""
    answers = session.read([Want(kind="dir", pattern=path) for path in paths])
    present = {answer.item.key for answer in answers if answer.item.state in ("read", "truncated", "denied")}
    return tuple(path for path in paths if path in present)


def folder_entries(session: Session, path: str) -> tuple[str, ...]:
    """Return the names in a folder; none where it does not exist."""
    for answer in session.read([Want(kind="dir", pattern=path)]):
        if answer.item.state == "read":
            return tuple(answer.data.decode("utf-8", "surrogateescape").splitlines())
        if answer.item.state != "absent":
            raise _unreadable(session, answer.item)
    return ()


def boot_id(session: Session) -> str:
    """Return the kernel's boot_id.  Raises PvectlError where it cannot be read."""
    meta, data = read_files(session, (BOOT_ID,), deadline=BOOT_SECONDS)[0]
    if meta.sha256 is None:
        raise PvectlError(f"Unable to tell boots apart on {session.target}: {BOOT_ID} is missing", "mount /proc there")
    return data.decode("ascii", "replace").strip()


def _unreadable(session: Session, item: Item) -> PvectlError:
    cause = {"denied": "permission denied", "truncated": "the file is too long"}.get(item.state, item.reason)
    return PvectlError(
        f"Unable to read {item.key} on {session.target}: {cause or item.state}",
        "run pvectl as root on that host, or as a user with passwordless sudo",
    )
