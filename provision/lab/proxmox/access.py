"""Who asks, and what he may: root@pam, tokens, tickets, privileges along ACL paths."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field

from provision.lab.proxmox.faults import CallFailed, denied

PRIVILEGES: tuple[str, ...] = (
    "Datastore.Allocate", "Datastore.AllocateSpace", "Datastore.AllocateTemplate", "Datastore.Audit",
    "Group.Allocate", "Mapping.Audit", "Mapping.Modify", "Mapping.Use", "Permissions.Modify", "Pool.Allocate",
    "Pool.Audit", "Realm.Allocate", "Realm.AllocateUser", "SDN.Allocate", "SDN.Audit", "SDN.Use",
    "Sys.AccessNetwork", "Sys.Audit", "Sys.Console", "Sys.Incoming", "Sys.Modify", "Sys.PowerMgmt", "Sys.Syslog",
    "User.Modify", "VM.Allocate", "VM.Audit", "VM.Backup", "VM.Clone", "VM.Config.CDROM", "VM.Config.CPU",
    "VM.Config.Cloudinit", "VM.Config.Disk", "VM.Config.HWType", "VM.Config.Memory", "VM.Config.Network",
    "VM.Config.Options", "VM.Console", "VM.GuestAgent.Audit", "VM.GuestAgent.FileRead",
    "VM.GuestAgent.FileSystemMgmt", "VM.GuestAgent.FileWrite", "VM.GuestAgent.Unrestricted", "VM.Migrate",
    "VM.PowerMgmt", "VM.Replicate", "VM.Snapshot", "VM.Snapshot.Rollback",
)  # fmt: skip
ALWAYS: tuple[str, ...] = ("/", "/access", "/access/groups", "/nodes", "/pool", "/sdn", "/storage", "/vms")
"""ACL paths that ``GET /access/permissions`` lists beside those of the entries themselves."""


@dataclass(frozen=True)
class Caller:
    """One authenticated party.  ``is_root`` is root@pam itself; a token of root@pam is not."""

    name: str
    """``root@pam`` or ``root@pam!pvectl``."""
    is_root: bool = False
    everything: bool = False
    """Inherits every privilege, as a root@pam token without privilege separation does."""
    acl: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def privileges(self, path: str) -> frozenset[str]:
        """Return the privileges at an ACL path: the nearest entry above it wins."""
        if self.is_root or self.everything:
            return frozenset(PRIVILEGES)
        while path:
            if path in self.acl:
                return self.acl[path]
            path = path.rsplit("/", 1)[0] or ("/" if path != "/" else "")
        return frozenset()

    def may(self, path: str, *any_of: str) -> bool:
        return bool(self.privileges(path) & set(any_of))

    def require(self, path: str, *any_of: str) -> None:
        """Raise 403 with Proxmox' text unless one of the privileges is there."""
        if not self.may(path, *any_of):
            denied(path, "|".join(any_of))

    def permissions(self) -> dict[str, dict[str, int]]:
        """The body of ``GET /access/permissions``."""
        paths = {*ALWAYS, *self.acl, *(parent for path in self.acl for parent in _parents(path))}
        found = {path: self.privileges(path) for path in sorted(paths)}
        return {path: dict.fromkeys(sorted(privileges), 1) for path, privileges in found.items() if privileges}


def _parents(path: str) -> list[str]:
    parts = path.split("/")[1:-1]
    return ["/" + "/".join(parts[: count + 1]) for count in range(len(parts))]


ROOT = Caller("root@pam", is_root=True)


class Access:
    """The credentials of one node."""

    def __init__(self) -> None:
        self.password = secrets.token_urlsafe(18)
        """Of root@pam."""
        self.tokens: dict[str, tuple[str, Caller]] = {}
        self.tickets: dict[str, str] = {}
        """CSRF token by ticket; all of root@pam."""

    def add_token(self, caller: Caller, secret: str) -> None:
        self.tokens[caller.name] = (secret, caller)

    def login(self, username: str, password: str) -> tuple[str, str]:
        """Return a new ticket and its CSRF token.  Raises 401 for anybody but root@pam with the password."""
        if username != "root@pam" or not hmac.compare_digest(password.encode(), self.password.encode()):
            raise CallFailed("authentication failure\n", 401)
        ticket = f"PVE:root@pam:{secrets.token_hex(4).upper()}::{secrets.token_urlsafe(48)}"
        csrf = f"{secrets.token_hex(4).upper()}:{secrets.token_urlsafe(32)}"
        self.tickets[ticket] = csrf
        return ticket, csrf

    def authenticate(self, *, ticket: str | None, csrf: str | None, token: str | None, writes: bool) -> Caller:
        """Return who asks.  A ticket wins over a token, right or wrong.  Raises 401 without a body."""
        if ticket is not None:
            return self._by_ticket(ticket, csrf, writes=writes)
        if token is None:
            raise CallFailed("No ticket", 401, bare=True)
        return self._by_token(token)

    def _by_ticket(self, ticket: str, csrf: str | None, *, writes: bool) -> Caller:
        expected = self.tickets.get(ticket)
        if expected is None:
            raise CallFailed("Authentication failed!", 401, bare=True)
        if writes and not hmac.compare_digest(expected.encode(), (csrf or "").encode()):
            raise CallFailed("Permission denied - invalid csrf token", 401, bare=True)
        return ROOT

    def _by_token(self, token: str) -> Caller:
        name, found, secret = token.partition("=")
        expected, caller = self.tokens.get(name, ("", ROOT))
        if not found or not expected or not hmac.compare_digest(expected.encode(), secret.encode()):
            raise CallFailed("Authentication failed!", 401, bare=True)
        return caller
