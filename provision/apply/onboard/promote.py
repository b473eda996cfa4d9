"""After the proof: what the one-shot entry carried becomes the default, step by step with intent and receipt.

The steps are those of the plan whose phase is ``at-confirm``.  They come before the decision: until it is made the
dead-man still restores everything, and a confirmation that could not make the new set-up the default is none.
"""

from __future__ import annotations

import hashlib
from pathlib import PurePosixPath
from typing import Any

from provision.apply.onboard.host import LONG, Failed, Host, Json, replace_file, sync_folder, sync_write
from provision.apply.onboard.once import Once
from provision.apply.onboard.run import Run

GENERATORS = {
    "update-grub": ("update-grub",),
    "boot-refresh": ("proxmox-boot-tool", "refresh"),
    "update-initramfs": ("update-initramfs", "-u", "-k", "all"),
    "udev-reload": ("udevadm", "control", "--reload"),
}
CLEARED = "boot.once.clear"


def promote(run: Run, once: Once) -> None:
    """Do every step that has no receipt yet, and take the entry away.  Raises Failed."""
    changes = [change for change in run.plan()["changes"] if change["phase"] == "at-confirm"]
    left = [(number, change) for number, change in enumerate(changes) if not run.receipt(change["id"])]
    if left or not run.receipt(CLEARED):
        run.tell("promoting")
    for number, change in left:
        if change["operation"]["op"] == "action.run":
            generate_step(run, change)
        else:
            file_step(run, change, number)
    clear_step(run, once)


def file_step(run: Run, change: Json, number: int) -> None:
    operation, step = change["operation"], change["id"]
    path = operation["path"]
    text = operation.get("content")
    wanted = None if text is None else hashlib.sha256(text.encode()).hexdigest()
    before, begun = file_state(run.host, path), run.intent(step)
    now = before["meta"]["sha256"]
    if now not in (operation["expect"], *([wanted] if begun else [])):
        raise Failed(f"{path} changed since the plan was made")
    if begun is None:
        after = {"path": path, "sha256": wanted, "mode": operation.get("mode")}
        expected = {"kind": "file", "meta": after, "missing_folders": []}
        begin(run, step, before, expected, keep_backup(run, path, number))
    if now != wanted:
        put_file(run.host, path, text, operation.get("mode"), before["meta"])
    end(run, step, begun["before"] if begun else before, file_state(run.host, path))


def begin(run: Run, step: str, before: Json, expected: Json, backup: Any = None) -> None:
    intent = {"event": "intent", "step": step, "before": before, "expected": expected}
    run.write({**intent, "backup": backup, "needs_reboot": True})


def end(run: Run, step: str, before: Json, after: Json) -> None:
    note = "done on the host, at the confirmation"
    run.write({"event": "receipt", "step": step, "before": before, "after": after, "note": note})


def file_state(host: Host, path: str) -> Json:
    place = host.at(path)
    meta: Json = {"path": path, "sha256": host.digest(path)}
    if meta["sha256"] is not None:
        about = place.stat()
        times = {"mtime_ns": about.st_mtime_ns}
        meta = {**meta, "mode": about.st_mode & 0o7777, "uid": about.st_uid, "gid": about.st_gid, **times}
    above = [] if meta["sha256"] is not None else [str(folder) for folder in reversed(PurePosixPath(path).parents)]
    missing = [folder for folder in above if not host.at(folder).is_dir()]
    return {"kind": "file", "meta": meta, "missing_folders": missing}


def keep_backup(run: Run, path: str, number: int) -> Any:
    """Store the present content in the run's folder and return its path, ``None`` where there is no file."""
    place = run.host.at(path)
    if not place.is_file():
        return None
    kept = f"{run.folder}/backup/confirm-{number}-{PurePosixPath(path).name}"
    sync_write(run.host.at(kept), place.read_bytes())
    sync_folder(run.host.at(kept).parent)
    return kept


def put_file(host: Host, path: str, text: Any, mode: Any, before: Json) -> None:
    place = host.at(path)
    if text is None:
        place.unlink()
        sync_folder(place.parent)
        return
    owner = {"uid": before.get("uid"), "gid": before.get("gid")}
    replace_file(place, text.encode(), {"mode": mode, "mtime_ns": None, **owner})


def generate_step(run: Run, change: Json) -> None:
    name = change["operation"]["name"]
    state = {"kind": "action", "name": name}
    if run.intent(change["id"]) is None:
        begin(run, change["id"], state, state)
    generate(run.host, name)
    run.host.run(("sync",), LONG)
    end(run, change["id"], state, state)


def generate(host: Host, name: str) -> str:
    """Run what generates the boot loader's files and return the command.  Raises Failed, also for a skipped ESP."""
    argv = GENERATORS[name]
    said = host.said(argv, LONG)
    skipped = [line for line in said.splitlines() if line.startswith("W") and "skipping" in line.lower()]
    if skipped and name != "udev-reload":
        raise Failed(f"{' '.join(argv)} does not reach every ESP: {skipped[0].strip()}")
    return " ".join(argv)


def clear_step(run: Run, once: Once) -> None:
    """Take the entry away; a crash may have let somebody put it there again, so a receipt is no proof."""
    before = once.observe()
    if before["sha256"] is None and not before["armed"] and run.receipt(CLEARED):
        return
    begin(run, CLEARED, before, {**before, "sha256": None, "armed": False})
    once.clear()
    end(run, CLEARED, before, once.observe())
