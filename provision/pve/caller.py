"""One call of Proxmox' API, whether over HTTPS or by ``pvesh``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Protocol, Union

from provision.errors import PveError

Verb = Literal["get", "create", "set", "delete"]
"""As ``pvesh`` names them; GET, POST, PUT and DELETE over HTTP."""

Value = Union[str, int, bool, tuple[str, ...]]
Params = Mapping[str, Value]


class Caller(Protocol):
    """Makes calls with the credentials of one user on one host."""

    @property
    def way(self) -> Literal["api", "shell"]: ...

    @property
    def is_root(self) -> bool: ...

    @property
    def where(self) -> str:
        """The host for messages."""
        ...

    def call(self, verb: Verb, path: str, params: Params, *, action: str, timeout: float | None = None) -> Any:
        """Return the answer's data.

        ``path`` is made of checked names alone.  ``action`` completes "Unable to ...".  Raises a child of
        :class:`provision.errors.PveError` for a refusal, :class:`provision.pve.answers.OutcomeUnknown` where
        the answer to a write did not arrive, and a child of :class:`provision.errors.RemoteError` where the
        host was not reached.
        """
        ...


def plain(params: Params, *, action: str, where: str) -> dict[str, str | list[str]]:
    """Return parameters as Proxmox takes them: booleans as 1 and 0, lists never empty.

    An empty list vanishes from a form, and as JSON it makes a section that blocks every later write.
    """
    values: dict[str, str | list[str]] = {}
    for key, value in params.items():
        if isinstance(value, tuple):
            if not value:
                raise PveError(f"Unable to {action} on {where}: the list {key} is empty", "give at least one entry")
            values[key] = list(value)
        else:
            values[key] = str(int(value)) if isinstance(value, bool) else str(value)
    return values
