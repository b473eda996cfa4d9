"""``rollback --all`` and ``--to``: undo many runs, newest first; with ``--all`` no file of ours stays on the host."""

from __future__ import annotations

from collections.abc import Callable

from provision.apply import consent, places, runs
from provision.apply.begin import finished, not_begun
from provision.apply.host_files import boot_id, folder_entries, folders_present, read_file
from provision.apply.link import Link
from provision.apply.lock import acquire
from provision.apply.outcome import WORLD, ApplyOptions, Ask, Report, RunOutcome, Seams
from provision.apply.reboot import Waiting, reboot, wait_for_proxmox
from provision.apply.rollback import undo
from provision.errors import Refused
from provision.pve.session import PveSession
from provision.remote.session import Session

PURGE = "rollback-all"
"""The lock's word for the last act, which no run's name can be."""


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
        consent.check_reboot(seams.read_host(session), session, options)
    try:
        return _all(link, options, report, seams)
    finally:
        link.close()


def rollback_to(
    wanted: str,
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
    """Undo every run after ``wanted``, newest first: the host is as that run left it.  Raises like the others.

    With ``options.reboot`` the host reboots once, at the end.
    """
    link = Link(session, pve, connect, connect_pve)
    target = runs.choose(runs.load_all(session), session, wanted, lambda _: False)
    if target is None or target.start.kind != "apply" or not target.is_done or target.is_undone:
        raise Refused(
            f"Unable to go back to run {wanted} on {session.target}: it is no apply that stands complete",
            "name another run, or undo a single one with: pvectl rollback RUN",
        )
    later = _left(session, target.start.sequence)
    if not later:
        return RunOutcome(kind="rollback", status="nothing", run=None, notes=(f"no run after {wanted} is left",))
    names = ", ".join(run.id for run in reversed(later))
    consent.ask_for(f"Undo {len(later)} runs on {session.target} ({names})?", ask)
    if options.reboot:
        consent.check_reboot(seams.read_host(session), session, options)
    try:
        return _Many(link, options, report, seams).undo(target.start.sequence).outcome()
    finally:
        link.close()


def _all(link: Link, options: ApplyOptions, report: Report, seams: Seams) -> RunOutcome:
    many = _Many(link, options, report, seams).undo(0)
    remove_home(link.session, seams)
    many.titles.append(f"Remove {places.HOME}")
    return many.outcome()


class _Many:
    """Undoes runs without a reboot between them, and reboots once at the end."""

    def __init__(self, link: Link, options: ApplyOptions, report: Report, seams: Seams) -> None:
        self.link, self.options, self.report, self.seams = link, options, report, seams
        self.titles: list[str] = []
        self.starts: set[int] = set()
        self.needs_reboot = False

    def undo(self, after: int) -> _Many:
        """Undo every run whose sequence number is larger than ``after``."""
        quiet = self.options.model_copy(update={"reboot": False})
        session = self.link.session
        while left := _left(session, after):
            existing = runs.load_all(session)
            outcome, undoing = undo(left[-1], existing, self.link, quiet, lambda _: True, self.report, self.seams)
            self.titles += outcome.steps
            self.needs_reboot |= undoing.needs_reboot
            self.starts |= set(undoing.starts) if undoing.needs_reboot else set()
        return self

    def outcome(self) -> RunOutcome:
        starts = sorted(self.starts)
        if self.needs_reboot and self.options.reboot:
            self.report("one reboot for all of them; no dead-man watches it (see: rollback of a single run)")
            _reboot(self.link, self.options, self.report, self.seams, starts)
            self.needs_reboot = False
        return _outcome(self.titles, needs_reboot=self.needs_reboot, starts=starts)


def _left(session: Session, after: int) -> list[runs.Run]:
    """Return the runs that are to be undone, oldest first."""
    return [
        run
        for run in runs.load_all(session)
        if run.start.kind == "apply" and not run.is_undone and run.start.sequence > after
    ]


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
            link.pve.vm_start(vmid, progress=report)


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
