"""Across a reboot: ask for it, drop the connection, wait with fresh ones until boot_id has changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from provision.apply.host_files import boot_id
from provision.apply.link import Link
from provision.apply.outcome import ApplyOptions, Seams
from provision.errors import (
    ApplyStopped,
    ChangedHostKey,
    ConnectionCut,
    Interrupted,
    PvectlError,
    RemoteError,
    TimeLimit,
    UnknownHostKey,
)
from provision.remote.session import Session

ASK_TIMEOUT = 20.0
"""Seconds for the answer to ``systemctl reboot``; the machine may be gone before it comes."""

REPORT_EVERY = 30.0
"""Seconds between two lines of progress that say the same."""


@dataclass
class Waiting:
    """What waiting needs.  ``way_on`` is the command that goes on after a stop, ``outlook`` what the dead-man does."""

    link: Link
    options: ApplyOptions
    report: Callable[[str], None]
    seams: Seams
    way_on: str
    outlook: str = ""

    @property
    def advice(self) -> str:
        """How to get in where the host does not come back."""
        will = f"{self.outlook}; " if self.outlook else ""
        return f"look at its console or BMC; {will}when it is up: {self.way_on}"

    def until(self, attempt: Callable[[], str], what: str, advice: str) -> None:
        """Repeat ``attempt`` until it returns no cause; raise ApplyStopped at the deadline, saying the last cause."""
        began = self.seams.monotonic()
        limit = self.options.reboot_deadline
        said, said_at = "", 0.0
        while True:
            if self.seams.interrupted():
                raise Interrupted("Stopped while waiting for the host")
            cause = attempt()
            if not cause:
                return
            waited = self.seams.monotonic() - began
            if waited > limit:
                raise ApplyStopped(f"Unable to go on: {what} did not come in {waited:.0f} seconds: {cause}", advice)
            if cause != said or waited - said_at >= REPORT_EVERY:
                self.report(f"waiting for {what}, {waited:.0f} of {limit:.0f} s: {cause}")
                said, said_at = cause, waited
            self.seams.sleep(min(self.options.poll, max(0.5, waited / 5)))


def reboot(waiting: Waiting, old: str) -> str:
    """Reboot the host that runs boot ``old`` and come back with a fresh session.  Returns the new boot_id.

    On the host itself this process ends with the host.
    """
    link = waiting.link
    target = link.session.target
    if not link.session.host_key:
        waiting.report(f"where this machine is the host, it goes down now; after the boot: {waiting.way_on}")
    waiting.report(f"rebooting {target}" + (f"; {waiting.outlook}" if waiting.outlook else ""))
    _ask(waiting)
    link.drop()
    return wait_for_boot(waiting, old)


def wait_for_boot(waiting: Waiting, old: str) -> str:
    """Wait until the host runs another boot than ``old``, and take a session to it.  Returns the new boot_id."""
    link = waiting.link
    found: list[str] = []
    waiting.until(lambda: _attempt(link, old, found), f"the new boot of {link.session.target}", waiting.advice)
    return found[0]


def is_going_down(session: Session) -> bool:
    """Whether systemd is about to shut the host down: asked for by an earlier command, and not over yet."""
    try:
        result = session.run(("systemctl", "is-system-running"), timeout=ASK_TIMEOUT)
    except (ConnectionCut, TimeLimit):
        return True
    return result.stdout.strip() == b"stopping"


def _ask(waiting: Waiting) -> None:
    link = waiting.link
    try:
        result = link.session.run(("systemctl", "reboot"), timeout=ASK_TIMEOUT)
    except (ConnectionCut, TimeLimit):
        return  # the answer did not come: whether the host reboots shows in its boot_id
    if result.rc != 0 and not result.timed_out:
        cause = result.stderr.decode("utf-8", "replace").strip() or f"exit status {result.rc}"
        waiting.report(f"systemctl reboot was refused ({cause}); asking Proxmox")
        link.pve.node_reboot()


def _attempt(link: Link, old: str, found: list[str]) -> str:
    """Connect once.  Returns why the new boot is not there yet; empty once the session is taken."""
    try:
        session = link.fresh()
    except (ChangedHostKey, UnknownHostKey):
        raise  # another machine may answer there: never go on
    except RemoteError as error:
        return error.message
    new, cause = _boot_of(session)
    if new in ("", old):
        session.close()
        return cause or "it still runs the old boot"
    link.take(session)
    found.append(new)
    return ""


def _boot_of(session: Session) -> tuple[str, str]:
    """Return boot_id, or why it could not be read: a host that goes down answers for a while."""
    try:
        return boot_id(session), ""
    except PvectlError as error:
        return "", error.message


def wait_for_proxmox(waiting: Waiting) -> None:
    """Wait until Proxmox answers and the node may write: after a boot its API is up before the quorum is."""
    waiting.until(
        lambda: _not_ready(waiting.link),
        f"Proxmox on {waiting.link.session.target}",
        f"look at: systemctl status pve-cluster pvedaemon; then {waiting.way_on}",
    )


def _not_ready(link: Link) -> str:
    try:
        link.open_pve()
        link.pve.version()
        return "" if link.pve.quorate() else "the node has no quorum"
    except RemoteError:
        raise
    except PvectlError as error:
        return error.message
