"""Open Proxmox' objects of one host by what the inventory gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from provision.errors import PveError
from provision.inventory.models import Api, Host, SecretRef
from provision.pve.https import connect_https
from provision.pve.names import NODE_NAME
from provision.pve.session import PveSession
from provision.pve.shell import ShellPve
from provision.pve.vm_power import silent
from provision.remote.connect import parse_target
from provision.remote.session import Session, Want

_NODES = "/etc/pve/nodes"
_CERTIFICATES = ("pveproxy-ssl.pem", "pve-ssl.pem")
"""pveproxy shows the first that exists (pve-cluster src/PVE/Cluster.pm)."""


def open_pve(
    host: Host | None,
    session: Session | None,
    secret_of: Callable[[SecretRef], str],
    *,
    name: str = "",
    tell: Callable[[str], None] = silent,
) -> PveSession:
    """Return Proxmox' objects by token, by ticket, or by the host's own ``pvesh``.

    With a session the API's certificate is read over it and pinned, unless the inventory names a
    ``ca_file`` or ``fingerprint``; where that session is a root shell, what Proxmox leaves to root@pam goes over it.
    ``name`` is the host's name for messages; ``tell`` hears what a write waits for and what Proxmox warns of.
    Raises :class:`PveError` where there is no way in.
    """
    api = host.api if host is not None else Api()
    if host is not None and api.auth != "none" and api.secret is not None:
        node, certificate = _own_certificate(session) if session is not None else (None, None)
        secret = secret_of(api.secret)
        beside = session if session is not None and session.euid == 0 else None
        return connect_https(
            api, _address(host), node, secret, name=name, certificate_pem=certificate, tell=tell, root_shell=beside
        )
    if session is None:
        raise PveError(
            "Unable to reach Proxmox: neither a session on the host nor credentials of its API are given",
            "give ssh access or api: {auth: token, ...} in the inventory",
        )
    return ShellPve(session, tell=tell)


def _address(host: Host) -> str:
    target = parse_target(host.address)
    return target.address if target.kind == "ssh" else "localhost"


def _own_certificate(session: Session) -> tuple[str | None, str | None]:
    """Return the node's name and the certificate that its API shows, ``None`` for what could not be read."""
    wants = [Want(kind="file", pattern="/etc/hostname")]
    wants += [Want(kind="file", pattern=f"{_NODES}/*/{name}") for name in _CERTIFICATES]
    found = {
        read.item.key: read.data.decode("utf-8", "replace") for read in session.read(wants) if read.item.state == "read"
    }
    node = found.get("/etc/hostname", "").strip().split(".")[0]
    if NODE_NAME.fullmatch(node) is None:
        return None, None
    return node, _first(found, [f"{_NODES}/{node}/{name}" for name in _CERTIFICATES])


def _first(found: Mapping[str, str], paths: list[str]) -> str | None:
    return next((found[path] for path in paths if path in found), None)
