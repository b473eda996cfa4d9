"""A change of one file, with its diff and its way back."""

from __future__ import annotations

from provision.errors import CaptureError
from provision.evidence import Unknown
from provision.host.model import FileState
from provision.plan.boot_source import readable
from provision.plan.context import Context
from provision.plan.diffs import file_diff
from provision.plan.model import Change, FileRemove, FileWrite


def present_text(context: Context, path: str) -> str | None:
    """Return a file's text, ``None`` where it does not exist.  Raises CaptureError where it is not known."""
    state, folders = context.model.files.get(path), context.model.folders
    if state is None and not isinstance(folders, Unknown) and path.rsplit("/", 1)[0] in folders:
        return None
    text = readable(state, path)
    if isinstance(text, Unknown):
        raise CaptureError(
            f"Unable to plan for {context.name}: {text.unknown}", text.supply or "take a new capture as root"
        )
    return text


def file_change(
    context: Context,
    *,
    id: str,
    path: str,
    content: str | None,
    title: str,
    reason: str,
    needs_reboot: bool = False,
    depends_on: tuple[str, ...] = (),
) -> Change:
    """Return the change that writes ``content``, or removes the file for ``None``."""
    before = present_text(context, path)
    state = context.model.files.get(path)
    operation: FileWrite | FileRemove
    if content is None:
        operation = FileRemove(path=path, expect=_sha256(state))
        undo = f"write {path} as it was, from the run's backup"
    else:
        exists = before is not None
        mode = state.mode if exists and state is not None and state.mode is not None else 0o644
        operation = FileWrite(path=path, content=content, expect=_sha256(state) if exists else None, mode=mode)
        undo = f"write {path} as it was, from the run's backup" if exists else f"remove {path}"
    return Change(
        id=id,
        title=title,
        operation=operation,
        diff=file_diff(path, before, content),
        reason=reason,
        privilege="root-shell",
        needs_reboot=needs_reboot,
        undo=undo,
        depends_on=depends_on,
    )


def _sha256(state: FileState | None) -> str:
    digest = state.sha256 if state is not None else None
    if not isinstance(digest, str):
        raise CaptureError("Unable to plan: the digest of a file to change is not known", "take a new capture as root")
    return digest
