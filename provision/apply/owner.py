"""Who runs this program: written to the lock, and asked again before a lock is taken over."""

from __future__ import annotations

import getpass
import os
import socket
from pathlib import Path
from typing import Literal

from provision.evidence import Frozen


class Owner(Frozen):
    """The controller's process.  ``started`` and ``boot`` tell a reused process id from the old process."""

    owner: str
    pid: int
    host: str
    started: str = ""
    """Field 22 of /proc/<pid>/stat, empty where there is no /proc."""
    boot: str = ""


def this_process() -> Owner:
    """Return the owner that this process is."""
    pid = os.getpid()
    return Owner(owner=_user(), pid=pid, host=socket.gethostname(), started=_started(pid), boot=_boot_id())


def alive(owner: Owner) -> Literal["self", "yes", "no", "elsewhere"]:
    """Say whether the process still runs; ``elsewhere`` where it ran on another machine and cannot be seen."""
    if owner.host != socket.gethostname():
        return "elsewhere"
    if owner == this_process():
        return "self"
    if owner.boot != _boot_id() or not _exists(owner.pid):
        return "no"
    return "yes" if owner.started == _started(owner.pid) else "no"


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _started(pid: int) -> str:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    return stat.rpartition(")")[2].split()[19]


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""
