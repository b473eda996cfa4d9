"""Steps on files: what is there, is it as expected, write, read back."""

from __future__ import annotations

from provision.apply import places
from provision.apply.host_files import digest, folder_entries, folders_present, read_file
from provision.apply.link import Link
from provision.apply.records import FileFacts, FileRestore, FolderFacts, FolderRemove, State
from provision.errors import ApplyStopped, StalePlan
from provision.plan.model import FileRemove, FileWrite
from provision.remote.session import FileMeta, Session

FileOperation = FileWrite | FileRemove | FileRestore


def observe(op: FileOperation, link: Link) -> FileFacts:
    meta, _ = read_file(link.session, op.path)
    missing = _missing_folders(link.session, op.path) if meta.sha256 is None else ()
    return FileFacts(meta=meta, missing_folders=missing)


def is_ready(op: FileOperation, state: State) -> bool:
    return isinstance(state, FileFacts) and state.meta.sha256 == op.expect


def is_done(op: FileOperation, state: State) -> bool:
    if not isinstance(state, FileFacts):
        return False
    if isinstance(op, FileRemove):
        return state.meta.sha256 is None
    if isinstance(op, FileWrite):
        return state.meta.sha256 == digest(op.content.encode()) and state.meta.mode == op.mode
    has_time = op.meta.mtime_ns is None or state.meta.mtime_ns == op.meta.mtime_ns
    return same_file(state.meta, op.meta) and has_time


def expected(op: FileOperation) -> FileFacts:
    if isinstance(op, FileRestore):
        return FileFacts(meta=op.meta)
    if isinstance(op, FileRemove):
        return FileFacts(meta=FileMeta(path=op.path, sha256=None))
    return FileFacts(meta=FileMeta(path=op.path, sha256=digest(op.content.encode()), mode=op.mode))


def same_file(one: FileMeta, other: FileMeta) -> bool:
    """Whether content, mode and owner agree, as far as both know them."""
    if one.sha256 != other.sha256:
        return False
    pairs = ((one.mode, other.mode), (one.uid, other.uid), (one.gid, other.gid))
    return all(a == b for a, b in pairs if a is not None and b is not None)


def keep_backup(op: FileOperation, link: Link, run: str, number: int) -> str | None:
    """Store the file's present content in the run's folder.  Returns its path, ``None`` where there is no file."""
    meta, data = read_file(link.session, op.path)
    if meta.sha256 is None:
        return None
    path = places.backup(run, number, op.path)
    try:
        link.session.write(path, data, expect=None, mode=0o600)
    except StalePlan:
        kept, _ = read_file(link.session, path)
        if kept.sha256 != meta.sha256:  # an earlier try of this step kept something else
            raise
    return path


def act(op: FileOperation, link: Link) -> None:
    session = link.session
    if isinstance(op, FileWrite):
        session.write(op.path, op.content.encode(), expect=op.expect, mode=op.mode, make_parents=True)
    elif isinstance(op, FileRemove):
        session.remove(op.path, expect=op.expect)
    else:
        _restore(op, session)


def _restore(op: FileRestore, session: Session) -> None:
    if op.backup is None:
        if op.expect is not None:
            session.remove(op.path, expect=op.expect)
        return
    kept, data = read_file(session, op.backup)
    if kept.sha256 != op.meta.sha256:
        raise ApplyStopped(
            f"Unable to restore {op.path} on {session.target}: its backup {op.backup} is damaged or gone",
            "restore the file by hand from a copy of your own",
        )
    meta = op.meta
    session.write(
        op.path,
        data,
        expect=op.expect,
        mode=meta.mode,
        uid=meta.uid,
        gid=meta.gid,
        mtime_ns=meta.mtime_ns,
        make_parents=True,
    )


def observe_folders(op: FolderRemove, link: Link) -> FolderFacts:
    return FolderFacts(present=folders_present(link.session, op.paths))


def remove_folders(op: FolderRemove, link: Link) -> None:
    """Remove the folders that are empty; one that someone else uses meanwhile stays."""
    for path in op.paths:
        if not folder_entries(link.session, path):
            link.session.remove_folder(path)


def _missing_folders(session: Session, path: str) -> tuple[str, ...]:
    parts = path.split("/")[1:-1]
    above = tuple("/" + "/".join(parts[: i + 1]) for i in range(len(parts)))
    present = folders_present(session, above)
    return tuple(folder for folder in above if folder not in present)
