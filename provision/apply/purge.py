"""``rollback --all``: undo every run, newest first, then leave no file of ours on the host."""

from __future__ import annotations

from collections.abc import Callable

from provision.apply import consent, places, runs
from provision.apply.begin import finished, not_begun
from provision.apply.host_files import boot_id, folder_entries, folders_present, read_file
from provision.apply.link import Link
from provision.apply.lock import acquire
from provision.apply.outcome import WORLD, ApplyOptions, RunOutcome, Seams
from provision.apply.reboot import Waiting, reboot, wait_for_proxmox
from provision.apply.rollback import undo
from provision.pve.session import PveSession
from provision.remote.session import Session

PURGE = "rollback-all"
"""The lock's word for the last act, which no run's name can be."""

Ask = Callable[[str], bool]
Report = Callable[[str], None]


def rollback_all(
    session: Session,
    pve: PveSession,
    *,
    options: ApplyOptions,
    ask: Ask,
    report: Report,
    connect: Callable[[], Session],
    connect_pve: Callable[[Session], PveSession],
    seams: Seams = WORLD,
) -> RunOutcome:
    """Undo every run and remove ``/var/lib/pvectl``.  Raises like :func:`provision.apply.rollback.rollback`.

    With ``options.reboot`` the host reboots once, at the end.
    """
    link = Link(session, pve, connect, connect_pve)
    if not folders_present(session, (places.HOME,)):
        return RunOutcome(kind="rollback", status="nothing", run=None, notes=("no file of pvectl is on the host",))
    consent.ask_for(f"Undo every run on {session.target} and remove {places.HOME}?", ask)
    if options.reboot:
        consent.check_reboot(seams.read_host(session), session.target, options)
    try:
        return _all(link, options, report, seams)
    finally:
        link.close()


def _all(link: Link, options: ApplyOptions, report: Report, seams: Seams) -> RunOutcome:
    quiet = options.model_copy(update={"reboot": False})
    titles: list[str] = []
    starts: set[int] = set()
    needs_reboot = False
    while (run := _next(link.session)) is not None:
        outcome, undoing = undo(run, runs.load_all(link.session), link, quiet, lambda _: True, report, seams)
        titles += outcome.steps
        needs_reboot |= undoing.needs_reboot
        starts |= set(undoing.starts) if undoing.needs_reboot else set()
    remove_home(link.session, seams)
    titles.append(f"Remove {places.HOME}")
    if needs_reboot and options.reboot:
        _reboot(link, options, report, seams, sorted(starts))
        needs_reboot = False
    return _outcome(titles, needs_reboot=needs_reboot, starts=sorted(starts))


def _next(session: Session) -> runs.Run | None:
    return runs.choose(
        runs.load_all(session), session, None, lambda run: run.start.kind == "apply" and not run.is_undone
    )


def _outcome(titles: list[str], *, needs_reboot: bool, starts: list[int]) -> RunOutcome:
    notes = ("the host runs with the old settings again after a reboot",) if needs_reboot else ()
    if needs_reboot and starts:
        notes = (*notes, f"start after the reboot: {', '.join(f'VM {vmid}' for vmid in starts)}")
    return RunOutcome(
        kind="rollback",
        status="reboot-needed" if needs_reboot else "done",
        run=None,
        steps=tuple(titles),
        notes=notes,
        next_command="systemctl reboot" if needs_reboot else "",
    )


def _reboot(link: Link, options: ApplyOptions, report: Report, seams: Seams, starts: list[int]) -> None:
    waiting = Waiting(link, options, report, seams, "look with: pvectl doctor")
    reboot(waiting, boot_id(link.session))
    wait_for_proxmox(waiting)
    for vmid in starts:
        if link.pve.vm_status(vmid) == "stopped":
            report(f"Start VM {vmid}")
            link.pve.vm_start(vmid, timeout=options.start_timeout, progress=report)


def remove_home(session: Session, seams: Seams) -> None:
    """Remove every file below ``/var/lib/pvectl``, the journals after their backups and the lock last."""
    existing = runs.load_all(session)
    orphan = not_begun(session, existing)
    takes = finished(existing) | {PURGE} | ({orphan} if orphan else set())
    lock = acquire(session, PURGE, seams.now(), takes=frozenset(takes))
    files, folders = _walk(session, places.HOME)
    for path in sorted(files, key=lambda path: (path.endswith("/journal.jsonl"), path)):
        meta, _ = read_file(session, path)
        if meta.sha256 is not None and path != places.LOCK:
            session.remove(path, expect=meta.sha256)
    for folder in sorted(folders, key=lambda folder: -folder.count("/")):
        session.remove_folder(folder)
    lock.release(session)
    session.remove_folder(places.HOME)


def _walk(session: Session, top: str) -> tuple[list[str], list[str]]:
    """Return the files and the folders below ``top``."""
    paths = [f"{top}/{name}" for name in folder_entries(session, top)]
    folders = list(folders_present(session, paths)) if paths else []
    files = [path for path in paths if path not in folders]
    for folder in tuple(folders):
        more_files, more_folders = _walk(session, folder)
        files += more_files
        folders += more_folders
    return files, folders
