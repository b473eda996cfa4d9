"""Every error that pvectl raises on purpose.

    PvectlError                    1
    ├── UsageError                64   the command line
    │   └── InventoryError        64   the inventory file
    ├── RemoteError                1   the way to a host
    │   ├── NameNotFound           1
    │   ├── ConnectionRefused      1   also: no route, unreachable
    │   ├── UnknownHostKey         1
    │   ├── ChangedHostKey         1
    │   ├── AuthenticationFailed   1
    │   ├── NoPython               1
    │   ├── SudoNeeded             1
    │   ├── TimeLimit              1
    │   └── ConnectionCut          1
    ├── CaptureError               1   a capture that cannot be used
    ├── PveError                   1   Proxmox answered with an error
    │   ├── PveAuthFailed          1
    │   ├── PrivilegeMissing       1
    │   ├── GuestLocked            1
    │   ├── StaleDigest            1
    │   └── TaskFailed             1
    ├── Refused                    4   refused for safety
    │   ├── GuardRefused           4
    │   ├── ConsentNeeded          4
    │   └── StalePlan              4
    ├── ApplyStopped               5   stopped in the middle, receipts kept
    ├── RebootNeeded               6
    ├── VerifyFailed               7
    ├── Undecided                  8
    └── Interrupted              130

Only :mod:`provision.cli` catches these, prints them and exits.
"""

from __future__ import annotations

from typing import ClassVar


class PvectlError(Exception):
    """An error with a message for a person and one line of advice.

    ``message`` reads "Unable to <verb> <thing> on <host>: <cause>"; ``hint`` is one
    sentence that names what to do, and may be empty only where nothing can be done.
    """

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(PvectlError):
    exit_code = 64


class InventoryError(UsageError):
    """All problems of one inventory file; ``problems`` holds one line each."""

    def __init__(self, message: str, hint: str = "", problems: tuple[str, ...] = ()) -> None:
        super().__init__(message, hint)
        self.problems = problems


class RemoteError(PvectlError):
    """The way to a host failed.  ``host`` is the name the user typed."""

    def __init__(self, message: str, hint: str = "", host: str = "") -> None:
        super().__init__(message, hint)
        self.host = host


class NameNotFound(RemoteError):
    pass


class ConnectionRefused(RemoteError):
    pass


class UnknownHostKey(RemoteError):
    pass


class ChangedHostKey(RemoteError):
    pass


class AuthenticationFailed(RemoteError):
    pass


class NoPython(RemoteError):
    pass


class SudoNeeded(RemoteError):
    pass


class TimeLimit(RemoteError):
    pass


class ConnectionCut(RemoteError):
    pass


class CaptureError(PvectlError):
    pass


class PveError(PvectlError):
    """Proxmox answered with an error; ``status`` is the HTTP status or 0 (pvesh)."""

    def __init__(self, message: str, hint: str = "", status: int = 0) -> None:
        super().__init__(message, hint)
        self.status = status


class PveAuthFailed(PveError):
    pass


class PrivilegeMissing(PveError):
    """``path`` and ``privilege`` as Proxmox names them, for example ``/mapping/pci/h200``, ``Mapping.Modify``."""

    def __init__(self, message: str, hint: str = "", status: int = 403, path: str = "", privilege: str = "") -> None:
        super().__init__(message, hint, status)
        self.path = path
        self.privilege = privilege


class GuestLocked(PveError):
    pass


class StaleDigest(PveError):
    pass


class TaskFailed(PveError):
    pass


class Refused(PvectlError):
    exit_code = 4


class GuardRefused(Refused):
    """One or more devices that the host itself lives on would be taken."""


class ConsentNeeded(Refused):
    pass


class StalePlan(Refused):
    """What the plan was made from has changed; ``moved`` names each thing."""

    def __init__(self, message: str, hint: str = "", moved: tuple[str, ...] = ()) -> None:
        super().__init__(message, hint)
        self.moved = moved


class ApplyStopped(PvectlError):
    exit_code = 5


class RebootNeeded(PvectlError):
    exit_code = 6


class VerifyFailed(PvectlError):
    exit_code = 7


class Undecided(PvectlError):
    """``problems`` holds one line for each thing that was tried in vain."""

    exit_code = 8

    def __init__(self, message: str, hint: str = "", problems: tuple[str, ...] = ()) -> None:
        super().__init__(message, hint)
        self.problems = problems


class Interrupted(PvectlError):
    exit_code = 130


PRECEDENCE: tuple[int, ...] = (130, 64, 5, 4, 1, 7, 8, 6, 3, 2)
"""When several results hold, over many hosts too, the first of these wins."""


def worst(codes: list[int]) -> int:
    """Return the exit code that wins among ``codes`` (0 for none)."""
    for code in PRECEDENCE:
        if code in codes:
            return code
    return 0
