"""Proxmox' API over HTTPS, by proxmoxer with its traps closed.

No environment proxies, no redirects, no foreign cookies; time limits on every call; the certificate is
checked before a token or password is sent; HTML and answers without data are no success; the whole
message of a refusal is kept.
"""

from __future__ import annotations

import http.cookiejar
import json
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal
from urllib.parse import urlsplit

import proxmoxer
import requests
import urllib3.exceptions

from provision.errors import (
    ConnectionCut,
    ConnectionRefused,
    NameNotFound,
    PveAuthFailed,
    PveError,
    RemoteError,
    TimeLimit,
)
from provision.inventory.models import Api
from provision.pve.answers import Answer, OutcomeUnknown, refusal
from provision.pve.caller import Params, Verb, plain
from provision.pve.https_auth import TicketAuth, Verify
from provision.pve.least_way import LeastWay
from provision.pve.objects import PveObjects
from provision.pve.pinning import PinnedAdapter, fingerprint_of, normal_fingerprint
from provision.pve.shell import ShellPve
from provision.pve.vm_power import silent
from provision.remote.session import Session

PORT: Final = 8006
CONNECT_TIMEOUT_S: Final = 10.0
READ_TIMEOUT_S: Final = 40.0
"""Above the 30 s after which Proxmox' own proxy gives up, so that its answer is seen."""


class HttpsCaller:
    """A :class:`provision.pve.caller.Caller` over one pinned, verified session."""

    def __init__(self, api: Any, where: str, *, is_root: bool, ticket: TicketAuth | None, port: int = PORT) -> None:
        self._api = api
        self._where = where
        self._port = port
        self._is_root = is_root
        self._ticket = ticket
        self._session: requests.Session = api._store["session"]  # noqa: SLF001 (proxmoxer has no public way)
        self._last: requests.Response | None = None
        self._session.hooks["response"].append(self._keep)

    @property
    def way(self) -> Literal["api", "shell"]:
        return "api"

    @property
    def is_root(self) -> bool:
        return self._is_root

    @property
    def where(self) -> str:
        return self._where

    def call(self, verb: Verb, path: str, params: Params, *, action: str, timeout: float | None = None) -> Any:
        """Make one call.  ``timeout`` is that of a task behind it and does not count here."""
        del timeout
        values = plain(params, action=action, where=self._where)
        try:
            return self._once(verb, path, values, action)
        except PveAuthFailed:
            if self._ticket is None or not self._ticket.is_logged_in:
                raise
        # A ticket dies with the host's clock or key; the call was refused, so it may be made again.
        self._guarded(verb, action, self._ticket.log_in)
        return self._once(verb, path, values, action)

    def _once(self, verb: Verb, path: str, values: Mapping[str, Any], action: str) -> Any:
        self._last = None
        try:
            data = self._guarded(verb, action, lambda: getattr(self._api(path.lstrip("/")), verb)(**values))
        except proxmoxer.ResourceException as error:
            raise self._refused(verb, action, error) from error
        if isinstance(data, dict) and set(data) == {"errors"}:
            raise self._no_answer(action, "the answer is not from Proxmox' API")
        return data

    def _guarded(self, verb: Verb, action: str, make: Any) -> Any:
        """Run ``make`` and turn what requests raises into our errors."""
        try:
            return make()
        except requests.exceptions.TooManyRedirects as error:
            raise self._no_answer(action, "the server sends elsewhere") from error
        except KeyError as error:
            raise self._no_answer(action, "the answer holds no data") from error
        except requests.exceptions.RequestException as error:
            raise self._lost(verb, action, error) from error

    def _keep(self, response: requests.Response, *_: Any, **__: Any) -> None:
        self._last = response

    def _refused(self, verb: Verb, action: str, error: Any) -> PveError:
        status = int(error.status_code)
        body = _body(self._last)
        message = str(body.get("message") or error.content or "")
        found = body.get("errors")
        details = {str(k): str(v) for k, v in found.items()} if isinstance(found, dict) else {}
        made = refusal(action, self._where, Answer(status, message, details))
        if status == 596 and verb != "get":
            return OutcomeUnknown(made.message, made.hint, status)
        return made

    def _no_answer(self, action: str, cause: str) -> PveError:
        return PveError(
            f"Unable to {action} on {self._where}: {cause}",
            "check the address and port of the API in the inventory: is a proxy or another server there?",
        )

    def _lost(self, verb: Verb, action: str, error: requests.exceptions.RequestException) -> PveError | RemoteError:
        start = f"Unable to {action} on {self._where}"
        if isinstance(error, requests.exceptions.SSLError):
            return PveError(
                f"{start}: the certificate of the API is not trusted ({_cause(error)})",
                "give ca_file or fingerprint in the inventory; nothing secret was sent",
            )
        unsent = _unsent(error, start, self._where, self._port)
        if unsent is not None:
            return unsent
        if verb != "get":
            return OutcomeUnknown(f"{start}: the answer did not arrive ({_cause(error)})")
        if isinstance(error, requests.exceptions.Timeout):
            return TimeLimit(f"{start}: no answer within {READ_TIMEOUT_S:.0f} s", "", self._where)
        return ConnectionCut(f"{start}: the connection was cut ({_cause(error)})", "", self._where)


