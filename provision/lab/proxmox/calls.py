"""The API calls that pvectl makes, served on a node's state; the HTTPS server, ``pvesh`` and ``qm`` share them."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from provision.lab.proxmox import call_create, call_guests, call_mappings, call_node
from provision.lab.proxmox.access import Caller
from provision.lab.proxmox.call import Call, Params
from provision.lab.proxmox.faults import CallFailed, bad_parameters, no_node
from provision.lab.proxmox.formats import MISSING, NOT_IN_SCHEMA
from provision.lab.proxmox.node import Node

METHODS = ("GET", "POST", "PUT", "DELETE")
_VMID = re.compile(r"[1-9]\d{2,8}")


@dataclass(frozen=True)
class Found:
    call: Call
    path: Params


CALLS: tuple[Call, ...] = (*call_node.CALLS, *call_mappings.CALLS, *call_guests.CALLS, *call_create.CALLS)
"""Every call the lab serves; a path outside answers 501 as an unknown one does."""


def find(method: str, path: str) -> Found:
    """Return the call for a path below ``/api2/json``.  Raises 501."""
    if method not in METHODS:
        raise CallFailed(f"method '{method}' not available", 501, bare=True)
    for call in CALLS:
        match = call.regex.fullmatch(path)
        if match is not None and call.method == method:
            return Found(call, match.groupdict())
    raise CallFailed(f"Method '{method} {path}' not implemented", 501, bare=True)


def perform(node: Node, caller: Caller, method: str, path: str, params: dict[str, Any]) -> Any:
    """Perform one call: path parameters, privilege, parameters, act.  Raises CallFailed."""
    found = find(method, path)
    if node.stalled is not None and method != "GET":
        node.stalled.append(lambda: perform(node, caller, method, path, params))
        raise CallFailed("Connection timed out", 596, bare=True)
    call = found.call
    _check_vmid(found.path.get("vmid"))
    if call.require is not None:
        call.require(node, caller, found.path, params)
    _check_params(call, params)
    where = found.path.get("node")
    if where is not None and not node.is_local(where):
        no_node(where)
    return call.act(node, caller, found.path, params)


def _check_vmid(vmid: str | None) -> None:
    if vmid is None or _VMID.fullmatch(vmid):
        return
    if not vmid.isdigit():
        bad_parameters({"vmid": f"type check ('integer') failed - got '{vmid}'"})
    bad_parameters({"vmid": "invalid format - value does not look like a valid VM ID\n"})


def _check_params(call: Call, params: dict[str, Any]) -> None:
    errors: dict[str, str] = {}
    for name, value in params.items():
        check: Callable[[Any], dict[str, str] | str | None] | None = call.check_of(name)
        wrong = NOT_IN_SCHEMA if check is None else check(value)
        if isinstance(wrong, dict):
            errors |= wrong
        elif wrong is not None:
            errors[name] = wrong
    errors |= {name: MISSING for name in call.required if name not in params}
    if errors:
        bad_parameters(errors)
