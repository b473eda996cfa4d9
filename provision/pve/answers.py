"""Turn Proxmox' refusals into our errors.  Pure: status and text in, error out.

The texts are those of pve-access-control, pve-guest-common, pve-cluster and qemu-server; recorded
exchanges are the test.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from provision.errors import GuestLocked, PrivilegeMissing, PveAuthFailed, PveError, StaleDigest

NO_ANSWER: Final = (595, 596)
"""Statuses of Proxmox' own proxy: the node behind it refused the connection, or did not answer in 30 s."""


class OutcomeUnknown(PveError):
    """The answer to a write did not arrive: it may have been carried out, now or later."""


@dataclass(frozen=True)
class Answer:
    """One refusal: HTTP status (0 from ``pvesh``), the whole message and the details by parameter."""

    status: int
    message: str
    details: Mapping[str, str]

    @property
    def text(self) -> str:
        """The message with its details in one line."""
        lines = [line.strip() for line in self.message.splitlines() if line.strip()]
        lines += [f"{name}: {' '.join(text.split())}" for name, text in sorted(self.details.items())]
        return "; ".join(lines) or f"status {self.status} without a message"


_PERMISSION = re.compile(r"Permission check failed(?: \((?P<path>[^,]+), (?P<privilege>[^)]+)\))?")
_ROOT_ONLY = re.compile(
    r"only root can set '[^']+' config|only root@pam can |Only root may use this option"
    r"|not available with API token, need proper ticket"
)
_STALE: Final = ("detected modified configuration - file changed by other user", "checksum mismatch (file change by")
_LOCKED = re.compile(r"VM is locked(?: \((?P<lock>[^)]+)\))?")
_NO_QUORUM = re.compile(r"no quorum|not quorate|/etc/pve/.*Permission denied", re.IGNORECASE)
"""Of pve-cluster's locks and checks, of pve-ha-manager, and of any write of a file that pmxcfs refuses (EACCES)."""
_BUSY = re.compile(r"cfs-lock '(?P<cluster>[^']+)' error: got lock request timeout|can't lock file '(?P<file>[^']+)'")
_EMPTY_SECTION: Final = "unknown section type ''"


def lock_of(text: str) -> str | None:
    """Return the lock that a refusal names, ``None`` where it is about something else.

    ``create`` is none that ends by itself where the mapping unit holds a VM back: it is no lock to wait for.
    """
    held, busy = _LOCKED.search(text), _BUSY.search(text)
    if held is not None:
        return None if held["lock"] == "create" else f"lock {held['lock'] or 'without a name'}"
    if busy is None:
        return None
    return f"the cluster's lock {busy['cluster']}" if busy["cluster"] else f"the lock file {busy['file']}"


def refusal(action: str, where: str, answer: Answer) -> PveError:
    """Return the error for ``answer``.

    ``action`` completes "Unable to ...": ``write mapping gpu-0``; ``where`` names the host.
    """
    message = f"Unable to {action} on {where}: {answer.text}"
    for make in (_rights, _state, _cluster):
        error = make(message, answer)
        if error is not None:
            return error
    return PveError(message, _advice(answer), answer.status)


def _rights(message: str, answer: Answer) -> PveError | None:
    if answer.status == 401:
        return PveAuthFailed(
            message, "check user, token name and secret in the inventory, and whether they expired", answer.status
        )
    if _ROOT_ONLY.search(answer.text):
        hint = (
            "Proxmox lets only root@pam do this, and a token of root@pam is not root@pam: "
            "use a root shell (auth: none over SSH) or root@pam's password (auth: ticket)"
        )
        return PrivilegeMissing(message, hint, answer.status, privilege="root@pam")
    denied = _PERMISSION.search(answer.text)
    if denied is None or answer.status not in (0, 403):
        return None
    path, privilege = denied["path"] or "", denied["privilege"] or ""
    first = privilege.split("|")[0] or "the privilege named in its documentation"
    return PrivilegeMissing(
        message, f"give the user or token {first} on {path or 'the object'}", answer.status, path, privilege
    )


def _state(message: str, answer: Answer) -> PveError | None:
    locked = _LOCKED.search(answer.text)
    if locked is not None:
        what = locked["lock"] or "another task"
        if what == "create":
            hint = (
                "where nobody is making it, the mapping unit held it back: correct its raw hostpci slot, then qm unlock"
            )
            return GuestLocked(message, hint, answer.status)
        return GuestLocked(message, f"wait until {what} has ended; `qm unlock` only if it died", answer.status)
    if any(text in answer.text for text in _STALE):
        return StaleDigest(message, "it was changed in the meantime: read it again and make a new plan", answer.status)
    return None


def _cluster(message: str, answer: Answer) -> PveError | None:
    if _NO_QUORUM.search(answer.text):
        hint = "the cluster has no quorum, so /etc/pve is read-only: bring the other nodes back (pvecm status)"
        return PveError(message, hint, answer.status)
    return None


_ADVICE: Final[tuple[tuple[Callable[[Answer], object], str], ...]] = (
    (
        lambda answer: _EMPTY_SECTION in answer.text,
        "a mapping in /etc/pve/mapping/pci.cfg has no valid entry and blocks every write: create it anew, same id",
    ),
    (lambda answer: _BUSY.search(answer.text), "another task holds the lock, such as a VM start: try again later"),
    (lambda answer: answer.status == 595, "the API of that node does not answer: is pveproxy running there?"),
    (lambda answer: answer.status == 596, "the node took longer than Proxmox waits: look at its task log"),
    (lambda answer: answer.status == 501, "this version of Proxmox VE does not know the call: 8.0 or later is needed"),
)


def _advice(answer: Answer) -> str:
    return next((hint for applies, hint in _ADVICE if applies(answer)), "")
