"""Why the agent did not start or a connection is of no use: from what the far side left behind to an error."""

from __future__ import annotations

from provision.errors import ConnectionCut, NoPython, RemoteError, SudoNeeded, TimeLimit
from provision.remote.bootstrap import COMPLAINT
from provision.remote.channel import Ending

INSTALL_PYTHON = "install python3 (3.9 or newer) on the host: apt install python3"

HINTS = {
    "denied": "connect as root, or as a user who may run sudo without a password",
    "read-only": "find out why the file system is read-only (mount, dmesg) and mount it read-write",
    "immutable": "look at it with lsattr, and remove the flag with chattr -i if nobody needs it",
    "full": "free space on the host's file system and run the command again",
    "symlink": "replace the link by a file, or make the change in the file it points to",
    "not-a-file": "look at what is there and move it away",
    "absent": "check that the folder exists on the host",
    "not-empty": "look at what else is in the folder",
}
NO_QUORUM = "below /etc/pve nothing can be written without quorum: check with pvecm status"


def hint(code: str, path: str = "") -> str:
    """Return the advice for an agent's refusal."""
    if code == "denied" and path.startswith("/etc/pve/"):
        return NO_QUORUM
    return HINTS.get(code, "look at the file on the host, then run the command again")


def not_started(host: str, ending: Ending, noise: bytes, *, sudo_user: str) -> RemoteError:
    """Return the error for a stream that ended before the agent answered.

    ``noise`` is what came on standard output; ``sudo_user`` the login where sudo was used, else empty.
    """
    said = _last_line(ending.stderr) or _last_line(noise.decode("utf-8", "replace"))
    text = f"Unable to start the agent on {host}: "
    if ending.stderr and (old := _complaint(ending.stderr)):
        if "newer is needed" in old:
            return NoPython(text + old, INSTALL_PYTHON, host)
        return ConnectionCut(text + old, "connect again; if it stays, the way to the host changes bytes", host)
    if sudo_user and "sudo" in ending.stderr and "python3" not in said:
        cause = "there is no sudo" if ending.rc == 127 else f"sudo refuses {sudo_user} without a password"
        return SudoNeeded(
            text + f"{cause} ({said})",
            f"connect as root, or allow it on the host: echo '{sudo_user} ALL=(root) NOPASSWD: ALL' "
            f"> /etc/sudoers.d/{sudo_user}",
            host,
        )
    if ending.rc in (126, 127) or ("python3" in said and ("not found" in said or "No such file" in said)):
        return NoPython(text + f"there is no python3 ({said or 'status 127'})", INSTALL_PYTHON, host)
    if ending.rc is None:
        return ConnectionCut(
            text + "the connection was cut" + (f" ({said})" if said else ""),
            "check that the host is up and that its SSH server allows commands, then try again",
            host,
        )
    return RemoteError(
        text + f"the login ended with status {ending.rc}" + (f": {said}" if said else ""),
        "check that the user may run commands there: ssh the host and type python3 --version",
        host,
    )


def noisy(host: str, problem: str) -> RemoteError:
    return RemoteError(
        f"Unable to start the agent on {host}: {problem}",
        "silence the start-up files of the login shell for sessions without a terminal",
        host,
    )


def start_time_limit(host: str, seconds: float) -> RemoteError:
    return TimeLimit(
        f"Unable to start the agent on {host}: no answer within {seconds:g} s",
        "check that `ssh HOST true` ends by itself: a start-up file of the login shell may wait for input",
        host,
    )


def broken(verb: str, host: str, why: str) -> RemoteError:
    """Return the error for a call on a session that is of no use any more."""
    return ConnectionCut(
        f"Unable to {verb} on {host}: this session ended before ({why})", "open a new connection to the host", host
    )


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:200] if lines else ""


def _complaint(stderr: str) -> str:
    """Return what the bootstrap itself complains of, or an empty text."""
    found = [line for line in stderr.splitlines() if line.startswith(COMPLAINT)]
    return found[-1].removeprefix(COMPLAINT).strip() if found else ""