def _unsent(error: requests.exceptions.RequestException, start: str, where: str, port: int) -> RemoteError | None:
    """Return the error for a request that never left, ``None`` where it may have been carried out."""
    if isinstance(error, requests.exceptions.ConnectTimeout):
        return TimeLimit(f"{start}: no connection within {CONNECT_TIMEOUT_S:.0f} s", f"is port {port} open?", where)
    reason = getattr(error.args[0], "reason", None) if error.args else None
    if isinstance(reason, urllib3.exceptions.NameResolutionError):
        return NameNotFound(
            f"{start}: the name is not known", f"give api.url: https://ADDRESS:{port} in the inventory", where
        )
    if isinstance(reason, urllib3.exceptions.NewConnectionError):
        return ConnectionRefused(f"{start}: {_cause(error)}", f"is pveproxy running, and port {port} open?", where)
    return None


def _cause(error: BaseException) -> str:
    """Return the innermost reason in a few words, without addresses of Python objects."""
    inner: BaseException = error
    while True:
        below = getattr(inner, "reason", None) or (inner.args[0] if inner.args else None)
        if not isinstance(below, BaseException):
            break
        inner = below
    text = inner.args[-1] if inner.args and isinstance(inner.args[-1], str) else str(inner)
    return text.rpartition(">: ")[2].strip() or type(inner).__name__


def _body(response: requests.Response | None) -> dict[str, Any]:
    if response is None:
        return {}
    try:
        body = json.loads(response.content)
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}


def connect_https(
    api: Api,
    address: str,
    node: str | None,
    secret: str,
    *,
    name: str = "",
    certificate_pem: str | None = None,
    timeouts: tuple[float, float] = (CONNECT_TIMEOUT_S, READ_TIMEOUT_S),
    tell: Callable[[str], None] = silent,
    root_shell: Session | None = None,
) -> PveObjects:
    """Open Proxmox' API on ``address`` with the credentials of ``api`` and ``secret``.

    Trust, in this order: ``api.fingerprint``, ``api.ca_file``, ``certificate_pem`` (read over a verified
    way), the system's authorities.  ``node`` is asked for where it is not given.  ``name`` is the host's name for
    messages, beside the address; ``tell`` hears what a write waits for.  Credentials other than root@pam's leave what
    is root@pam's to ``root_shell``, where there is one.
    """
    host, port = _place(api, address)
    where = f"{name} (API {host}:{port})" if name else f"{host}:{port}"
    pin = _pin(api, certificate_pem)
    verify: Verify = api.ca_file if api.ca_file is not None else pin is None
    client = proxmoxer.ProxmoxAPI(
        host,
        backend="https",
        port=port,
        user=api.user,
        # A ticket replaces this below: proxmoxer's own log-in would send the password unpinned.
        token_name=api.token_name if api.auth == "token" else "none",
        token_value=secret if api.auth == "token" else "none",
        verify_ssl=verify,
        timeout=timeouts,
    )
    ticket = TicketAuth(api.user or "", secret, verify, timeouts, where) if api.auth == "ticket" else None
    _harden(client, pin, ticket)
    caller = HttpsCaller(client, where, is_root=ticket is not None and api.user == "root@pam", ticket=ticket, port=port)
    name_of_node = node or own_node(caller)
    if root_shell is None or caller.is_root:
        return PveObjects(caller, name_of_node, tell=tell)
    shell = root_shell
    return LeastWay(caller, name_of_node, lambda: ShellPve(shell, name_of_node, tell=tell), tell=tell)


def own_node(caller: HttpsCaller) -> str:
    """Return the name of the node that answers."""
    try:
        rows = caller.call("get", "/cluster/status", {}, action="find the node's name")
        names = [str(row["name"]) for row in rows if row.get("type") == "node" and int(row.get("local", 0)) == 1]
    except PveError as error:
        if error.status != 403:
            raise
        names = [str(row["node"]) for row in caller.call("get", "/nodes", {}, action="find the node's name")]
    if len(names) != 1:
        raise PveError(
            f"Unable to find the node's name on {caller.where}: these credentials see {len(names)} nodes",
            "give them Sys.Audit on /",
        )
    return names[0]


def _place(api: Api, address: str) -> tuple[str, int]:
    if api.url is None:
        return address, PORT
    parts = urlsplit(api.url)
    return parts.hostname or address, parts.port or PORT


def _pin(api: Api, certificate_pem: str | None) -> str | None:
    if api.fingerprint is not None:
        return normal_fingerprint(api.fingerprint)
    if api.ca_file is None and certificate_pem is not None:
        return fingerprint_of(certificate_pem)
    return None


def _harden(client: Any, pin: str | None, ticket: TicketAuth | None) -> None:
    session: requests.Session = client._store["session"]  # noqa: SLF001 (proxmoxer has no public way)
    session.trust_env = False
    session.max_redirects = 0
    session.cookies.set_policy(http.cookiejar.DefaultCookiePolicy(allowed_domains=[]))
    if pin is not None:
        session.mount("https://", PinnedAdapter(pin))
    if ticket is not None:
        session.auth = ticket
        ticket.attach(session, client._store["base_url"])  # noqa: SLF001 (as above)
