"""From what the user typed to a session."""

from __future__ import annotations

import os
import re
from typing import Any

from provision.errors import UsageError
from provision.remote.session import Session, Target

DOOR_VARIABLE = "PVECTL_LAB_DOOR"

_USER = r"(?:(?P<user>[^@\s:/]+)@)?"
_V6 = re.compile(_USER + r"\[(?P<host>[0-9a-fA-F:.]+(?:%[\w.-]+)?)\](?::(?P<port>\d+))?")
_NAME = re.compile(_USER + r"(?P<host>[A-Za-z0-9_](?:[A-Za-z0-9._-]*))(?::(?P<port>\d+))?")


def parse_target(text: str, **options: Any) -> Target:
    """Read ``local``, ``[user@]host[:port]`` or ``[user@][v6]:port``.

    ``options`` are fields of :class:`Target` such as ``identity_file``.  Without a user the one of ssh_config is
    taken, else root: ``user`` is then empty.  Raises :class:`provision.errors.UsageError`.
    """
    text = text.strip()
    if text == "local":
        return Target(name="local", kind="local", **{"user": "", **options})
    match = _V6.fullmatch(text) or _NAME.fullmatch(text)
    if match is None:
        raise UsageError(
            f"Unable to read the target {text!r}: it is no [user@]host[:port]",
            "write root@pve1, root@pve1:2222, root@[2001:db8::1]:22 or local",
        )
    port = int(match["port"]) if match["port"] else None
    if port is not None and not 1 <= port <= 65535:
        raise UsageError(f"Unable to read the target {text!r}: there is no port {port}", "give a port from 1 to 65535")
    fields: dict[str, Any] = {"name": text, "kind": "ssh", "address": match["host"], "user": match["user"] or ""}
    return Target(**{**fields, "port": port, **options})


def connect(target: Target, *, lab_door: str | None = None) -> Session:
    """Open a session: the agent runs on the host when this returns.

    ``local`` is this machine, or the lab's host where ``lab_door`` or the variable PVECTL_LAB_DOOR names a unix
    socket.  Raises a child of :class:`provision.errors.RemoteError`.
    """
    if target.kind == "ssh":
        from provision.remote.ssh import open_ssh  # noqa: PLC0415 - fabric costs 170 ms and a local session needs none

        return open_ssh(target)
    from provision.remote.local import open_door, open_local  # noqa: PLC0415 - symmetric with the line above

    door = lab_door or os.environ.get(DOOR_VARIABLE)
    return open_door(door, target.name) if door else open_local(target.name)
