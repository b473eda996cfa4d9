"""Roles and ACL entries that give a token what pvectl needs and no more, as ``pveum`` commands."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from provision.errors import UsageError
from provision.evidence import Frozen
from provision.pve.privileges import Need
from provision.remote.quoting import join

ROLE: Final = "gpu-passthrough"
_ROLE_ID: Final = re.compile(r"[A-Za-z0-9._-]+")
_RESERVED: Final = "pve"
"""Proxmox keeps every role name that begins so, in any case, for itself: ``pvectl`` cannot be one."""


class Grant(Frozen):
    """Privileges at one ACL path."""

    path: str
    privileges: tuple[str, ...]
    propagate: bool = True


def role_name(text: str) -> str:
    """Return ``text`` if Proxmox takes it as the name of a role.  Raises :class:`UsageError`."""
    if _ROLE_ID.fullmatch(text) is None or text.lower().startswith(_RESERVED):
        raise UsageError(
            f"Unable to use {text!r} as the name of a role: Proxmox takes letters, digits, ., _ and -, "
            "and no name that begins with PVE in any case",
            f"choose a name such as {ROLE}",
        )
    return text


def grants(needs: Iterable[Need]) -> tuple[Grant, ...]:
    """Return the least ACL entries that meet every need that a token can have; one for each path.

    Of alternatives (``A|B``) one that is needed at that path anyway is taken, else the first.  Entries of single
    mappings are joined at ``/mapping/pci``: new mappings come and go.
    """
    wanted: dict[str, set[str]] = {}
    open_: list[tuple[str, tuple[str, ...]]] = []
    for need in needs:
        if need.who != "token":
            continue
        path = "/mapping/pci" if need.path.startswith("/mapping/pci") else need.path
        choices = tuple(need.privilege.split("|"))
        if len(choices) == 1:
            wanted.setdefault(path, set()).add(choices[0])
        else:
            open_.append((path, choices))
    for path, choices in open_:
        held = wanted.setdefault(path, set())
        if not held & set(choices):
            held.add(choices[0])
    return tuple(Grant(path=p, privileges=tuple(sorted(wanted[p])), propagate=p != "/") for p in sorted(wanted))


def commands(
    found: Sequence[Grant], *, user: str, token: str, role: str = ROLE, is_new: bool = True
) -> tuple[str, ...]:
    """Return the ``pveum`` commands, one a line, for a root shell of a node.

    ``is_new`` also makes the user and the token.  The token is separated, so that user and token both get the
    entries; root@pam has everything, and only its token gets them.
    """
    roles = _roles(found, role_name(role))
    made: list[tuple[str, ...]] = [
        ("pveum", "role", "add", name, "--privs", ",".join(privileges)) for privileges, name in roles.items()
    ]
    if is_new and user != "root@pam":
        made.append(("pveum", "user", "add", user, "--comment", "pvectl"))
    if is_new:
        made.append(("pveum", "user", "token", "add", user, token, "--privsep", "1"))
    holders = ["--tokens", f"{user}!{token}"] + ([] if user == "root@pam" else ["--users", user])
    for grant in found:
        propagate = [] if grant.propagate else ["--propagate", "0"]
        words = ["pveum", "acl", "modify", grant.path, *holders, "--roles", roles[grant.privileges], *propagate]
        made.append(tuple(words))
    return tuple(join(words) for words in made)


def _roles(found: Iterable[Grant], role: str) -> Mapping[tuple[str, ...], str]:
    """Name one role for each set of privileges by the first path that has it."""
    names: dict[tuple[str, ...], str] = {}
    for grant in found:
        top = grant.path.split("/")[1] or "root"
        name = f"{role}-{top}"
        while grant.privileges not in names and name in names.values():
            name += "-more"
        names.setdefault(grant.privileges, name)
    return names
