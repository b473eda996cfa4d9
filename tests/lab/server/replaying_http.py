"""Recorded exchanges about credentials, made again through the server's own reading of headers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from provision.lab.api_server import PREFIX, ApiServer, Request
from provision.lab.proxmox.access import Caller
from provision.lab.proxmox.faults import CallFailed
from provision.lab.proxmox.node import Node

from .replaying import Answered, Replay, compare, is_served, node_for

SECRET = "the-token"


class Credentials:
    """Headers by the recording's name of who asked."""

    def __init__(self, node: Node) -> None:
        node.access.add_token(Caller("root@pam!pvectl", everything=True), SECRET)
        self.node = node
        self.ticket, self.csrf = node.access.login("root@pam", node.access.password)

    def headers(self, who: str) -> dict[str, str]:
        cookie = {"cookie": f"PVEAuthCookie={quote(self.ticket, safe='')}"}
        dead = {"cookie": "PVEAuthCookie=PVE%3Aroot%40pam%3A00000000%3A%3Adead"}
        right = {"authorization": f"PVEAPIToken=root@pam!pvectl={SECRET}"}
        known = {
            "no-auth": {},
            "root-token": right,
            "wrong-token-secret": {"authorization": "PVEAPIToken=root@pam!pvectl=wrong"},
            "unknown-token-id": {"authorization": f"PVEAPIToken=root@pam!other={SECRET}"},
            "token-unknown-user": {"authorization": f"PVEAPIToken=nobody@pve!pvectl={SECRET}"},
            "token-malformed": {"authorization": "PVEAPIToken=garbage"},
            "token-malformed-2": {"authorization": f"PVEAPIToken root@pam!pvectl={SECRET}"},
            "token-wrong-scheme": {"authorization": f"Bearer {SECRET}"},
            "garbage-ticket": {"cookie": "PVEAuthCookie=garbage"},
            "expired-ticket": dead,
            "root-ticket": {**cookie, "csrfpreventiontoken": self.csrf},
            "root-ticket-without-csrf": cookie,
            "root-ticket-bad-csrf": {**cookie, "csrfpreventiontoken": "garbage"},
            "root-ticket-expired-csrf": {**cookie, "csrfpreventiontoken": "00000000:dead"},
            "root-ticket+wrong-token": {**cookie, "authorization": "PVEAPIToken=root@pam!pvectl=wrong"},
            "expired-ticket+right-token": {**dead, **right},
        }
        return known[who]


def replay_http(name: str, rows: list[dict[str, Any]], folder: Path) -> Replay:
    """Make the calls of a scenario about credentials."""
    node = node_for(name, folder)
    server, credentials, result = ApiServer(node, folder), Credentials(node), Replay()
    for row in rows:
        if is_served(row, row["path"], result):
            compare(_without_secrets(row), row["path"], _ask(server, credentials, row), result)
    return result


def _ask(server: ApiServer, credentials: Credentials, row: dict[str, Any]) -> Answered:
    params = dict(row["params"])
    if params.get("password"):
        params["password"] = credentials.node.access.password if row["status"] == 200 else "wrong"
    text = urlencode(params)
    reads = row["method"] == "GET"
    request = Request(
        method=row["method"],
        path=PREFIX + row["path"],
        query=text if reads else "",
        headers=credentials.headers(row["as"]),
        body=b"" if reads else text.encode(),
    )
    try:
        data = server._call(request, request.path)["data"]
    except CallFailed as error:
        return error.status, error.reason, None if error.bare else _shown(error.errors), None
    return 200, "OK", None, _shown(data)


def _shown(value: Any) -> Any:
    """Take out what the recording took out, and what it says of rights that no call of pvectl reads."""
    if not isinstance(value, dict):
        return value
    kept = {key: item for key, item in value.items() if key not in ("ticket", "CSRFPreventionToken", "cap")}
    return {key: "REDACTED" if key == "password" else item for key, item in kept.items()}


def _without_secrets(row: dict[str, Any]) -> dict[str, Any]:
    body = json.loads(json.dumps(row["body"])) or {}
    if isinstance(body.get("data"), dict):
        body["data"] = _shown(body["data"])
    if isinstance(body.get("errors"), dict):
        body["errors"] = _shown(body["errors"])
    return {**row, "body": body}
