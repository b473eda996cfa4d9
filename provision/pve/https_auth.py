"""Log in to Proxmox' API by password and keep the ticket fresh."""

from __future__ import annotations

import time
from typing import Any, Union
from urllib.parse import quote

import requests
from requests.auth import AuthBase

from provision.errors import PveAuthFailed

_RENEW_AFTER_S = 3600.0
"""A ticket lives for two hours (pve-access-control)."""

Verify = Union[bool, str]


class TicketAuth(AuthBase):
    """Cookie on every call, CSRF token on everything but GET.

    Proxmoxer's own log-in posts the password outside of its session, before any pin is looked at; this one
    goes through the pinned session.  Proxmoxer's session reads ``verify_ssl``, ``timeout`` and ``get_cookies``.
    """

    def __init__(self, user: str, password: str, verify: Verify, timeout: tuple[float, float], where: str) -> None:
        self.verify_ssl = verify
        self.timeout = timeout
        self._user = user
        self._password = password
        self._where = where
        self._session: requests.Session | None = None
        self._url = ""
        self._ticket = ""
        self._csrf = ""
        self._born = 0.0

    @property
    def is_logged_in(self) -> bool:
        return bool(self._ticket)

    def attach(self, session: requests.Session, base_url: str) -> None:
        self._session = session
        self._url = f"{base_url}/access/ticket"

    def get_cookies(self) -> None:
        """Return none: the cookie is set with the other headers, so that no server cookie can hide it."""

    def log_in(self) -> None:
        """Fetch a ticket.  Raises :class:`PveAuthFailed`; what requests raises goes to the caller."""
        if self._session is None:
            raise RuntimeError("attach a session first")
        answer = requests.Session.request(
            self._session,
            "POST",
            self._url,
            data={"username": self._user, "password": self._password},
            auth=_anonymous,
            verify=self.verify_ssl,
            timeout=self.timeout,
        )
        self._ticket = ""
        data = _data(answer)
        if data.get("NeedTFA"):
            raise self._failed("the account asks for a second factor", "use an API token (auth: token)")
        if answer.status_code != 200 or not data.get("ticket"):
            raise self._failed(answer.reason or f"status {answer.status_code}", "check user (root@pam) and password")
        self._ticket, self._csrf = str(data["ticket"]), str(data.get("CSRFPreventionToken", ""))
        self._born = time.monotonic()

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        if not self._ticket or time.monotonic() - self._born > _RENEW_AFTER_S:
            self.log_in()
        request.headers["Cookie"] = f"PVEAuthCookie={quote(self._ticket, safe='')}"
        if request.method != "GET":
            request.headers["CSRFPreventionToken"] = self._csrf
        return request

    def _failed(self, cause: str, hint: str) -> PveAuthFailed:
        return PveAuthFailed(f"Unable to log in as {self._user} on {self._where}: {cause}", hint, 401)


def _anonymous(request: requests.PreparedRequest) -> requests.PreparedRequest:
    return request


def _data(answer: requests.Response) -> dict[str, Any]:
    try:
        body = answer.json()
    except ValueError:
        return {}
    data = body.get("data") if isinstance(body, dict) else None
    return data if isinstance(data, dict) else {}
